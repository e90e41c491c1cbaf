//! Qwen 2 and 2.5.

use super::{AttentionBias, Defaults, Family, PLAIN, SHARED, Windows};

pub(super) static FAMILY: Family = Family {
    name: "Qwen 2",
    model_type: "qwen2",
    architecture: "Qwen2ForCausalLM",
    defaults: Defaults {
        vocab_size: 151_936,
        intermediate_size: 22_016,
        kv_heads: Some(32),
        max_position_embeddings: 32_768,
        sliding_window: Some(4096),
        ..SHARED
    },
    attention_bias: AttentionBias::QkvAlways,
    windows: Windows::IfUsed,
    ..PLAIN
};
