//! SmolLM3: some layers have no positions.

use super::{Defaults, Family, PLAIN, Rotated, SHARED, Windows};

pub(super) static FAMILY: Family = Family {
    name: "SmolLM3",
    model_type: "smollm3",
    architecture: "SmolLM3ForCausalLM",
    defaults: Defaults {
        vocab_size: 128_256,
        hidden_size: 2048,
        layers: 36,
        heads: 16,
        kv_heads: Some(4),
        max_position_embeddings: 32_768,
        tie_word_embeddings: true,
        rope_theta: 2e6,
        ..SHARED
    },
    windows: Windows::NotRotatedIfUsed,
    rotated: Rotated::AsConfigured,
    ..PLAIN
};
