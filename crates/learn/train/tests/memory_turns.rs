//! Whether updates and evaluations take turns with the memory. The only test of its process, whose
//! memory it reads.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]
#![cfg(target_os = "linux")]

use isentrope_kernels::{Cpu, Isa};
use isentrope_ranks::World;
use isentrope_train::observer::{Observer, Phase, Progress, ProgressObserver, StepReport};
use isentrope_train::run::{Existing, RunLocation};
use isentrope_train::sft::Recipe;
use isentrope_train::trainer::TrainingRecipe;
use isentrope_train::training_loop::train;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// A field of the process's status, in bytes.
fn status(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

/// Memory at the beginning of each evaluation, in bytes.
#[derive(Default)]
struct Memory(Vec<usize>);

impl ProgressObserver for Memory {
    fn progress(&mut self, progress: Progress) {
        if progress.phase == Phase::Evaluation && progress.done == 0 {
            self.0.push(status("VmRSS"));
        }
    }
    fn note(&mut self, _: &str) {}
}

impl Observer for Memory {
    fn step(&mut self, _: &StepReport<'_>) {}
}

/// A model over the built-in task's characters, whose activations and gradient are larger than
/// anything else.
fn model(dir: &Path) {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/countdown-base");
    for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
        fs::copy(assets.join(name), dir.join(name)).unwrap();
    }
    let mut config: Value =
        serde_json::from_slice(&fs::read(assets.join("config.json")).unwrap()).unwrap();
    for (key, value) in [
        ("hidden_size", 256),
        ("intermediate_size", 8192),
        ("num_hidden_layers", 1),
        ("num_attention_heads", 2),
        ("num_key_value_heads", 1),
    ] {
        config[key] = json!(value);
    }
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
}

#[test]
fn an_evaluation_begins_without_what_the_update_has_taken() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path());
    let mut recipe = Recipe::default();
    recipe.model.from_scratch = true;
    recipe.data.task = Some(isentrope_data::TaskName::Countdown);
    (recipe.sft.batch, recipe.sft.max_tokens) = (16, 256);
    (recipe.run.steps, recipe.eval.every) = (1, 1);
    (recipe.eval.problems, recipe.eval.samples, recipe.eval.max_tokens) =
        (Some(2), Some(1), Some(4));
    (recipe.memory.budget_gib, recipe.memory.micro_batch_tokens) = (Some(0.35), Some(1024));
    recipe.model.path = dir.path().display().to_string();
    recipe.resolve().unwrap();
    let cpu = Arc::new(Cpu::new(Isa::available()[0], 2).unwrap());
    let prepared = recipe.prepare(dir.path(), 1, &()).unwrap();
    let plan = prepared.plan(&*cpu, 0).unwrap();
    assert!(plan.is_tight(), "{plan}");
    let place = RunLocation {
        dir: dir.path().join("run"),
        existing: Existing::Refuse,
        source: dir.path().join("recipe.toml"),
        recipe: (String::new(), json!({})),
        defaults: json!({}),
    };
    let mut memory = Memory::default();
    let world = Arc::new(World::alone());
    train(prepared, &plan, &place, world, cpu, json!({}), &mut memory).unwrap();
    let (first, last, most) = (memory.0[0], *memory.0.last().unwrap(), status("VmHWM"));
    let mib = [first, last, most].map(|bytes| bytes >> 20);
    assert!(most - first > 50 << 20, "{mib:?} MiB at first, at last and at most");
    // The gradient goes with the activations. Of the moments, no page was touched before the first
    // step.
    let allowed = first + plan.moments + plan.gradient / 2;
    assert!(last < allowed, "{mib:?} MiB before the first step, after it and at most");
}
