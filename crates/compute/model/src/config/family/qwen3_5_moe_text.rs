//! The text models of Qwen 3.5 with experts: its linear attention, and beside the chosen experts
//! one that all tokens go to.

use super::{Defaults, Family, FamilyExperts, PLAIN, QkNorm, SHARED};

pub(super) static FAMILY: Family = Family {
    name: "Qwen 3.5 MoE",
    model_type: "qwen3_5_moe_text",
    architecture: "Qwen3_5MoeForCausalLM",
    defaults: Defaults {
        vocab_size: 248_320,
        hidden_size: 2048,
        intermediate_size: 512,
        layers: 40,
        heads: 16,
        kv_heads: Some(2),
        head_dim: Some(256),
        max_position_embeddings: 32_768,
        ..SHARED
    },
    norm_shift: 1.0,
    qk_norm: Some(QkNorm::Heads),
    turned_share: Some(0.25),
    is_hybrid: true,
    intermediate_size: "moe_intermediate_size",
    experts: Some(FamilyExperts { count: 256, always_normalised: true, shared: Some(512) }),
    ..PLAIN
};
