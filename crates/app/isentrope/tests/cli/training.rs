//! Shared by tests of `train` and `sft`: a tiny base model, recipes, and runs to compare byte for
//! byte.

use crate::program::{Scratch, emulated, isentrope, json_of, parse_lines, stderr, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The built-in task with problems so easy that a tiny model learns them in a second.
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

/// A directory to start from scratch with: the base model without its weights.
pub fn untrained(scratch: &Scratch) -> String {
    let dir = scratch.copy(base().as_ref(), "untrained");
    fs::remove_file(dir.join("model.safetensors")).unwrap();
    text(&dir)
}

/// A tiny model that imitates worked examples of the easy task; tests/fixtures/base-model.toml
/// makes it.
pub fn base() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/base-model")
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

    /// Reinforcement learning with everything in it that a run has to carry from step to step:
    /// dynamic sampling with its surplus, several updates per rollout, a covariance term with its
    /// alarms, an entropy bonus that moves.
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

    /// The command on the emulated GPU.
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
    assert_eq!(
        differences(&results(a), &results(b)),
        [""; 0],
        "{} and {}",
        a.display(),
        b.display()
    );
}

/// A run's metrics, a line per step.
pub fn metrics(out: &Path) -> Vec<Value> {
    parse_lines(&fs::read_to_string(out.join("metrics.jsonl")).unwrap())
}

/// A checkpoint of a run.
pub fn checkpoint(out: &Path, step: u64) -> PathBuf {
    out.join(format!("checkpoints/step-{step:06}"))
}

/// The trainer's state in a checkpoint.
pub fn state(out: &Path, step: u64) -> Value {
    json_of(&checkpoint(out, step).join("trainer/state.json"))
}

/// The weights in a checkpoint.
pub fn weights(out: &Path, step: u64) -> Vec<u8> {
    fs::read(checkpoint(out, step).join("model.safetensors")).unwrap()
}

/// The sampled responses of a step.
pub fn rollouts(out: &Path, step: u64) -> Vec<Value> {
    parse_lines(&fs::read_to_string(out.join(format!("rollouts/step-{step:06}.jsonl"))).unwrap())
}

/// A run of `last` steps has the bytes of one that ends after `first` steps and is resumed. The
/// whole run's directory.
pub fn assert_resumes(bench: &Bench, name: &str, sets: &[&str], first: u64, last: u64) -> PathBuf {
    // The first run's end is evaluated and saved in the whole run too.
    let due = [format!("eval.every={first}"), format!("checkpoint.every={first}")];
    let (first, last) = (format!("run.steps={first}"), format!("run.steps={last}"));
    let sets = [&[&*due[0], &*due[1], "optimizer.schedule=constant"], sets].concat();
    let whole = bench.run(name, &[&sets[..], &[&last]].concat(), &[]);
    let parts = format!("{name}-parts");
    bench.run(&parts, &[&sets[..], &[&first]].concat(), &[]);
    bench.run(&parts, &[&sets[..], &[&last]].concat(), &["--resume"]);
    assert_same_results(&whole, &bench.out(&parts));
    whole
}

/// How many lines of metrics a run has written.
pub fn lines(out: &Path) -> usize {
    fs::read_to_string(out.join("metrics.jsonl")).map_or(0, |text| text.lines().count())
}
