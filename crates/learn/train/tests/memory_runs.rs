//! Memory of whole runs of reinforcement learning whose responses are as long as they may be.

use super::status;
use isentrope_data::TaskName;
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::Model;
use isentrope_model::checkpoint::{MAX_SHARD_BYTES, WeightDtype, WriteOptions, Writer};
use isentrope_ranks::World;
use isentrope_train::observer::{Observer, ProgressObserver, StepReport};
use isentrope_train::rl::Recipe;
use isentrope_train::run::{Existing, RunLocation};
use isentrope_train::settings::LoraSettings;
use isentrope_train::trainer::TrainingRecipe;
use isentrope_train::training_loop::train;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mean length of the responses of each step.
#[derive(Default)]
struct Lengths(Vec<f64>);

impl ProgressObserver for Lengths {
    fn note(&mut self, _: &str) {}
}

impl Observer for Lengths {
    fn step(&mut self, step: &StepReport<'_>) {
        self.0.extend(step.metrics.get("response/length_mean"));
    }
}

/// Writes a model with random weights, over a vocabulary of which hardly any response draws the
/// end token.
fn model(dir: &Path, cpu: Arc<Cpu>) -> PathBuf {
    let config = r#"{"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 12,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 8000,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
        "eos_token_id": 0}"#;
    fs::write(dir.join("config.json"), config).unwrap();
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/countdown-base");
    for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
        fs::copy(assets.join(name), dir.join(name)).unwrap();
    }
    let options = WriteOptions {
        dtype: WeightDtype::F32,
        max_shard_bytes: MAX_SHARD_BYTES,
        carry_from: Some(dir),
        writer: Writer::ALONE,
    };
    let saved = dir.join("model");
    Model::initialize(dir, 1, cpu).unwrap().save(&saved, options).unwrap();
    saved
}

/// Two steps of two updates each: the first learns from activations that sampling kept, the second
/// keeps tapes for its loss. The process takes at most the planned memory, and hardly less.
pub fn run(adapts: bool) {
    let dir = tempfile::tempdir().unwrap();
    let cpu = Arc::new(Cpu::new(Isa::available()[0], 2).unwrap());
    let model = model(dir.path(), cpu.clone());
    let mut recipe = Recipe::default();
    recipe.model.path = model.display().to_string();
    recipe.lora = adapts.then(LoraSettings::default);
    recipe.data.task = Some(TaskName::Countdown);
    (recipe.rollout.prompts, recipe.rollout.responses, recipe.rollout.max_tokens) = (8, 8, 80);
    (recipe.run.steps, recipe.eval.every, recipe.update.prompts) = (2, 0, Some(4));
    // With a bonus all responses are learnt from, whatever their rewards.
    recipe.objective.entropy_bonus.coefficient = 1e-3;
    recipe.memory.budget_gib = Some(4.0);
    recipe.resolve().unwrap();
    let prepared = recipe.prepare(&model, 1, &()).unwrap();
    let plan = prepared.plan(&*cpu, 0).unwrap();
    let location = RunLocation {
        dir: dir.path().join("run"),
        existing: Existing::Refuse,
        source: dir.path().join("recipe.toml"),
        recipe: (String::new(), json!({})),
        defaults: json!({}),
    };
    let mut lengths = Lengths::default();
    let world = Arc::new(World::alone());
    train(prepared, &plan, &location, world, cpu, json!({}), &mut lengths).unwrap();
    assert!(lengths.0.len() == 2 && lengths.0.iter().all(|&mean| mean > 78.0), "{:?}", lengths.0);

    let (taken, planned) = (status("VmHWM"), plan.peak());
    let summary = format!("{} MiB were taken: {plan}", taken >> 20);
    assert!(plan.activation_cache > 0 && !plan.is_tight(), "{plan}");
    assert!(taken <= planned && taken * 10 >= planned * 9, "{summary}");
}
