//! Programs that a model writes are run: the built-in task of code, and benchmarks of it.

use crate::program::{Scratch, isentrope, lines_of, parse_lines, stdout_of, text};
use crate::text_model::text_model;
use crate::training::{Bench, metrics};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn base() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/programs-base")
}

/// The whole loop: a model writes programs, they are run in a sandbox, and it learns from their verdicts. A share p of n
/// responses has a standard error of sqrt(p (1 - p) / n), below 0.026 for the 384 held-out ones: the margin is five times the
/// error of a difference.
#[test]
fn a_model_learns_to_write_programs_that_pass_their_tests() {
    let recipe = format!(
        r#"
run.steps = 10
model.path = {:?}
data.task = "programs"
reward.verifier = "code"
[rollout]
prompts = 32
responses = 8
max_tokens = 64
[update]
prompts = 8
[optimizer]
learning_rate = 2e-4
[eval]
every = 10
problems = 96
samples = 4
"#,
        text(&base())
    );
    let run = Bench::new(Scratch::new(), "train", &recipe).run("run", &[], &[]);
    let lines = metrics(&run);
    let number = |line: &Value, name: &str| line[name].as_f64().unwrap();
    let held_out = "eval/programs/mean@4";
    let (before, after) = (number(&lines[0], held_out), number(&lines[10], held_out));
    assert!(before > 0.2 && after - before > 0.18, "held-out accuracy went from {before} to {after}");
    for kind in ["expressions", "lists"] {
        assert!(number(&lines[10], &format!("eval/programs/{kind}/mean@4")) > 0.2, "{kind}");
    }
    // What was not right is told apart, and every response has its program and its reason.
    let responses = fs::read_to_string(run.join("evaluations/step-000000-programs.jsonl")).unwrap();
    for line in parse_lines(&responses) {
        assert!(["correct", "wrong", "unparseable"].contains(&line["verdict"].as_str().unwrap()), "{line}");
        assert!(line["verdict"] != "correct" || line["extracted"] == line["response"], "{line}");
    }
}

#[test]
fn the_built_in_task_is_a_benchmark_and_told_by_kind() {
    let scratch = Scratch::new();
    let (out, model) = (scratch.path("out"), text(&base()));
    let arguments =
        ["eval", &model, "--bench", "programs", "--limit", "8", "--max-tokens", "64", "--out", &out];
    let table = stdout_of(&mut isentrope(&arguments));
    for part in ["programs: 8 problems, 4 responses each", "expressions/mean@4", "lists/mean@4"] {
        assert!(table.contains(part), "{part:?} is not in: {table}");
    }
}

/// A base model goes on with the beginning of a function as it is, whatever template there is.
#[test]
fn completions_go_past_the_chat_template() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let prompt = "def one():\n    \"\"\"The number one.\"\"\"\n";
    let test = "def check(candidate):\n    assert candidate() == 1\n";
    let row = json!({"task_id": "HumanEval/0", "prompt": prompt, "entry_point": "one", "test": test});
    let file = scratch.lines("humaneval.jsonl", &[row]);
    let prompts = scratch.lines("prompts.jsonl", &[json!({"prompt": prompt})]);
    let out = scratch.path("out");
    let response = |benchmark: &str| {
        let bench = format!("{benchmark}={file}");
        stdout_of(&mut isentrope(&["eval", &model, "--bench", &bench, "--max-tokens", "12", "--out", &out]));
        let lines = fs::read_to_string(Path::new(&out).join(format!("responses/{benchmark}.jsonl"))).unwrap();
        parse_lines(&lines)[0].clone()
    };
    let greedy = ["--temperature", "0", "--max-tokens", "12"];
    let generated = |template: &str| {
        let arguments = ["generate", &model, "--prompts", &prompts, "--template", template];
        lines_of(isentrope(&[&arguments[..], &greedy].concat()))[0]["text"].clone()
    };
    let completed = response("humaneval-completion");
    assert_eq!((&completed["prompt"], &completed["response"]), (&json!(prompt), &generated("none")));
    assert_ne!(completed["response"], generated("chat"), "the template makes a difference");
    assert!(
        response("humaneval")["prompt"]
            .as_str()
            .unwrap()
            .contains("in a markdown code block:\n```\ndef one()")
    );
}
