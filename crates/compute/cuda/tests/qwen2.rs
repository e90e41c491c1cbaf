//! The shapes of Qwen2.5's models, which are planned for, measured and never downloaded.

#![allow(dead_code, reason = "not everybody needs all of them")]

use serde_json::{Value, json};

/// A model with the sizes of its config.json on the hub, and billions of weights by its model card.
#[derive(Clone, Copy)]
pub struct Qwen2 {
    pub name: &'static str,
    pub hidden: usize,
    pub intermediate: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub vocabulary: usize,
    pub tied: bool,
    pub billions: f64,
}

pub const HALF: Qwen2 = qwen2("0.5B", [896, 4864, 24, 14, 2, 151_936], true, 0.49);
pub const SEVEN: Qwen2 = qwen2("7B", [3584, 18_944, 28, 28, 4, 152_064], false, 7.61);
pub const THIRTY_TWO: Qwen2 = qwen2("32B", [5120, 27_648, 64, 40, 8, 152_064], false, 32.5);
pub const ALL: [Qwen2; 5] = [
    HALF,
    qwen2("1.5B", [1536, 8960, 28, 12, 2, 151_936], true, 1.54),
    SEVEN,
    qwen2("14B", [5120, 13_824, 48, 40, 8, 152_064], false, 14.7),
    THIRTY_TWO,
];

const fn qwen2(name: &'static str, sizes: [usize; 6], tied: bool, billions: f64) -> Qwen2 {
    let [hidden, intermediate, layers, heads, kv_heads, vocabulary] = sizes;
    Qwen2 { name, hidden, intermediate, layers, heads, kv_heads, vocabulary, tied, billions }
}

impl Qwen2 {
    /// Its config.json.
    pub fn config(&self) -> Value {
        let Self { hidden, intermediate, layers, heads, kv_heads, vocabulary, tied, .. } = self;
        json!({
            "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"],
            "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads, "vocab_size": vocabulary,
            "tie_word_embeddings": tied, "max_position_embeddings": 32_768,
            "rope_theta": 1e6, "rms_norm_eps": 1e-6,
        })
    }
}
