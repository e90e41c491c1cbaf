//! Models that the kernels of a GPU cannot run, because their shapes are too large.

use anyhow::{Result, bail};
use isentrope_cuda::LARGEST_SHAPES;
use isentrope_model::ModelConfig;
use std::path::Path;

/// Refuses a model whose shapes exceed the kernels' limits.
///
/// # Errors
/// A sentence that names the key of config.json in the model's directory.
pub fn check_shapes(dir: &Path, config: &ModelConfig) -> Result<()> {
    let most = LARGEST_SHAPES;
    let head_dim = if config.json.contains_key("head_dim") {
        "head_dim"
    } else {
        "the head size hidden_size / num_attention_heads"
    };
    let shapes = [
        (head_dim, config.head_dim, most.head_dim),
        ("num_key_value_heads", config.kv_heads, most.kv_heads),
        ("hidden_size", config.hidden_size, most.features),
        ("intermediate_size", config.intermediate_size, most.features),
        ("num_attention_heads x head_dim", config.heads * config.head_dim, most.features),
        ("vocab_size", config.vocab_size, most.vocabulary),
        ("linear_key_head_dim", config.delta.map_or(0, |of| of.key_dim), most.delta_dim),
        ("linear_value_head_dim", config.delta.map_or(0, |of| of.value_dim), most.delta_dim),
    ];
    if let Some((key, value, most)) = shapes.into_iter().find(|(_, value, most)| value > most) {
        bail!(
            "{}: {key} is {value}, and the kernels for GPUs take {most} at most: compute on the \
             CPU (--device cpu), in f32",
            dir.join("config.json").display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::fs;

    /// The reason to refuse a model, which has heads of 256 features unless the value of `key` says
    /// otherwise.
    fn refusal(key: &str, value: usize) -> Option<String> {
        let mut config = match key.starts_with("linear_") {
            true => json!({ "model_type": "qwen3_5_text" }),
            false => {
                json!({ "model_type": "llama", "hidden_size": 1024, "num_attention_heads": 4 })
            }
        };
        config[key] = Value::from(value);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        let config = ModelConfig::read(dir.path()).unwrap();
        check_shapes(dir.path(), &config).err().map(|error| error.to_string())
    }

    #[test]
    fn shapes_beyond_the_kernels_are_named_by_their_keys() {
        assert_eq!(refusal("vocab_size", 152_064), None);
        assert_eq!(refusal("linear_value_head_dim", 128), None);
        for (key, value, said) in [
            (
                "head_dim",
                258,
                "/config.json: head_dim is 258, and the kernels for GPUs take 256 at most",
            ),
            ("num_attention_heads", 2, "hidden_size / num_attention_heads is 512, "),
            ("vocab_size", 3_000_000, "vocab_size is 3000000, "),
            ("intermediate_size", 2_000_000, "intermediate_size is 2000000, "),
            ("linear_value_head_dim", 144, "linear_value_head_dim is 144, "),
        ] {
            let refused = refusal(key, value).unwrap();
            assert!(
                refused.contains(said) && refused.contains("(--device cpu), in f32"),
                "{refused}"
            );
        }
    }
}
