//! Mistral 7B.

use super::{AttentionBias, Defaults, Family, Windows};

pub(super) static FAMILY: Family = Family {
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
};
