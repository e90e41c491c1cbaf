//! Mistral 7B.

use super::{Defaults, Family, PLAIN, SHARED, Windows};

pub(super) static FAMILY: Family = Family {
    name: "Mistral",
    model_type: "mistral",
    architecture: "MistralForCausalLM",
    defaults: Defaults {
        intermediate_size: 14_336,
        kv_heads: Some(8),
        max_position_embeddings: 131_072,
        sliding_window: Some(4096),
        ..SHARED
    },
    windows: Windows::Always,
    ..PLAIN
};
