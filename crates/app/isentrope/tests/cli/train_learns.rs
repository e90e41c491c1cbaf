//! Reinforcement learning makes a model better, at problems that it has trained on and at others.

use crate::program::{Scratch, text};
use crate::training::{Bench, metrics};
use serde_json::Value;
use std::path::Path;

/// The built-in task's base model learns from verdicts alone. A share p of n responses has a
/// standard error of sqrt(p (1 - p) / n): below 0.025 on the 384 held-out responses, below 0.018 on
/// the 768 of three rollouts. The margins are three times the error of a difference, and more.
#[test]
#[ignore = "deep: trains until chance cannot explain the gain"]
fn accuracy_rises_by_more_than_chance_can() {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/countdown-base");
    let recipe = format!(
        r#"
run.steps = 8
model.path = {:?}
data.task = "countdown"
[rollout]
prompts = 32
responses = 8
max_tokens = 96
[update]
prompts = 8
[optimizer]
learning_rate = 2e-4
[eval]
every = 8
problems = 96
samples = 4
"#,
        text(&base)
    );
    let lines = metrics(&Bench::new(Scratch::new(), "train", &recipe).run("run", "", ""));
    let number = |line: &Value, name: &str| line[name].as_f64().unwrap();

    let held_out = "eval/countdown/mean@4";
    let (before, after) = (number(&lines[0], held_out), number(&lines[8], held_out));
    assert!(after - before > 0.11, "held-out accuracy went from {before} to {after}");

    let mean = |lines: &[Value]| {
        lines.iter().map(|l| number(l, "reward/mean")).sum::<f64>() / lines.len() as f64
    };
    let (first, last) = (mean(&lines[1..4]), mean(&lines[6..9]));
    assert!(last - first > 0.08, "the rollouts' accuracy went from {first} to {last}");

    let entropy = "policy/entropy";
    assert!(
        number(&lines[8], entropy) < number(&lines[1], entropy),
        "without a covariance term entropy falls"
    );
}
