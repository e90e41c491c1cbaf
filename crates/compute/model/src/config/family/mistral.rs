//! Mistral 7B.

use super::{AttentionBias, BranchNorms, Defaults, Family, Rotated, SHARED, Windows};

pub(super) static FAMILY: Family = Family {
    name: "Mistral",
    model_type: "mistral",
    architecture: "MistralForCausalLM",
    defaults: Defaults {
        intermediate_size: 14_336,
        kv_heads: Some(8),
        max_position_embeddings: 131_072,
        sliding_window: Some(4096),
        ..SHARED
    },
    attention_bias: AttentionBias::AsConfigured,
    norms: BranchNorms::Before,
    qk_norm: None,
    windows: Windows::Always,
    window_rope: None,
    rotated: Rotated::All,
    fused: false,
};
