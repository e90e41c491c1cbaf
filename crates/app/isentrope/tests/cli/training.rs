//! Shared by tests of `train` and `sft`: a tiny base model, recipes, and runs to compare byte for
//! byte.

use crate::program::{Scratch, Words, emulated, isentrope, json_lines, json_of, outcome, text};
use serde_json::{Value, json};
use std::borrow::BorrowMut;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

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
pub fn untrained() -> String {
    text(&shared().join("untrained"))
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
        let problems = text(&shared().join("problems.jsonl"));
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
        let model = untrained();
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
    pub fn command(&self, out: &str, sets: impl Words, flags: impl Words) -> Command {
        self.command_of(isentrope, out, sets, flags)
    }

    /// The command on the emulated GPU.
    pub fn emulated(&self, out: &str, sets: impl Words, flags: impl Words) -> Command {
        self.command_of(emulated, out, sets, flags)
    }

    fn command_of(
        &self,
        program: fn(Vec<String>) -> Command,
        out: &str,
        sets: impl Words,
        flags: impl Words,
    ) -> Command {
        let out = format!("run.out={}", self.scratch.path(out));
        let mut line = vec![self.command.to_owned(), self.recipe.clone()];
        line.extend(
            [out].into_iter().chain(sets.words()).flat_map(|set| ["--set".to_owned(), set]),
        );
        line.extend(flags.words());
        let mut command = program(line);
        command.env("ISENTROPE_THREADS", "1"); // tests run beside one another
        command
    }

    /// A run that must come to its end; its directory.
    pub fn run(&self, out: &str, sets: impl Words, flags: impl Words) -> PathBuf {
        succeed(self.command(out, sets, flags));
        self.out(out)
    }

    /// A copy of a finished run of [`Bench::train`] or [`Bench::sft`] with these settings, which
    /// one test of all makes.
    pub fn copy_of_run(&self, out: &str, sets: &str) -> PathBuf {
        type Runs = BTreeMap<(&'static str, String), Arc<OnceLock<PathBuf>>>;
        static RUNS: Mutex<Runs> = Mutex::new(BTreeMap::new());
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let key = (self.command, sets.to_owned());
        let run = Arc::clone(RUNS.lock().unwrap().entry(key).or_default());
        let made = run.get_or_init(|| {
            let dir = shared().join(format!("run-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
            let out = vec![format!("run.out={}", dir.display())];
            succeed(self.command("unused", [out, sets.words()].concat(), ""));
            dir
        });
        self.copy(made, out)
    }

    /// A copy of a run, as another output of this bench.
    pub fn copy(&self, run: &Path, out: &str) -> PathBuf {
        for (name, bytes) in tree(run) {
            let file = self.out(out).join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, bytes).unwrap();
        }
        self.out(out)
    }

    pub fn out(&self, out: &str) -> PathBuf {
        PathBuf::from(self.scratch.path(out))
    }
}

/// The directory that tests of this process share: the data of the benches, runs that they copy.
fn shared() -> &'static Path {
    static SHARED: OnceLock<PathBuf> = OnceLock::new();
    SHARED.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli");
        let _ = fs::remove_dir_all(&dir); // an earlier process's
        fs::create_dir_all(&dir).unwrap();
        let lines: String = problems().iter().map(|problem| format!("{problem}\n")).collect();
        fs::write(dir.join("problems.jsonl"), lines).unwrap();
        let untrained = dir.join("untrained");
        fs::create_dir(&untrained).unwrap();
        for name in crate::program::names(base().as_ref()) {
            if name != "model.safetensors" {
                fs::copy(Path::new(base()).join(&name), untrained.join(&name)).unwrap();
            }
        }
        dir
    })
}

/// Runs a command that must succeed; what it says on standard error.
pub fn succeed(command: impl BorrowMut<Command>) -> String {
    let (output, message) = outcome(command);
    assert!(output.status.success(), "{message}");
    assert!(!message.lines().any(|line| line.starts_with("error")), "{message}");
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
    json_lines(&out.join("metrics.jsonl"))
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
    json_lines(&out.join(format!("rollouts/step-{step:06}.jsonl")))
}

/// A run of `last` steps has the bytes of one that ends after `first` steps and is resumed. The
/// whole run's directory.
pub fn assert_resumes(
    bench: &Bench,
    name: &str,
    sets: impl Words,
    first: u64,
    last: u64,
) -> PathBuf {
    // The first run's end is evaluated and saved in the whole run too.
    let due = format!("eval.every={first} checkpoint.every={first} optimizer.schedule=constant");
    let of = |steps: u64| [due.words(), sets.words(), vec![format!("run.steps={steps}")]].concat();
    let whole = bench.run(name, of(last), "");
    let parts = format!("{name}-parts");
    bench.run(&parts, of(first), "");
    bench.run(&parts, of(last), "--resume");
    assert_same_results(&whole, &bench.out(&parts));
    whole
}

/// A run's timings, a line per step.
pub fn timings(out: &Path) -> Vec<Value> {
    json_lines(&out.join("timings.jsonl"))
}

/// How many lines of metrics a run has written.
pub fn lines(out: &Path) -> usize {
    fs::read_to_string(out.join("metrics.jsonl")).map_or(0, |text| text.lines().count())
}
