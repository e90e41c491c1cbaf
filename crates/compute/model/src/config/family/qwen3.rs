//! Qwen 3.

use super::{Defaults, Family, PLAIN, QkNorm, SHARED, Windows};

pub(super) static FAMILY: Family = Family {
    name: "Qwen 3",
    model_type: "qwen3",
    architecture: "Qwen3ForCausalLM",
    defaults: Defaults {
        vocab_size: 151_936,
        intermediate_size: 22_016,
        kv_heads: Some(32),
        head_dim: Some(128),
        max_position_embeddings: 32_768,
        sliding_window: Some(4096),
        ..SHARED
    },
    qk_norm: Some(QkNorm::Heads),
    windows: Windows::IfUsed,
    ..PLAIN
};
