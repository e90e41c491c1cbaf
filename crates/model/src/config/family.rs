//! The supported families, and all that tells them apart in config.json: one table. Whether a checkpoint then has biases,
//! head norms or windows is a value of [`ModelConfig`](super::ModelConfig); nothing else asks for the family.

/// A family of models that share the one decoder block, and what it takes for granted.
#[derive(Debug, PartialEq)]
pub struct Family {
    /// What people call it.
    pub name: &'static str,
    /// What config.json calls it.
    pub model_type: &'static str,
    /// The class that `architectures` names for a language model of this family.
    pub architecture: &'static str,
    /// What config.json need not say.
    pub(super) defaults: Defaults,
    /// What `attention_bias` adds to.
    pub(super) attention_bias: AttentionBias,
    /// Whether every query and key head is RMS-normed before rotation.
    pub(super) qk_norm: bool,
    /// Which layers attend through a sliding window.
    pub(super) windows: Windows,
    /// Flags that some loaders read and others ignore, so that the model trained with them cannot be known.
    pub(super) unheeded: &'static [&'static str],
}

/// What a family's configuration class in transformers holds for keys that config.json lacks. The numbers not
/// listed here are the same for all families.
#[derive(Debug, PartialEq)]
pub(super) struct Defaults {
    pub vocab_size: usize,
    pub intermediate_size: usize,
    /// None: as many as there are heads.
    pub kv_heads: Option<usize>,
    /// None: hidden size over heads.
    pub head_dim: Option<usize>,
    pub max_position_embeddings: usize,
}

/// Biases of attention's projections.
#[derive(Debug, PartialEq)]
pub(super) enum AttentionBias {
    /// On all four, if `attention_bias` is true.
    AsConfigured,
    /// On query, key and value, whatever `attention_bias` says; never on the output.
    QkvAlways,
}

/// Which layers attend through the window of `sliding_window`.
#[derive(Debug, PartialEq)]
pub(super) enum Windows {
    /// None.
    Never,
    /// All.
    Always,
    /// Those from `max_window_layers` on, if `use_sliding_window` is true.
    IfUsed,
}

static FAMILIES: [Family; 4] = [
    // Qwen 2 and 2.5.
    Family {
        name: "Qwen 2",
        model_type: "qwen2",
        architecture: "Qwen2ForCausalLM",
        defaults: Defaults {
            vocab_size: 151_936,
            intermediate_size: 22_016,
            kv_heads: Some(32),
            head_dim: None,
            max_position_embeddings: 32_768,
        },
        attention_bias: AttentionBias::QkvAlways,
        qk_norm: false,
        windows: Windows::IfUsed,
        unheeded: &["mlp_bias"],
    },
    // Qwen 3.
    Family {
        name: "Qwen 3",
        model_type: "qwen3",
        architecture: "Qwen3ForCausalLM",
        defaults: Defaults {
            vocab_size: 151_936,
            intermediate_size: 22_016,
            kv_heads: Some(32),
            head_dim: Some(128),
            max_position_embeddings: 32_768,
        },
        attention_bias: AttentionBias::AsConfigured,
        qk_norm: true,
        windows: Windows::IfUsed,
        unheeded: &["mlp_bias"],
    },
    // Llama 2 and 3, DeepSeek-Math and the many that took this shape.
    Family {
        name: "Llama",
        model_type: "llama",
        architecture: "LlamaForCausalLM",
        defaults: Defaults {
            vocab_size: 32_000,
            intermediate_size: 11_008,
            kv_heads: None,
            head_dim: None,
            max_position_embeddings: 2048,
        },
        attention_bias: AttentionBias::AsConfigured,
        qk_norm: false,
        windows: Windows::Never,
        unheeded: &[],
    },
    // Mistral 7B.
    Family {
        name: "Mistral",
        model_type: "mistral",
        architecture: "MistralForCausalLM",
        defaults: Defaults {
            vocab_size: 32_000,
            intermediate_size: 14_336,
            kv_heads: Some(8),
            head_dim: None,
            max_position_embeddings: 131_072,
        },
        attention_bias: AttentionBias::AsConfigured,
        qk_norm: false,
        windows: Windows::Always,
        unheeded: &["attention_bias", "mlp_bias"],
    },
];

impl Family {
    /// The one that config.json calls so.
    pub(super) fn of(model_type: &str) -> Option<&'static Self> {
        FAMILIES.iter().find(|family| family.model_type == model_type)
    }

    /// As in a sentence: "qwen2, qwen3, llama and mistral".
    pub(super) fn all() -> String {
        let [all @ .., last] = FAMILIES.each_ref().map(|family| family.model_type);
        format!("{} and {last}", all.join(", "))
    }
}
