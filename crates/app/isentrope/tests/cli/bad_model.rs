//! Model directories that are incomplete or damaged. `crates/compute/model` tests every damage.

use crate::program::{Scratch, failure_saying, fixture, isentrope, text};
use crate::text_model::text_model;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Both commands refuse a copy of a fixture that `damage` has been at, and write nothing.
fn refused(name: &str, parts: &[&str], damage: impl FnOnce(&Path)) {
    let scratch = Scratch::new();
    let model = scratch.copy(&fixture("models").join(name), "model");
    damage(&model);
    let (model, out) = (text(&model), scratch.path("out.jsonl"));
    let input = scratch.lines("input.jsonl", &[json!({"tokens": [1, 2, 3]})]);
    for command in ["generate --prompts", "score --in"] {
        let line = format!("{command} {input} {model} --out {out}");
        failure_saying(isentrope(line), parts);
    }
    assert_eq!(scratch.names(), ["input.jsonl", "model"]);
}

fn edit_json(path: &Path, edit: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    edit(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

#[test]
fn a_damaged_model_is_one_sentence() {
    refused("qwen3", &["model: has no config.json; ", "*.safetensors"], |dir| {
        fs::remove_file(dir.join("config.json")).unwrap();
    });
    refused("qwen3", &["model.safetensors", "is not a whole safetensors file"], |dir| {
        let bytes = fs::read(dir.join("model.safetensors")).unwrap();
        fs::write(dir.join("model.safetensors"), &bytes[..100]).unwrap();
    });
    // More than any machine holds is refused without being asked for.
    refused("qwen3", &["model"], |dir| {
        edit_json(&dir.join("config.json"), |config| config["vocab_size"] = json!(16_000_000));
    });
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
    let parts = ["generation_config.json", "temperature is 1000", "from 0.01 to 100"];
    failure_saying(isentrope(format!("generate {} --prompts {input}", text(&dir))), &parts);
}

#[test]
fn a_chat_template_that_is_missing_or_broken_is_named() {
    let scratch = Scratch::new();
    let chat = json!({"messages": [{"role": "user", "content": "Hi"}]});
    let messages = scratch.lines("messages.jsonl", &[chat]);
    let dir = text_model(&scratch, "model");
    fs::remove_file(dir.join("chat_template.jinja")).unwrap();
    let model = text(&dir);
    let parts = ["model has no chat template", "chat_template.jinja"];
    failure_saying(isentrope(format!("generate {model} --prompts {messages}")), &parts);
    failure_saying(isentrope(format!("score {model} --in {messages}")), &parts);
    let chat = format!("generate {model} --prompt Hi --template chat");
    failure_saying(isentrope(&chat), &parts);
    fs::write(dir.join("chat_template.jinja"), "{% if %}").unwrap();
    failure_saying(isentrope(&chat), &["chat_template.jinja", "line 1"]);
}
