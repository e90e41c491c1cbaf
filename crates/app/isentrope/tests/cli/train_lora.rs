//! Low-rank adapters in whole runs. `crates/compute/model/tests/adapter.rs` has the numbers,
//! `merge.rs` what other commands do with an adapter.

use crate::program::{
    assert_parts, failure_last, failure_saying, json_of, names, spoken, stdout_of, text,
};
use crate::training::untrained;
use crate::training::{Bench, assert_resumes, assert_same_results, base, checkpoint, metrics};
use std::fs;
use std::path::{Path, PathBuf};

const LORA: &str = "lora.rank=3 lora.alpha=6 optimizer.learning_rate=0.01";

#[test]
#[ignore = "deep: several runs"]
fn adapters_learn_and_go_on_and_the_base_stays() {
    let bench = Bench::train();
    // A reference and a process model, which share the frozen weights.
    for (name, more) in [
        ("plain", ""),
        ("reference", "objective.reference_kl.coefficient=0.01 lora.use_rslora=true"),
        ("prime", "objective.advantage=prime lora.targets=[\"q_proj\",\"down_proj\"]"),
    ] {
        let whole = assert_resumes(&bench, name, format!("{LORA} {more}"), 1, 2);
        let last = metrics(&whole).pop().unwrap();
        assert!(last["grad/norm"].as_f64().unwrap() > 0.0, "{last}");
        let saved = checkpoint(&whole, 2);
        let files = names(&saved);
        assert!(files.contains(&"adapter_model.safetensors".into()), "{files:?}");
        assert!(!files.contains(&"model.safetensors".into()), "{files:?}");
        let config = json_of(&saved.join("adapter_config.json"));
        assert_eq!((&config["r"], &config["base_model_name_or_path"]), (&3.into(), &base().into()));
    }
    // Examples are learnt from in the same way.
    let sft = Bench::sft();
    let of_base = format!("{LORA} model.path={} model.from_scratch=false", base());
    let whole = assert_resumes(&sft, "examples", of_base, 1, 2);
    assert!(metrics(&whole).pop().unwrap()["grad/norm"].as_f64().unwrap() > 0.0);
    assert!(names(&checkpoint(&whole, 2)).contains(&"adapter_model.safetensors".into()));
    // Neither passes nor threads nor shards' ranks show.
    let due = "run.steps=2 eval.every=1 checkpoint.every=1 optimizer.schedule=constant";
    let other = format!("{LORA} {due} memory.micro_batch_tokens=11");
    assert_same_results(&bench.out("plain"), &bench.run("other", other, "--threads 3"));
    // Frozen weights are counted once.
    let weights = |more: &str| {
        let said = stdout_of(bench.command("plan", format!("{LORA} {more}"), "--dry-run"));
        said.split("weights ").nth(1).unwrap().split(',').next().unwrap().to_owned()
    };
    assert_eq!(weights(""), weights("objective.reference_kl.coefficient=0.01"));
}

/// A copy of the base with another weight.
pub fn other_weights(bench: &Bench) -> PathBuf {
    let dir = bench.scratch.copy(base().as_ref(), "heavier");
    let mut bytes = fs::read(dir.join("model.safetensors")).unwrap();
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    fs::write(dir.join("model.safetensors"), bytes).unwrap();
    dir
}

#[test]
fn a_run_with_adapters_goes_on_beside_the_same_base_and_with_the_same_settings() {
    let bench = Bench::train();
    let copy = |name: &str| bench.scratch.copy(base().as_ref(), name);
    let model = copy("model");
    let sets = |more: &str| format!("model.path={} {LORA} eval.every=0 {more}", text(&model));
    let run = bench.run("run", sets("run.steps=1"), "");
    let other = copy("other");
    let tokenizer = fs::read_to_string(other.join("tokenizer.json")).unwrap();
    fs::write(other.join("tokenizer.json"), format!("{tokenizer}\n")).unwrap();
    let heavier = other_weights(&bench);
    let model_of = |dir: &Path| format!("model.path={}", text(dir));
    for (more, parts) in [
        ("lora.rank=4".into(), vec!["lora.rank was 3 until "]),
        ("lora.alpha=7".into(), vec!["lora.alpha was 6 until "]),
        ("lora.targets=[\"q_proj\"]".into(), vec!["lora.targets was all-linear until "]),
        (model_of(&other), vec!["model.path is ", "whose tokenizer.json is another than that of "]),
    ] {
        for flags in ["--resume", "--resume --dry-run"] {
            let more = format!("{} {more}", sets("run.steps=2"));
            failure_saying(bench.command("run", more, flags), &parts); // without a plan
        }
    }
    let more = format!("{} {}", sets("run.steps=2"), model_of(&heavier));
    let parts = ["model.path is ", "whose weights or config.json are others"];
    failure_last(bench.command("run", more, "--resume"), &parts);
    let whole = format!("model.path={} eval.every=0 run.steps=2", text(&model));
    failure_last(bench.command("run", &whole, "--resume"), &["lora is not set", "adapters until "]);
    bench.run("whole", &whole, "");
    failure_last(
        bench.command("whole", sets("run.steps=3"), "--resume"),
        &["lora trains adapters", "all weights until "],
    );
    // An adapter is no model to begin with.
    let adapter = format!("model.path={} {LORA}", text(&checkpoint(&run, 1)));
    failure_last(bench.command("new", adapter, ""), &["is an adapter", "lora.adapter"]);
}

