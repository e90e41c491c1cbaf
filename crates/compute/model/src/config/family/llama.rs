//! Llama 2 and 3, DeepSeek-Math and the many that took this shape.

use super::{AttentionBias, Defaults, Family, Windows};

pub(super) static FAMILY: Family = Family {
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
};
