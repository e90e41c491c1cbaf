//! Qwen 3 with experts.

use super::{Defaults, Family, FamilyExperts, PLAIN, QkNorm, SHARED, Windows};

pub(super) static FAMILY: Family = Family {
    name: "Qwen 3 MoE",
    model_type: "qwen3_moe",
    architecture: "Qwen3MoeForCausalLM",
    defaults: Defaults {
        vocab_size: 151_936,
        hidden_size: 2048,
        intermediate_size: 768,
        layers: 24,
        kv_heads: Some(4),
        max_position_embeddings: 32_768,
        sliding_window: Some(4096),
        ..SHARED
    },
    qk_norm: Some(QkNorm::Heads),
    windows: Windows::AllIfUsed,
    intermediate_size: "moe_intermediate_size",
    experts: Some(FamilyExperts { count: 128, always_normalised: false, shared: None }),
    ..PLAIN
};
