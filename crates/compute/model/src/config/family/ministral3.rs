//! Ministral 3, up to the positions from which on its scores grow.

use super::{Defaults, Family, PLAIN, SHARED, Windows};

pub(super) static FAMILY: Family = Family {
    name: "Ministral 3",
    model_type: "ministral3",
    architecture: "Ministral3ForCausalLM",
    defaults: Defaults {
        vocab_size: 131_072,
        intermediate_size: 14_336,
        layers: 34,
        kv_heads: Some(8),
        head_dim: Some(128),
        rms_norm_eps: 1e-5,
        max_position_embeddings: 262_144,
        rope_theta: 1e6,
        ..SHARED
    },
    windows: Windows::Always,
    needs_rope_parameters: true,
    ..PLAIN
};
