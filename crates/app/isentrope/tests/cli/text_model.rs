//! A tiny random model with a tokenizer and a chat template.

use crate::program::{Scratch, fixture};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const HIDDEN: usize = 16;
const INNER: usize = 24;
const LAYERS: usize = 1;

/// Tokens of the byte-level tokenizer among the fixtures.
pub const VOCABULARY: usize = 323;

/// A Llama with this many embedding rows, beside the byte-level tokenizer and Qwen2.5's chat
/// template.
pub fn text_model(scratch: &Scratch, name: &str) -> PathBuf {
    let dir = scratch.copy(&fixture("tokenizer/byte-bpe"), name);
    write_llama(&dir, VOCABULARY);
    let templates: Value =
        serde_json::from_slice(&fs::read(fixture("chat/templates.json")).unwrap()).unwrap();
    let template = templates["groups"][0]["template"].as_str().unwrap();
    fs::write(dir.join("chat_template.jinja"), template).unwrap();
    dir
}

/// Writes the config and the weights of a random Llama with a tied head.
pub fn write_llama(dir: &Path, vocabulary: usize) {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocabulary,
        "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": 2,
        "num_key_value_heads": 1, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": true, "eos_token_id": 1
    });
    fs::write(dir.join("config.json"), config.to_string()).unwrap();

    let mut random = Random(1);
    let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    let mut add = |name: String, shape: &[usize], scale: f32| {
        let bytes = (0..shape.iter().product())
            .flat_map(|_| (scale * random.next()).to_le_bytes())
            .collect();
        tensors.push((name, shape.to_vec(), bytes));
    };
    add("model.embed_tokens.weight".into(), &[vocabulary, HIDDEN], 0.8);
    add("model.norm.weight".into(), &[HIDDEN], 1.5);
    for layer in 0..LAYERS {
        let layer = format!("model.layers.{layer}");
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            add(format!("{layer}.{norm}.weight"), &[HIDDEN], 1.5);
        }
        for (projection, outputs) in
            [("q", HIDDEN), ("k", HIDDEN / 2), ("v", HIDDEN / 2), ("o", HIDDEN)]
        {
            add(format!("{layer}.self_attn.{projection}_proj.weight"), &[outputs, HIDDEN], 0.8);
        }
        for projection in ["gate", "up"] {
            add(format!("{layer}.mlp.{projection}_proj.weight"), &[INNER, HIDDEN], 0.8);
        }
        add(format!("{layer}.mlp.down_proj.weight"), &[HIDDEN, INNER], 0.8);
    }
    let views = tensors
        .iter()
        .map(|(n, s, b)| (n.as_str(), TensorView::new(Dtype::F32, s.clone(), b).unwrap()));
    safetensors::serialize_to_file(views, None, &dir.join("model.safetensors")).unwrap();
}

/// Marsaglia's 64-bit xorshift, in [-1, 1).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
