//! The supported families and what each takes for granted.

/// The families that share the one decoder block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Qwen 2 and 2.5: biases on query, key and value.
    Qwen2,
    /// Qwen 3: norms on every query and key head.
    Qwen3,
    /// Llama 2 and 3, DeepSeek-Math and the many that took this shape.
    Llama,
    /// Mistral 7B: a sliding window on every layer.
    Mistral,
}

/// What a family's configuration class in transformers holds for keys that config.json lacks. The numbers not
/// listed here are the same for all families.
pub(super) struct Defaults {
    pub vocab_size: usize,
    pub intermediate_size: usize,
    /// None: as many as there are heads.
    pub kv_heads: Option<usize>,
    /// None: hidden size over heads.
    pub head_dim: Option<usize>,
    pub max_position_embeddings: usize,
}

impl Family {
    pub(super) fn from_model_type(model_type: &str) -> Option<Self> {
        Some(match model_type {
            "qwen2" => Self::Qwen2,
            "qwen3" => Self::Qwen3,
            "llama" => Self::Llama,
            "mistral" => Self::Mistral,
            _ => return None,
        })
    }

    /// The class that `architectures` names for a language model of this family.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Llama => "LlamaForCausalLM",
            Self::Mistral => "MistralForCausalLM",
        }
    }

    pub(super) fn defaults(self) -> Defaults {
        let (vocab_size, intermediate_size, kv_heads, head_dim, max_position_embeddings) = match self {
            Self::Qwen2 => (151_936, 22_016, Some(32), None, 32_768),
            Self::Qwen3 => (151_936, 22_016, Some(32), Some(128), 32_768),
            Self::Llama => (32_000, 11_008, None, None, 2048),
            Self::Mistral => (32_000, 14_336, Some(8), None, 131_072),
        };
        Defaults { vocab_size, intermediate_size, kv_heads, head_dim, max_position_embeddings }
    }
}
