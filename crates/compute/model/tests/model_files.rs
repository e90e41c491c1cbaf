//! Models saved to directories and loaded again; a damaged directory is refused in one sentence.

use crate::common::{bits, directory, oracle, oracles, safetensors};
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::checkpoint::{WeightDtype, WriteOptions, Writer};
use isentrope_model::{Model, Packed, Result, Scores, Sequence};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

const TOKENS: [u32; 24] =
    [5, 17, 2, 60, 33, 33, 8, 1, 0, 44, 29, 12, 51, 3, 9, 9, 27, 40, 58, 6, 13, 22, 35, 4];

static CPU: LazyLock<Arc<Cpu>> =
    LazyLock::new(|| Arc::new(Cpu::new(Isa::available()[0], 1).unwrap()));

fn load(dir: &Path) -> Result<Model> {
    Model::load(dir, CPU.clone())
}

fn scores(model: &Model) -> Scores {
    model.score(&Packed::new(&[Sequence { tokens: &TOKENS, score_from: 1 }]), 1.0)
}

/// Bits of every tensor, by name.
fn weights(model: &Model) -> Vec<(String, Vec<u32>)> {
    let tensors = model.layout.parameters.tensors();
    tensors
        .map(|(id, p, t)| (t.name.clone(), bits(&model.weights.tensor(&*model.backend, id, p, t))))
        .collect()
}

#[test]
fn saved_models_load_with_the_same_bits() {
    for name in oracles() {
        let model = load(&oracle(&name)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let options = WriteOptions {
            dtype: WeightDtype::F32,
            max_shard_bytes: 4096, // so small that most tensors have a shard of their own
            carry_from: None,
            writer: Writer::ALONE,
        };
        model.save(&dir.path().join("saved"), options).unwrap();
        let again = load(&dir.path().join("saved")).unwrap();
        assert!(dir.path().join("saved/model.safetensors.index.json").exists());
        assert!(weights(&again) == weights(&model), "{name}");
        let (before, after) = (scores(&model), scores(&again));
        assert_eq!(bits(&before.logprobs), bits(&after.logprobs), "{name}");
        assert_eq!(bits(&before.entropies), bits(&after.entropies), "{name}");
    }
}

/// Qwen3.5 has layers that predict further tokens, which no other family has; also where all of its
/// attention is full.
#[test]
fn predictors_of_further_tokens_are_passed_over_in_hybrid_families_alone() {
    let full = directory(&[(
        "config.json",
        br#"{"model_type": "qwen3_5_text", "hidden_size": 16, "intermediate_size": 16,
        "num_hidden_layers": 1, "full_attention_interval": 1, "num_attention_heads": 1,
        "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 61, "max_position_embeddings": 64,
        "tie_word_embeddings": true}"#,
    )]);
    let options = WriteOptions {
        dtype: WeightDtype::F32,
        max_shard_bytes: 1 << 20,
        carry_from: None,
        writer: Writer::ALONE,
    };
    let saved = tempfile::tempdir().unwrap();
    let dir = saved.path().join("full");
    Model::initialize(full.path(), 1, CPU.clone()).unwrap().save(&dir, options).unwrap();
    let (hybrid, other) = (copy_of("qwen3.5"), copy_of("qwen3"));
    for (dir, is_loaded) in [(&*dir, true), (hybrid.path(), true), (other.path(), false)] {
        edit_weights(dir, |header, data| append(header, data, "mtp.fc.weight", &[1], &[0; 4]));
        assert_eq!(load(dir).is_ok(), is_loaded, "{}", dir.display());
    }
}

#[test]
fn tokens_are_checked_against_vocabulary_and_context() {
    let model = load(&oracle("llama-yarn")).unwrap();
    assert!(model.check_tokens(&[]).is_ok());
    assert!(model.check_tokens(&[60; 128]).is_ok());
    let refusal = |tokens: &[u32]| model.check_tokens(tokens).unwrap_err().to_string();
    assert_eq!(refusal(&[0, 1, 61]), "token 61 at index 2 is outside the model's vocabulary of 61");
    assert_eq!(refusal(&[0; 129]), "129 tokens do not fit the model's context of 128");
}

