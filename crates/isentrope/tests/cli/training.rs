//! What the tests of `train` and `sft` share: a tiny base model, recipes, and runs that can be compared byte for byte.

use crate::program::{Scratch, emulated, isentrope, stderr, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Steps that make the base model.
const BASE_STEPS: u64 = 800;

/// What makes problems of the built-in task so easy that a tiny model learns them in a second.
pub const EASY: &str = r#"
[data]
task = "countdown"
[data.countdown]
numbers = [3]
weights = [1.0]
largest_number = 5
largest_intermediate = 15
operations = ["+", "-"]
[data.countdown.demonstrations]
attempts = 1.0
max_attempts = 1
abandon = 0.0
"#;

/// Problems with answers of one digit, which the base model gets right now and then.
pub fn problems() -> Vec<Value> {
    (0..24u32)
        .map(|i| {
            let (a, b, c) = (1 + i % 5, 1 + i / 5, 1 + i % 3);
            let target = a + b + c;
            let ground_truth = json!({"numbers": [a, b, c], "target": target});
            json!({"problem": format!("{a} {b} {c}>{target}:"), "answer": ground_truth})
        })
        .collect()
}

/// A model directory without weights: a Qwen2 over the built-in task's characters.
fn empty_model(dir: &Path) {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/countdown-base");
    fs::create_dir_all(dir).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
        fs::copy(assets.join(name), dir.join(name)).unwrap();
    }
    let mut config: Value = serde_json::from_slice(&fs::read(assets.join("config.json")).unwrap()).unwrap();
    for (key, value) in [
        ("hidden_size", 32),
        ("intermediate_size", 64),
        ("num_hidden_layers", 2),
        ("num_attention_heads", 2),
        ("num_key_value_heads", 1),
        ("max_position_embeddings", 128),
    ] {
        config[key] = json!(value);
    }
    config["torch_dtype"] = json!("float32");
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
}

/// A directory with a config and a tokenizer to start from scratch with.
pub fn untrained(scratch: &Scratch) -> String {
    let dir = scratch.path("untrained");
    empty_model(Path::new(&dir));
    dir
}

/// A tiny model that imitates worked examples of the easy task, trained once per process.
pub fn base() -> &'static str {
    static BASE: OnceLock<String> = OnceLock::new();
    BASE.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("base-{}", std::process::id()));
        empty_model(&dir.join("untrained"));
        let recipe = dir.join("base.toml");
        let text = format!(
            "run.steps = {BASE_STEPS}\nmodel.path = {:?}\nmodel.from_scratch = true\n[sft]\nbatch = 32\n\
             max_tokens = 64\n[optimizer]\nlearning_rate = 1e-2\nwarmup_steps = 10\nschedule = \"cosine\"\n\
             [eval]\nevery = 0\n{EASY}",
            dir.join("untrained")
        );
        fs::write(&recipe, text).unwrap();
        let out = dir.join("run");
        let arguments = ["sft", &path(&recipe), "--overwrite", "--set", &format!("run.out={}", path(&out))];
        succeed(isentrope(&arguments).env("ISENTROPE_THREADS", "1"));
        path(&out.join(format!("checkpoints/step-{BASE_STEPS:06}")))
    })
}

fn path(path: &Path) -> String {
    text(path)
}

/// A recipe in a directory of its own, and the runs made of it.
pub struct Bench {
    pub scratch: Scratch,
    command: &'static str,
    recipe: String,
}

impl Bench {
    /// Runs of `command` on the recipe.
    pub fn new(scratch: Scratch, command: &'static str, recipe: &str) -> Self {
        let recipe = scratch.file("recipe.toml", recipe);
        Self { scratch, command, recipe }
    }

    /// Reinforcement learning with everything in it that a run has to carry from step to step: dynamic sampling with
    /// its surplus, several updates per rollout, a covariance term with its alarms, an entropy bonus that moves.
    pub fn train() -> Self {
        let scratch = Scratch::new();
        let problems = scratch.lines("problems.jsonl", &problems());
        let text = format!(
            r#"
[run]
steps = 6
seed = 3
[model]
path = {model:?}
[data]
files = [{problems:?}]
[rollout]
prompts = 4
responses = 4
max_tokens = 16
filter = true
max_batches = 40
[objective]
loss = "importance"
entropy_bonus = {{ coefficient = 1e-3, target = 1.5, rate = 1e-2, max = 0.1 }}
[objective.covariance]
method = "kl-cov"
fraction = 0.04
[update]
prompts = 2
epochs = 2
[optimizer]
learning_rate = 1e-3
schedule = "cosine"
warmup_steps = 1
final_fraction = 0.1
weight_decay = 0.1
[eval]
every = 2
files = [{problems:?}]
problems = 6
samples = 2
[checkpoint]
every = 2
dtype = "bfloat16"
"#,
            model = base()
        );
        Self::new(scratch, "train", &text)
    }

