//! Reinforcement learning makes a model better, at problems that it has trained on and at others.

use crate::program::{Scratch, isentrope, text};
use crate::training::{EASY, checkpoint, metrics, succeed, untrained};
use serde_json::Value;
use std::path::PathBuf;

fn run(scratch: &Scratch, command: &str, name: &str, recipe: &str) -> PathBuf {
    let recipe = scratch.file(&format!("{name}.toml"), recipe);
    let out = scratch.path(name);
    let mut command = isentrope(&[command, &recipe, "--set", &format!("run.out={out}")]);
    succeed(command.env("ISENTROPE_THREADS", "1"));
    PathBuf::from(out)
}

/// A model learns to imitate attempts, about half of which fail, and then from verdicts alone. A share p of n responses
/// has a standard error of sqrt(p (1 - p) / n): below 0.03 on the 304 held-out responses, below 0.015 on the 1280 of five
/// rollouts. The margins are four times the error of a difference, and more.
#[test]
fn accuracy_rises_by_more_than_chance_can() {
    let scratch = Scratch::new();
    let imitation = format!(
        r#"
run.steps = 1500
model.path = {:?}
model.from_scratch = true
[sft]
batch = 32
max_tokens = 64
[optimizer]
learning_rate = 1e-2
schedule = "cosine"
warmup_steps = 10
[eval]
every = 0
{EASY}"#,
        untrained(&scratch)
    );
    let base = checkpoint(&run(&scratch, "sft", "base", &imitation), 1500);
    let reinforcement = format!(
        r#"
run.steps = 60
model.path = {:?}
[rollout]
prompts = 32
responses = 8
max_tokens = 24
[update]
prompts = 8
[optimizer]
learning_rate = 1e-3
[eval]
every = 60
problems = 19
samples = 16
{EASY}"#,
        text(&base)
    );
    let lines = metrics(&run(&scratch, "train", "better", &reinforcement));
    let number = |line: &Value, name: &str| line[name].as_f64().unwrap();

    let held_out = "eval/countdown/mean@16";
    let (before, after) = (number(&lines[0], held_out), number(&lines[60], held_out));
    assert!(after - before > 0.13, "held-out accuracy went from {before} to {after}");

    let mean =
        |lines: &[Value]| lines.iter().map(|l| number(l, "reward/mean")).sum::<f64>() / lines.len() as f64;
    let (first, last) = (mean(&lines[1..6]), mean(&lines[56..61]));
    assert!(last - first > 0.2, "the rollouts' accuracy went from {first} to {last}");

    let entropy = "policy/entropy";
    assert!(
        number(&lines[60], entropy) < number(&lines[1], entropy),
        "without a covariance term entropy falls"
    );
}
