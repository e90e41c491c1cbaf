//! Adapters in place of a model, beside one, and merged.

use crate::program::{
    Scratch, bits, failure_saying, floats, isentrope, json_of, lines_of, names, spoken, stdout_of,
    text, token_model,
};
use crate::training::base;
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::Model;
use isentrope_model::adapter::{AdapterConfig, BaseModel, Targets, write_adapter_files};
use isentrope_model::checkpoint::{Fingerprint, WeightDtype, WriteOptions, Writer};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::Arc;

#[test]
fn an_adapter_is_taken_in_place_of_its_base_beside_it_and_merged() {
    let scratch = Scratch::new();
    let (adapter, base) = (token_model("adapters/qwen3-qv"), token_model("qwen3"));
    let input = scratch.lines("input.jsonl", &[json!({"tokens": [3, 1, 4, 1, 5, 9, 2, 6]})]);
    let score = |model: &str| lines_of(isentrope(format!("score {model} --in {input}"))).remove(0);
    let named = score(&adapter);
    let beside = score(&format!("{base} --adapter {adapter}"));
    assert_eq!(bits(&named, "logprobs"), bits(&beside, "logprobs"));
    assert_ne!(bits(&named, "logprobs"), bits(&score(&base), "logprobs"));

    let merged = scratch.path("merged");
    let (printed, said) = spoken(isentrope(format!("merge {adapter} --out {merged}")));
    assert!(printed.is_empty() && said.contains("merged: "), "{said}");
    let (ours, theirs) = (floats(&named, "logprobs"), floats(&score(&merged), "logprobs"));
    assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-4), "{ours:?} {theirs:?}");
    failure_saying(isentrope(format!("merge {adapter} --out {merged}")), &["merged exists"]);

    let narrow = scratch.path("narrow");
    spoken(isentrope(format!("merge {adapter} --base {base} --dtype bf16 --out {narrow}")));
    assert_eq!(json_of(&Path::new(&narrow).join("config.json"))["dtype"], json!("bfloat16"));
    let bytes = |dir: &str| Path::new(dir).join("model.safetensors").metadata().unwrap().len();
    assert!(bytes(&narrow) < bytes(&merged));
}

/// An adapter of the tiny base model that changes nothing, which knows its base.
fn new_adapter(dir: &Path, base: &Path) {
    let mut config = AdapterConfig::new(2, 4.0, false, Targets::AllLinear);
    let fingerprint = Some(Fingerprint::of(base).unwrap());
    config.base = Some(BaseModel { path: text(base), revision: None, fingerprint });
    let model = Model::load_frozen(base, Arc::new(Cpu::new(Isa::available()[0], 1).unwrap()));
    let model = model.unwrap();
    let layout = config.layout(&model.layout).unwrap();
    let model = model.with_new_adapter(layout, 1).unwrap();
    let options = WriteOptions {
        dtype: WeightDtype::F32,
        max_shard_bytes: u64::MAX,
        carry_from: Some(base),
        writer: Writer::ALONE,
    };
    fs::create_dir(dir).unwrap();
    write_adapter_files(dir, &model, &config, options).unwrap();
}

#[test]
fn evaluations_of_a_base_and_of_its_adapter_are_kept_apart() {
    let scratch = Scratch::new();
    let adapter = scratch.path("adapter");
    let tiny = fs::canonicalize(base()).unwrap();
    new_adapter(Path::new(&adapter), &tiny);
    let problems = scratch.lines("problems.jsonl", &crate::training::problems());
    let eval = |model: &str, out: &str| {
        let limits = "--max-tokens 8 --limit 4 --threads 1";
        let mut command =
            isentrope(format!("eval {model} --bench mine={problems} {limits} --out {out}"));
        command.current_dir(scratch.path(""));
        command
    };
    stdout_of(eval(&text(&tiny), "plain"));
    stdout_of(eval(&adapter, "adapted"));
    let manifest = json_of(Path::new(&scratch.path("adapted/manifest.json")));
    assert!(manifest["model"]["sha256"]["adapter/adapter_model.safetensors"].is_string());
    assert!(manifest["model"]["sha256"]["model.safetensors"].is_string());
    // B is 0, so that the adapter changes no response.
    let responses = |out: &str| fs::read(scratch.path(&format!("{out}/responses/mine.jsonl")));
    assert_eq!(responses("plain").unwrap(), responses("adapted").unwrap());
    failure_saying(eval(&adapter, "plain"), &["holds results of another model", "adapter/"]);

    // The adapter knows its base.
    let other = token_model("qwen3");
    let merge = format!("merge {adapter} --base {other} --out {}", scratch.path("merged"));
    failure_saying(isentrope(merge), &["qwen3: is not the base that the adapter is for"]);
    assert!(!names(Path::new(&scratch.path(""))).contains(&"merged".to_owned()));
}