/// A copy of an oracle's directory.
fn copy_of(name: &str) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(oracle(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

fn edit_config(dir: &Path, key: &str, value: Value) {
    let path = dir.join("config.json");
    let mut config: Map<String, Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config.insert(key.to_owned(), value);
    fs::write(path, serde_json::to_vec(&config).unwrap()).unwrap();
}

/// Rewrites model.safetensors after `edit` has changed its header and data.
fn edit_weights(dir: &Path, edit: impl FnOnce(&mut Map<String, Value>, &mut Vec<u8>)) {
    let path = dir.join("model.safetensors");
    let file = fs::read(&path).unwrap();
    let start = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let (mut header, mut data) =
        (serde_json::from_slice(&file[8..start]).unwrap(), file[start..].to_vec());
    edit(&mut header, &mut data);
    fs::write(path, safetensors(&serde_json::to_string(&header).unwrap(), &data)).unwrap();
}

/// Appends a tensor of f32.
fn append(
    header: &mut Map<String, Value>,
    data: &mut Vec<u8>,
    name: &str,
    shape: &[usize],
    values: &[u8],
) {
    let start = data.len();
    data.extend_from_slice(values);
    header.insert(
        name.to_owned(),
        json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}),
    );
}

fn data_of<'a>(header: &Map<String, Value>, data: &'a mut [u8], name: &str) -> &'a mut [u8] {
    let offset = |i: usize| header[name]["data_offsets"][i].as_u64().unwrap() as usize;
    &mut data[offset(0)..offset(1)]
}

const NORM: &str = "model.layers.1.input_layernorm.weight";
const EMBEDDING: &str = "model.embed_tokens.weight";

