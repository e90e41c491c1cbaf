//! Runs on an emulated device that has no more memory than their plan says.

use super::MOMENT;
use isentrope_budget::memory::{OVERHEAD, Plan};
use isentrope_cuda::{Cuda, Device, Dtype, Memory};
use isentrope_cuda_emulator::Settings;
use isentrope_data::TaskName;
use isentrope_ranks::World;
use isentrope_train::observer::{Observer, ProgressObserver, StepReport};
use isentrope_train::run::{Existing, RunLocation};
use isentrope_train::trainer::TrainingRecipe;
use isentrope_train::training_loop::train;
use isentrope_train::{rl, sft};
use serde_json::{Value, json};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Takes notes. If it has a device, it takes the device's memory once a step has been recorded,
/// except for a given number of bytes.
#[derive(Default)]
pub struct Watcher {
    takes_from: Option<(Arc<dyn Device>, usize)>,
    taken: Option<Memory>,
    notes: Vec<String>,
}

impl ProgressObserver for Watcher {
    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }
}

impl Observer for Watcher {
    fn step(&mut self, step: &StepReport<'_>) {
        if let (1, Some((device, leaves))) = (step.step, &self.takes_from) {
            self.taken = Some(device.allocate(device.memory_info().free - leaves).unwrap());
        }
    }
}

pub fn location(out: &Path, name: &str) -> RunLocation {
    RunLocation {
        dir: out.join(name),
        existing: Existing::Refuse,
        source: out.join("recipe.toml"),
        recipe: (String::new(), json!({})),
        defaults: json!({}),
    }
}

/// Imitation of the built-in task by a model in `dir`.
pub fn imitation(dir: &Path, steps: u64, eval_every: u64) -> sft::Recipe {
    let mut recipe = sft::Recipe::default();
    recipe.model.from_scratch = true;
    recipe.model.path = dir.display().to_string();
    recipe.data.task = Some(TaskName::Countdown);
    (recipe.sft.batch, recipe.sft.max_tokens) = (4, 64);
    (recipe.run.steps, recipe.eval.every) = (steps, eval_every);
    (recipe.eval.problems, recipe.eval.samples, recipe.eval.max_tokens) =
        (Some(1), Some(1), Some(4));
    recipe
}

/// A tiny model over the built-in task's characters.
pub fn model(dir: &Path) {
    model_of(dir, json!({}));
}

/// A tiny model over the built-in task's characters with `differences` from a dense one in its
/// config.json.
pub fn model_of(dir: &Path, differences: Value) {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/countdown-base");
    for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
        fs::copy(assets.join(name), dir.join(name)).unwrap();
    }
    let mut config: Value =
        serde_json::from_slice(&fs::read(assets.join("config.json")).unwrap()).unwrap();
    for (key, value) in [
        ("hidden_size", 64),
        ("intermediate_size", 256),
        ("num_hidden_layers", 2),
        ("num_attention_heads", 2),
        ("num_key_value_heads", 1),
    ] {
        config[key] = json!(value);
    }
    let Value::Object(differences) = differences else { unreachable!() };
    config.as_object_mut().unwrap().extend(differences);
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
}

pub fn emulated(memory: usize, dtype: Dtype) -> Cuda {
    crate::support::emulated(dtype, Settings { memory, ..Settings::default() })
        .with_moments_in_pieces_of(9000)
}

/// Trains with `spare` more than the least memory that there is a plan for, on a device that has no
/// more; returns the plan, and the weights of the last checkpoint.
fn run<R: TrainingRecipe>(
    recipe: impl Fn() -> R,
    model: &Path,
    out: &Path,
    dtype: Dtype,
    spare: usize,
) -> (Plan, Vec<u8>) {
    let prepare = |budget: Option<usize>| {
        let mut recipe = recipe();
        let values = serde_json::to_value(&recipe).unwrap();
        if let Some(bytes) = budget {
            let mut values = values;
            values["memory"]["budget_gib"] = json!(bytes as f64 / f64::from(1 << 30));
            recipe = serde_json::from_value(values).unwrap();
        }
        recipe.resolve().unwrap();
        recipe.prepare(model, 1, &()).unwrap()
    };
    let roomy = emulated(1 << 30, dtype);
    let budget = prepare(None).least(&roomy) + spare;
    let prepared = prepare(Some(budget));
    let plan = prepared.plan(&roomy, 0).unwrap();
    assert!(plan.peak() <= budget && (plan.is_tight() || spare > 0), "{plan}");
    // Memory of the host is not part of it.
    let planned = plan.peak() - OVERHEAD;
    let try_on = |memory, name: &str, prepared| {
        let place = location(out, name);
        let (world, device) = (Arc::new(World::alone()), Arc::new(emulated(memory, dtype)));
        train(prepared, &plan, &place, world, device, json!({}), &mut Watcher::default()).map(drop)
    };
    // A plan errs on the safe side, but not by far.
    let half = prepare(Some(budget));
    let half = catch_unwind(AssertUnwindSafe(|| try_on(planned / 2, "half", half)));
    assert!(!matches!(half, Ok(Ok(()))), "half of what is planned is enough: {plan}");
    try_on(planned + MOMENT, "run", prepared).unwrap();
    let weights = fs::read(last(out).join("model.safetensors")).unwrap();
    (plan, weights)
}

