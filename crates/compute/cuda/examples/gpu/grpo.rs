//! A whole step of GRPO by the program itself: sampling, verdicts, one update with AdamW, and all
//! files of a run.

use crate::Scale;
use crate::models::{MODELS, Sizes, build};
use crate::peak::most_taken;
use crate::process::{ProcessEnd, run_limited};
use crate::report::{Pace, Report, median};
use isentrope_cuda::{Device, Dtype};
use isentrope_model::checkpoint::{WeightDtype, WriteOptions, Writer};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Steps of a run, ours and TRL's. The report has the median time of a step, without the first.
pub const STEPS: usize = 4;
/// Time limit of such a run.
pub const RUN: Duration = Duration::from_secs(100);

/// Trains the smaller model: the larger one's moments and checkpoint would be too large.
pub fn grpo(device: &Arc<dyn Device>, tests: &Path, out: &Path, scale: Scale, report: &mut Report) {
    let sizes = Sizes::of(&MODELS[0], scale);
    let work = out.join("grpo");
    let _ = fs::remove_dir_all(&work);
    let free = device.memory_info().free;
    let prepared = prepare(device, &sizes, tests, &work);
    let train = || prepared.and_then(|()| train(&sizes, tests, out, &work));
    let (trained, memory) = most_taken(&**device, free, train);
    // Its checkpoints have some gigabytes.
    let _ = fs::remove_dir_all(&work);
    match trained {
        Ok(Some(seconds)) => report.pace(
            "GRPO",
            &sizes.step(),
            Pace { seconds, tokens: sizes.sequences * sizes.sampled, flop: 0.0, memory },
            "the program itself: exact weights, verdicts and files included",
        ),
        Ok(None) => {
            let why = format!(
                "not measured: stopped after {} s, see {}",
                RUN.as_secs(),
                log(out).display()
            );
            report.remark("GRPO", &sizes.step(), &why);
        }
        Err(why) => report.verdict("GRPO", &sizes.step(), Err(why)),
    }
}

/// Makes a directory with a model of random weights, prompts of its tokenizer's digits, and a
/// recipe.
fn prepare(
    device: &Arc<dyn Device>,
    sizes: &Sizes,
    tests: &Path,
    work: &Path,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", work.display());
    // The tokenizer has no end token, so all responses have the greatest length.
    let tokenizer = work.join("tokenizer");
    fs::create_dir_all(&tokenizer).map_err(failed)?;
    fs::copy(tests.join("assets/countdown-base/tokenizer.json"), tokenizer.join("tokenizer.json"))
        .map_err(failed)?;
    let config = json!({ "tokenizer_class": "PreTrainedTokenizerFast" });
    fs::write(tokenizer.join("tokenizer_config.json"), config.to_string()).map_err(failed)?;
    let (model, _) =
        build(device, Dtype::Bf16, &sizes.config).map_err(|error| error.to_string())?;
    let options = WriteOptions {
        dtype: WeightDtype::Bf16,
        max_shard_bytes: u64::MAX,
        carry_from: Some(&tokenizer),
        writer: Writer::ALONE,
    };
    model.save(&work.join("model"), options).map_err(|error| error.to_string())?;
    let mut random = crate::probe::Random::new(11);
    let mut prompts = String::new();
    for _ in 0..sizes.prompts() * STEPS {
        let prompt: String =
            (0..sizes.prompt).map(|_| char::from(b'0' + (random.bits() % 10) as u8)).collect();
        writeln!(prompts, "{}", json!({ "prompt": prompt, "answer": "1" }))
            .expect("a text takes all");
    }
    fs::write(work.join("prompts.jsonl"), prompts).map_err(failed)?;
    // Random texts are all wrong and teach nothing. The entropy bonus makes all of them go
    // backward.
    let recipe = format!(
        r#"
[run]
steps = {STEPS}
out = "run"
[model]
path = "model"
[data]
files = ["prompts.jsonl"]
template = "none"
max_prompt_tokens = {}
[rollout]
prompts = {}
responses = {}
max_tokens = {}
[objective.entropy_bonus]
coefficient = 1e-3
[optimizer]
learning_rate = 1e-6
[eval]
every = 0
[checkpoint]
every = 0
[device]
dtype = "bf16"
"#,
        sizes.prompt,
        sizes.prompts(),
        sizes.group(),
        sizes.sampled
    );
    fs::write(work.join("recipe.toml"), recipe).map_err(failed)
}

/// The run's output.
fn log(out: &Path) -> PathBuf {
    out.join("grpo.log")
}

/// The median seconds of a step; none if the run was stopped.
fn train(sizes: &Sizes, tests: &Path, out: &Path, work: &Path) -> Result<Option<f64>, String> {
    let mut command = Command::new(tests.join("isentrope"));
    command.current_dir(work).args(["train", "recipe.toml", "--device", "cuda"]);
    let log = log(out);
    let ProcessEnd { status, stopped, text, .. } = run_limited(&mut command, &log, RUN)?;
    if stopped {
        return Ok(None);
    }
    if !status.success() {
        let last = text.lines().last().unwrap_or("it says nothing");
        return Err(format!("the run has failed: {last}: see {}", log.display()));
    }
    let lengths = numbers(&work.join("run/metrics.jsonl"), "response/length_mean")?;
    let mut seconds = numbers(&work.join("run/timings.jsonl"), "time/step_s")?;
    if lengths != [sizes.sampled as f64; STEPS] || seconds.len() != STEPS {
        return Err(format!(
            "{STEPS} steps of {} tokens were asked for, not {lengths:?}",
            sizes.sampled
        ));
    }
    Ok(Some(median(seconds.split_off(1))))
}

/// A number of each step, from a file of the run.
fn numbers(file: &Path, name: &str) -> Result<Vec<f64>, String> {
    let lines = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let rows = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let rows = rows.filter(|row| row["step"].as_u64() > Some(0));
    Ok(rows.filter_map(|row| row[name].as_f64()).collect())
}
