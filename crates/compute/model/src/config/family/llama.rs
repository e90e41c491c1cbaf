//! Llama 2 and 3, DeepSeek-Math and the many that took this shape.

use super::{Defaults, Family, PLAIN, SHARED};

pub(super) static FAMILY: Family = Family {
    name: "Llama",
    model_type: "llama",
    architecture: "LlamaForCausalLM",
    defaults: Defaults { max_position_embeddings: 2048, ..SHARED },
    ..PLAIN
};