#[test]
fn training_starts_from_an_adapter() {
    let bench = Bench::train();
    let sets = format!("{LORA} run.steps=1 eval.every=1 checkpoint.dtype=float32");
    let first = bench.run("first", &sets, "");
    let saved = checkpoint(&first, 1);
    let own = format!("{sets} lora.adapter={}", text(&saved));
    let once = "objective.reference_kl.coefficient=0.1 update.epochs=1 update.prompts=4";
    let next = bench.run("next", format!("{own} {once}"), "");
    // Before its first step it is the policy that the first run ended with.
    let evaluated = |out: &Path, row: usize| {
        let rows = metrics(out);
        let row = rows[row].as_object().unwrap().clone().into_iter();
        row.filter(|(name, _)| name.starts_with("eval/")).collect::<Vec<_>>()
    };
    assert!(!evaluated(&first, 1).is_empty());
    assert_eq!(evaluated(&next, 0), evaluated(&first, 1));
    assert_ne!(evaluated(&first, 0), evaluated(&first, 1));
    // So is the reference, which the only update therefore does not differ from.
    assert_eq!(metrics(&next)[1]["kl/reference"], 0.0);
    let manifest = json_of(&next.join("manifest.json"));
    assert!(manifest.pointer("/model/adapter/sha256/adapter_model.safetensors").is_some());
    for (more, parts) in [
        ("lora.rank=4", ["lora.adapter is ", "which has lora.rank = 3: set it so"]),
        ("lora.targets=[\"q_proj\"]", ["lora.adapter is ", "lora.targets = all-linear"]),
        ("lora.adapter=elsewhere", ["lora.adapter cannot be started from", "elsewhere"]),
        (&*format!("lora.adapter={}", text(&first)), ["lora.adapter: ", "its latest model is "]),
    ] {
        failure_last(bench.command("refused", format!("{own} {more}"), ""), &parts);
    }
    // A dry run finds what the run would: weights that are damaged, and another base, before a
    // setting that would not mend it.
    let damaged = bench.scratch.copy(&saved, "damaged");
    let weights = damaged.join("adapter_model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(weights, bytes).unwrap();
    let heavier = other_weights(&bench);
    let damaged = format!("{own} lora.adapter={}", text(&damaged));
    let other = format!("{own} model.path={}", text(&heavier));
    for (flags, and) in [("", ""), ("--dry-run", " lora.rank=4")] {
        let parts = ["lora.adapter cannot be", "is NaN"];
        failure_last(bench.command("refused", &damaged, flags), &parts);
        let parts = ["is not the base that the adapter is for", "its weights differ"];
        failure_last(bench.command("refused", format!("{other}{and}"), flags), &parts);
    }
    // All linear layers by their names are the same adapter.
    let names = "lora.targets=[\"q_proj\",\"k_proj\",\"v_proj\",\"o_proj\",\"gate_proj\",\
                 \"up_proj\",\"down_proj\"]";
    stdout_of(bench.command("named", format!("{own} {names}"), "--dry-run"));
}

#[test]
fn settings_of_adapters_that_cannot_be_had_are_refused() {
    let bench = Bench::train();
    let scratch = format!("lora.rank=2 model.path={} model.from_scratch=true", untrained());
    for (sets, parts) in [
        ("lora.rank=0", vec!["lora.rank must be a whole number from 1"]),
        ("lora.alpha=0", vec!["lora.alpha must be"]),
        ("lora.targets=[]", vec!["lora.targets is an empty list"]),
        ("lora.targets=[\"c_attn\"]", vec!["lora.targets cannot be had", "c_attn", "q_proj"]),
        ("lora.targets=[\"lm_head\"]", vec!["lora.targets cannot be had", "lm_head"]),
        (
            "lora.rank=2 objective.advantage=prime prime.model=elsewhere",
            vec!["prime.model names another model", "[lora]"],
        ),
    ] {
        failure_last(bench.command("refused", sets, ""), &parts);
    }
    let sft = Bench::sft();
    failure_last(sft.command("refused", scratch, ""), &["model.from_scratch", "[lora]"]);
    let sets = "lora.rank=2 run.steps=1 eval.every=0 optimizer.learning_rate=1e-6";
    let (shown, said) = spoken(bench.command("slow", sets, ""));
    let slow = "optimizer.learning_rate = 1e-6 is a rate for whole models";
    assert_parts(&said, &[slow, "adapters: rank 2, 0.002 million trained weights beside "]);
    assert_parts(&shown, &["    isentrope merge "]);
}
