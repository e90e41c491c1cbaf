//! Model directories that are incomplete, damaged or untruthful.

use crate::program::{Scratch, failure_saying, fixture, isentrope, text, token_model};
use crate::text_model::{VOCABULARY, text_model, write_llama};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Both commands refuse the model in one sentence and leave nothing behind.
fn refused(model: &str, parts: &[&str]) {
    let scratch = Scratch::new();
    let input = scratch.lines("input.jsonl", &[json!({"tokens": [1, 2, 3]})]);
    let out = scratch.path("out.jsonl");
    failure_saying(&mut isentrope(&["generate", model, "--prompts", &input, "--out", &out]), parts);
    failure_saying(&mut isentrope(&["score", model, "--in", &input, "--out", &out]), parts);
    assert_eq!(scratch.names(), ["input.jsonl"]);
}

/// A copy of a fixture that `damage` has been at.
fn damaged(name: &str, parts: &[&str], damage: impl FnOnce(&Path)) {
    let scratch = Scratch::new();
    let dir = scratch.copy(&fixture("models").join(name), "model");
    damage(&dir);
    refused(&text(&dir), parts);
}

fn edit_json(path: &Path, edit: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    edit(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

#[test]
fn missing_parts_are_named() {
    let scratch = Scratch::new();
    refused(&scratch.path("absent"), &["absent", "no such directory"]);
    refused(&scratch.file("file", "x"), &["file", "directory"]);
    refused("", &["directory"]);
    refused("../..", &["config.json", "no such file"]);
    damaged("qwen3", &["config.json", "no such file"], |dir| {
        fs::remove_file(dir.join("config.json")).unwrap();
    });
    damaged("qwen3", &["neither model.safetensors nor model.safetensors.index.json"], |dir| {
        fs::remove_file(dir.join("model.safetensors")).unwrap();
    });
    damaged(
        "qwen2-bf16-sharded",
        &["model.safetensors.index.json", "model-00002-of-00002.safetensors", "absent"],
        |dir| {
            fs::remove_file(dir.join("model-00002-of-00002.safetensors")).unwrap();
        },
    );
}

/// One damage of each file; `crates/compute/model` tests the others.
#[test]
fn damaged_files_are_named() {
    let weights = "model.safetensors";
    let edit = |key: &'static str, value: Value| {
        move |dir: &Path| edit_json(&dir.join("config.json"), |config| config[key] = value)
    };
    damaged("qwen3", &[weights, "truncated"], |dir| {
        let bytes = fs::read(dir.join(weights)).unwrap();
        fs::write(dir.join(weights), &bytes[..100]).unwrap();
    });
    damaged("qwen3", &[weights, "tensor", "NaN"], |dir| {
        let mut bytes = fs::read(dir.join(weights)).unwrap();
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
        fs::write(dir.join(weights), bytes).unwrap();
    });
    damaged("qwen3", &["config.json", "hidden_size"], edit("hidden_size", json!("wide")));
    damaged("llama-mha", &["layers.2"], edit("num_hidden_layers", json!(3)));
    // More than any machine holds is refused without being asked for.
    damaged("qwen3", &["model"], edit("vocab_size", json!(16_000_000)));
}

#[test]
fn generation_configs_out_of_range_are_named() {
    for (key, value) in
        [("top_p", json!(2)), ("temperature", json!("hot")), ("eos_token_id", json!([1, 61]))]
    {
        let scratch = Scratch::new();
        let dir = scratch.copy(&fixture("models/qwen3"), "model");
        edit_json(&dir.join("generation_config.json"), |config| config[key] = value);
        let input = scratch.lines("input.jsonl", &[json!({"tokens": [1, 2, 3]})]);
        let (dir, out) = (text(&dir), scratch.path("out.jsonl"));
        let mut command = isentrope(&["generate", &dir, "--prompts", &input, "--out", &out]);
        failure_saying(&mut command, &["generation_config.json", key]);
        assert_eq!(scratch.names(), ["input.jsonl", "model"]);
    }
}

#[test]
fn a_setting_from_the_models_own_files_is_not_blamed_on_a_flag() {
    let scratch = Scratch::new();
    let dir = scratch.copy(&fixture("models/qwen3"), "model");
    edit_json(&dir.join("generation_config.json"), |config| {
        config["do_sample"] = json!(true);
        config["temperature"] = json!(1000);
    });
    let input = scratch.lines("input.jsonl", &[json!({"tokens": [1, 2, 3]})]);
    let mut command = isentrope(&["generate", &text(&dir), "--prompts", &input]);
    failure_saying(
        &mut command,
        &["generation_config.json", "temperature is 1000", "from 0.01 to 100"],
    );
}

#[test]
fn tokenizers_that_do_not_fit_are_named() {
    let scratch = Scratch::new();
    let dir = text_model(&scratch, "small");
    write_llama(&dir, VOCABULARY - 1);
    refused(&text(&dir), &["small", "322 rows", "tokenizer.json", "<think>"]);
    let dir = text_model(&scratch, "broken");
    fs::write(dir.join("tokenizer.json"), "{}").unwrap();
    refused(&text(&dir), &["broken/tokenizer.json", "not a valid tokenizer"]);
    fs::write(dir.join("tokenizer.json"), [0xff, 0xfe, 0, 1]).unwrap();
    refused(&text(&dir), &["broken/tokenizer.json", "not a valid tokenizer"]);
}

#[test]
fn what_a_model_lacks_is_said_when_it_is_needed() {
    let prompts = Scratch::new();
    let messages = prompts
        .lines("messages.jsonl", &[json!({"messages": [{"role": "user", "content": "Hi"}]})]);
    let texts = prompts.lines("texts.jsonl", &[json!({"prompt": "Hi", "response": "Hello"})]);
    let model = token_model("qwen3");
    for input in [&messages, &texts] {
        failure_saying(
            &mut isentrope(&["generate", &model, "--prompts", input]),
            &["qwen3", "tokenizer.json"],
        );
        failure_saying(
            &mut isentrope(&["score", &model, "--in", input]),
            &["qwen3", "tokenizer.json"],
        );
    }
    failure_saying(
        &mut isentrope(&["generate", &model, "--prompt", "Hi"]),
        &["qwen3", "tokenizer.json"],
    );

    let scratch = Scratch::new();
    let dir = text_model(&scratch, "model");
    fs::remove_file(dir.join("chat_template.jinja")).unwrap();
    let model = text(&dir);
    let parts = ["model has no chat template", "chat_template.jinja"];
    failure_saying(&mut isentrope(&["generate", &model, "--prompts", &messages]), &parts);
    failure_saying(&mut isentrope(&["score", &model, "--in", &messages]), &parts);
    failure_saying(&mut isentrope(&["generate", &model, "--prompt", "Hi", "--chat"]), &parts);
    fs::write(dir.join("chat_template.jinja"), "{% if %}").unwrap();
    failure_saying(
        &mut isentrope(&["generate", &model, "--prompt", "Hi", "--chat"]),
        &["chat_template.jinja", "line 1"],
    );
}
