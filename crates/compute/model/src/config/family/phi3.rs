//! Phi-3 with 4k positions, Phi-4 and what shares their shape.

use super::{AttentionBias, Defaults, Family, PLAIN, SHARED, Windows};

pub(super) static FAMILY: Family = Family {
    name: "Phi 3",
    model_type: "phi3",
    architecture: "Phi3ForCausalLM",
    defaults: Defaults {
        vocab_size: 32_064,
        hidden_size: 3072,
        intermediate_size: 8192,
        rms_norm_eps: 1e-5,
        max_position_embeddings: 4096,
        ..SHARED
    },
    attention_bias: AttentionBias::Never,
    windows: Windows::Always,
    fused: true,
    ..PLAIN
};
