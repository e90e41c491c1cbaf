//! OLMoE: norms of all queries and all keys together, and experts.

use super::{Defaults, Family, FamilyExperts, PLAIN, QkNorm, SHARED};

pub(super) static FAMILY: Family = Family {
    name: "OLMoE",
    model_type: "olmoe",
    architecture: "OlmoeForCausalLM",
    defaults: Defaults {
        vocab_size: 50_304,
        hidden_size: 2048,
        intermediate_size: 2048,
        layers: 16,
        heads: 16,
        rms_norm_eps: 1e-5,
        max_position_embeddings: 4096,
        ..SHARED
    },
    qk_norm: Some(QkNorm::Whole),
    experts: Some(FamilyExperts { count: 64, always_normalised: false, shared: None }),
    ..PLAIN
};