    /// Supervised fine-tuning on examples of the built-in task.
    pub fn sft() -> Self {
        let scratch = Scratch::new();
        let model = untrained(&scratch);
        let text = format!(
            r#"
[run]
steps = 6
seed = 3
[model]
path = {model:?}
from_scratch = true
[sft]
batch = 12
max_tokens = 64
[optimizer]
learning_rate = 3e-3
schedule = "linear"
warmup_steps = 1
[eval]
every = 3
problems = 6
samples = 2
max_tokens = 16
[checkpoint]
every = 2
{EASY}"#
        );
        Self::new(scratch, "sft", &text)
    }

    /// A run into a directory of the scratch, with more settings and flags.
    pub fn command(&self, out: &str, sets: &[&str], flags: &[&str]) -> Command {
        self.command_of(isentrope, out, sets, flags)
    }

    /// The same on the emulated GPU.
    pub fn emulated(&self, out: &str, sets: &[&str], flags: &[&str]) -> Command {
        self.command_of(emulated, out, sets, flags)
    }

    fn command_of(
        &self,
        program: fn(&[String]) -> Command,
        out: &str,
        sets: &[&str],
        flags: &[&str],
    ) -> Command {
        let out = format!("run.out={}", self.scratch.path(out));
        let mut arguments = vec![self.command, &self.recipe, "--set", &out];
        for set in sets {
            arguments.extend(["--set", set]);
        }
        arguments.extend(flags);
        let mut command = program(&arguments.into_iter().map(str::to_owned).collect::<Vec<_>>());
        command.env("ISENTROPE_THREADS", "1"); // tests run beside one another
        command
    }

    /// A run that must come to its end; its directory.
    pub fn run(&self, out: &str, sets: &[&str], flags: &[&str]) -> PathBuf {
        succeed(&mut self.command(out, sets, flags));
        self.out(out)
    }

    pub fn out(&self, out: &str) -> PathBuf {
        PathBuf::from(self.scratch.path(out))
    }
}

/// Runs a command that must succeed; what it says on standard error.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let message = stderr(&output);
    assert!(output.status.success(), "{command:?}: {message}");
    assert!(!message.lines().any(|line| line.starts_with("error")), "{command:?}: {message}");
    message
}

/// Every file below a directory, by its path in it.
pub fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(here) = pending.pop() {
        for entry in fs::read_dir(&here).unwrap_or_else(|e| panic!("{}: {e}", here.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                files.insert(text(path.strip_prefix(dir).unwrap()), fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// Everything in a run's directory that the recipe alone decides.
pub fn results(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let decided = |name: &str| {
        ["metrics.jsonl", "initial-states.jsonl"].contains(&name)
            || ["rollouts/", "tokens/", "evaluations/", "checkpoints/"]
                .iter()
                .any(|part| name.starts_with(part))
    };
    let mut files = tree(out);
    files.retain(|name, _| decided(name));
    assert!(files.contains_key("metrics.jsonl"), "{} holds no results", out.display());
    files
}

/// Names of the files that are not the same in both.
pub fn differences(a: &BTreeMap<String, Vec<u8>>, b: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names.into_iter().filter(|name| a.get(*name) != b.get(*name)).cloned().collect()
}

/// The two runs have the same results, byte for byte.
pub fn assert_same_results(a: &Path, b: &Path) {
    assert_eq!(differences(&results(a), &results(b)), [""; 0], "{} and {}", a.display(), b.display());
}

/// A run's metrics, a line per step.
pub fn metrics(out: &Path) -> Vec<Value> {
    crate::program::parse_lines(&fs::read_to_string(out.join("metrics.jsonl")).unwrap())
}

/// A checkpoint of a run.
pub fn checkpoint(out: &Path, step: u64) -> PathBuf {
    out.join(format!("checkpoints/step-{step:06}"))
}

/// The trainer's state in a checkpoint.
pub fn state(out: &Path, step: u64) -> Value {
    serde_json::from_slice(&fs::read(checkpoint(out, step).join("trainer/state.json")).unwrap()).unwrap()
}
