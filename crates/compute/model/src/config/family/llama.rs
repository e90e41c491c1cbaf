//! Llama 2 and 3, DeepSeek-Math and the many that took this shape.

use super::{AttentionBias, BranchNorms, Defaults, Family, Rotated, SHARED, Windows};

pub(super) static FAMILY: Family = Family {
    name: "Llama",
    model_type: "llama",
    architecture: "LlamaForCausalLM",
    defaults: Defaults { max_position_embeddings: 2048, ..SHARED },
    attention_bias: AttentionBias::AsConfigured,
    norms: BranchNorms::Before,
    qk_norm: None,
    windows: Windows::Never,
    window_rope: None,
    rotated: Rotated::All,
    fused: false,
};
