//! The text models of Qwen 3.5: linear attention in three of four layers.

use super::{Defaults, Family, PLAIN, QkNorm, SHARED};

pub(super) static FAMILY: Family = Family {
    name: "Qwen 3.5",
    model_type: "qwen3_5_text",
    architecture: "Qwen3_5ForCausalLM",
    defaults: Defaults {
        vocab_size: 248_320,
        intermediate_size: 12_288,
        heads: 16,
        kv_heads: Some(4),
        head_dim: Some(256),
        max_position_embeddings: 32_768,
        ..SHARED
    },
    norm_shift: 1.0,
    qk_norm: Some(QkNorm::Heads),
    turned_share: Some(0.25),
    is_hybrid: true,
    ..PLAIN
};