/// The last checkpoint of a run.
pub fn last(out: &Path) -> PathBuf {
    fs::read_dir(out.join("run/checkpoints"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .max()
        .unwrap()
}

fn check(dtype: Dtype, differences: Value) {
    let dir = tempfile::tempdir().unwrap();
    model_of(dir.path(), differences);
    let imitate = |offload_moments| {
        let mut recipe = imitation(dir.path(), 2, 1);
        recipe.memory.offload_moments = offload_moments;
        recipe
    };
    let out = |name: &str| dir.path().join(name);
    let (plan, weights) = run(|| imitate(false), dir.path(), &out("sft"), dtype, 0);
    let (offloaded, same) = run(|| imitate(true), dir.path(), &out("offloaded"), dtype, 0);
    assert!(weights == same, "where moments live changes no bit");
    assert_eq!((offloaded.moments, offloaded.host_moments), (0, plan.moments));
    assert!(offloaded.peak() < plan.peak(), "{offloaded}");

    let base = last(&out("sft"));
    let reinforce = || {
        let mut recipe = rl::Recipe::default();
        recipe.model.path = base.display().to_string();
        recipe.data.task = Some(TaskName::Countdown);
        (recipe.rollout.prompts, recipe.rollout.responses, recipe.rollout.max_tokens) = (2, 4, 12);
        (recipe.run.steps, recipe.eval.every) = (2, 0);
        recipe.update.prompts = Some(1);
        recipe.memory.offload_moments = true;
        // With a bonus all responses are learnt from, whatever their rewards.
        recipe.objective.entropy_bonus.coefficient = 1e-3;
        recipe
    };
    let (plan, weights) = run(reinforce, &base, &out("rl"), dtype, 0);
    assert!(plan.gradient > 0 && plan.kv_cache > 0 && plan.activation_cache == 0, "{plan}");
    // Spare memory keeps activations from sampling for the update.
    let (plan, same) = run(reinforce, &base, &out("rl-with-more"), dtype, 4 << 20);
    assert!(plan.activation_cache > 0, "{plan}");
    assert!(weights == same, "what memory there is changes no bit");
}

#[test]
#[ignore = "deep: several runs on the emulator"]
fn a_run_with_bf16_takes_no_more_than_its_plan_says() {
    check(Dtype::Bf16, json!({}));
}

#[test]
#[ignore = "deep: trains whole models on the emulated GPU"]
fn a_run_with_f32_takes_no_more_than_its_plan_says() {
    check(Dtype::F32, json!({}));
}

#[test]
#[ignore = "deep: several runs on the emulator"]
fn a_run_of_a_hybrid_with_experts_takes_no_more_than_its_plan_says() {
    let hybrid = json!({
        "model_type": "qwen3_5_moe_text", "architectures": ["Qwen3_5MoeForCausalLM"],
        "full_attention_interval": 2, "head_dim": 32, "linear_num_key_heads": 8,
        "linear_num_value_heads": 32, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
        "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64, "num_experts": 4,
        "num_experts_per_tok": 2,
    });
    [Dtype::F32, Dtype::Bf16].into_iter().for_each(|dtype| check(dtype, hybrid.clone()));
}

#[test]
fn a_step_whose_gradient_is_refused_is_undone_and_the_one_before_saved() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path());
    let recipe = |budget: Option<usize>| {
        let mut recipe = imitation(dir.path(), 3, 3);
        recipe.checkpoint.every = 0;
        recipe.memory.budget_gib = budget.map(|bytes| bytes as f64 / f64::from(1 << 30));
        recipe.resolve().unwrap();
        recipe.prepare(dir.path(), 1, &()).unwrap()
    };
    let backend = Arc::new(emulated(1 << 30, Dtype::F32));
    let prepared = recipe(Some(recipe(None).least(&*backend)));
    let plan = prepared.plan(&*backend, 0).unwrap();
    assert!(plan.is_tight(), "{plan}");
    // Enough memory to copy any parameter, and not enough for the gradient.
    let takes_from = Some((backend.device().clone(), plan.gradient * 3 / 4));
    let mut greedy = Watcher { takes_from, ..Watcher::default() };
    let out = dir.path().join("out");
    let place = location(&out, "run");
    let world = Arc::new(World::alone());
    let error = train(prepared, &plan, &place, world, backend, json!({}), &mut greedy)
        .map(drop)
        .unwrap_err();
    assert!(error.to_string().starts_with("there is no memory for the gradient"), "{error}");
    assert!(
        greedy.notes.iter().any(|note| note.starts_with("step 1 is saved in ")),
        "{:?}",
        greedy.notes
    );
    assert!(last(&out).join("trainer").is_dir(), "{:?}", last(&out));
}