#[test]
fn directories_whose_files_disagree_are_refused_in_one_sentence() {
    // A model, the damage to its copy, and the file and the reason that the refusal names.
    type Case = (&'static str, fn(&Path), &'static str, &'static str);
    let cases: [Case; 7] = [
        (
            "qwen3",
            |dir| edit_weights(dir, |header, _| header[NORM]["shape"] = json!([4, 8])),
            "model.safetensors",
            "tensor model.layers.1.input_layernorm.weight has shape [4, 8], not [32]",
        ),
        (
            "qwen3",
            |dir| {
                edit_weights(dir, |header, data| {
                    append(header, data, "model.extra", &[1], &[0; 4]);
                });
            },
            "",
            "tensor model.extra: a Qwen3ForCausalLM of this configuration has no such weights",
        ),
        (
            "llama-mha",
            |dir| edit_config(dir, "num_hidden_layers", json!(1)),
            "",
            "tensor model.layers.1.input_layernorm.weight and 8 other tensors: a LlamaForCausalLM of this",
        ),
        (
            "llama-mha",
            |dir| edit_config(dir, "num_hidden_layers", json!(3)),
            "",
            "holds no tensor model.layers.2",
        ),
        // Found before memory is asked for.
        (
            "qwen3",
            |dir| {
                edit_config(dir, "vocab_size", json!(1 << 24));
                edit_config(dir, "intermediate_size", json!(1 << 24));
            },
            "model.safetensors",
            "tensor model.embed_tokens.weight has shape [61, 32], not [16777216, 32]",
        ),
        (
            "qwen3",
            |dir| edit_config(dir, "tie_word_embeddings", json!(false)),
            "",
            "holds no tensor lm_head.weight",
        ),
        (
            "qwen3-untied",
            |dir| edit_config(dir, "tie_word_embeddings", json!(true)),
            "",
            "tensor lm_head.weight differs from model.embed_tokens.weight, though tie_word_embeddings is true",
        ),
    ];
    for (name, damage, file, reason) in cases {
        let dir = copy_of(name);
        damage(dir.path());
        let error = load(dir.path()).err().expect("must be refused").to_string();
        let named = dir.path().join(file).display().to_string();
        assert!(error.starts_with(named.trim_end_matches('/')), "{reason}: {error}");
        assert!(error.contains(reason) && !error.contains('\n'), "{reason}: {error}");
    }
}

#[test]
fn a_tied_head_may_be_saved_twice() {
    let dir = copy_of("qwen3");
    edit_weights(dir.path(), |header, data| {
        let values = data_of(header, data, EMBEDDING).to_vec();
        append(header, data, "lm_head.weight", &[61, 32], &values);
    });
    assert!(weights(&load(dir.path()).unwrap()) == weights(&load(&oracle("qwen3")).unwrap()));
}

#[test]
fn text_models_are_written_on_their_own() {
    for (name, class, notes) in [
        ("gemma3-images", "Gemma3ForCausalLM", 1),
        ("mistral3-images", "MistralForCausalLM", 1),
        ("qwen3-fp8", "Qwen3ForCausalLM", 1),
        ("qwen3", "Qwen3ForCausalLM", 0),
    ] {
        let model = load(&oracle(name)).unwrap();
        assert_eq!(model.config.remarks.len(), notes, "{name}");
        let config = &model.config.json;
        assert_eq!(config["architectures"], json!([class]));
        assert_eq!(config["model_type"], model.config.family.model_type);
        for key in ["text_config", "vision_config", "quantization_config"] {
            assert!(!config.contains_key(key), "{name}: {key}");
        }
        assert!(["dtype", "torch_dtype"].iter().any(|key| config.contains_key(*key)), "{name}");
    }
}

#[test]
fn weights_in_eight_bits_need_fitting_scales() {
    type Case = (fn(&Path), &'static str);
    let cases: [Case; 4] = [
        (
            |dir| edit_config(dir, "quantization_config", json!(null)),
            "has type F8_E4M3, and config.json has no quantization_config",
        ),
        (
            |dir| {
                let fp8 = json!({"quant_method": "fp8", "weight_block_size": [128, 128]});
                edit_config(dir, "quantization_config", fp8);
            },
            "blocks of 128 x 128 need [1, 1]",
        ),
        (
            |dir| edit_config(dir, "quantization_config", json!({"quant_method": "fp8"})),
            "without weight_block_size it has one",
        ),
        (
            |dir| {
                edit_weights(dir, |header, _| {
                    let scales = header.remove("model.layers.1.mlp.up_proj.weight_scale_inv");
                    header.insert("model.other".to_owned(), scales.unwrap());
                });
            },
            "has no scales",
        ),
    ];
    for (damage, reason) in cases {
        let dir = copy_of("qwen3-fp8");
        damage(dir.path());
        let error = load(dir.path()).err().expect(reason).to_string();
        assert!(error.contains("model.safetensors: tensor model.layers"), "{error}");
        assert!(error.contains(reason) && !error.contains('\n'), "{reason}: {error}");
    }
}

/// A scale of inputs in 8 bits, under a name that sorts behind that of the weight it belongs to.
#[test]
fn tensors_in_eight_bits_that_no_model_has_are_refused() {
    let dir = copy_of("qwen3-fp8");
    edit_weights(dir.path(), |header, data| {
        append(header, data, "w_scale_inv", &[1, 1], &1.0_f32.to_le_bytes());
        for name in ["w", "wactivation_scale"] {
            append(header, data, name, &[1, 1], &[56]);
            header[name]["dtype"] = json!("F8_E4M3");
        }
    });
    let error = load(dir.path()).err().unwrap().to_string();
    assert!(error.contains("tensor wactivation_scale in FP8 has no scales"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 800,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A damaged config.json is refused, or describes a model that fits the weights and runs.
    #[test]
    fn damaged_configs_never_panic(
        name in prop::sample::select(
            &[
                "llama-yarn-options", "llama3-v4", "qwen2-window", "phi4-mini", "ministral3-fp8",
                "qwen3-fp8",
            ][..]
        ),
        edits in prop::collection::vec((any::<prop::sample::Index>(), b'0'..=b'9'), 1..4),
    ) {
        let mut config = fs::read(oracle(name).join("config.json")).unwrap();
        let digits: Vec<usize> = (0..config.len()).filter(|&i| config[i].is_ascii_digit()).collect();
        for (at, digit) in edits {
            config[digits[at.index(digits.len())]] = digit;
        }
        let weights = fs::read(oracle(name).join("model.safetensors")).unwrap();
        let dir = directory(&[("config.json", &config), ("model.safetensors", &weights)]);
        match load(dir.path()) {
            Ok(model) => prop_assert_eq!(scores(&model).logprobs.len(), TOKENS.len() - 1),
            Err(error) => {
                prop_assert!(error.to_string().starts_with(&dir.path().display().to_string()), "{}", error);
            }
        }
    }
}
