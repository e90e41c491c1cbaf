//! Token records of runs: what they hold, that `score` reproduces them, and the page that `inspect`
//! makes of them.

use crate::program::{
    Scratch, array, failure, isentrope, names, parse_lines, stderr, stdout_of, text, wrong_usage,
};
use crate::training::{Bench, base, checkpoint, differences, metrics, results, rollouts};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// All responses of each step, and checkpoints to score them with.
const ALL: [&str; 4] = [
    "lab.record_tokens=1000000",
    "checkpoint.every=1",
    "checkpoint.keep=9",
    "checkpoint.dtype=float32",
];

fn records(out: &Path, step: u64) -> Vec<Value> {
    parse_lines(&fs::read_to_string(out.join(format!("tokens/step-{step:06}.jsonl"))).unwrap())
}

/// `score` finds no mismatch of a single bit in the lines.
fn assert_scored_alike(scratch: &Scratch, model: &str, lines: &[Value]) {
    let input = scratch.lines("records.jsonl", lines);
    let output = isentrope(&["score", model, "--in", &input]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let scored = parse_lines(&String::from_utf8(output.stdout.clone()).unwrap());
    assert_eq!(scored.len(), lines.len());
    for line in &scored {
        assert_eq!(line["mismatch"], json!({"mean": 0.0, "max": 0.0, "outside": 0.0}), "{line}");
    }
}

#[test]
fn records_of_all_responses_are_those_of_the_rollout_and_score_agrees_to_the_last_bit() {
    let bench = Bench::train();
    let out =
        bench.run("run", &[&ALL[..], &["rollout.temperature=0.7", "run.steps=2"]].concat(), &[]);
    let metrics = metrics(&out);
    for step in 1..=2 {
        let (lines, sampled) = (records(&out, step), rollouts(&out, step));
        let here: Vec<Value> =
            lines.iter().filter(|line| line["sampled_step"] == step).cloned().collect();
        assert_eq!(here.len(), sampled.len(), "every response of the rollout");
        assert_eq!(
            (lines.len() - here.len()) as f64,
            4.0 * metrics[step as usize]["rollout/carried"].as_f64().unwrap()
        );
        for (line, response) in here.iter().zip(&sampled) {
            let pieces: String =
                array(line, "pieces").iter().map(|piece| piece.as_str().unwrap()).collect();
            assert_eq!(pieces, response["response"].as_str().unwrap());
            for key in ["origin", "sample", "verdict", "reward", "truncated"] {
                assert_eq!(line[key], response[key], "{key}");
            }
            let count =
                array(line, "tokens").len() as u64 - line["prompt_tokens"].as_u64().unwrap();
            assert_eq!(count, response["tokens"].as_u64().unwrap());
            assert_eq!(line["temperature"], 0.7);
        }
        // The model that has sampled them, and the one that the step has made.
        let before = if step == 1 { base().to_owned() } else { text(&checkpoint(&out, step - 1)) };
        assert_scored_alike(&bench.scratch, &before, &here);
        let after = |line: &Value| {
            let mut line = line.clone();
            line["logprobs"] = line["logprobs_after"].take();
            line
        };
        let moved: Vec<Value> = lines.iter().map(after).collect();
        assert_scored_alike(&bench.scratch, &text(&checkpoint(&out, step)), &moved);
        assert!(lines.iter().any(|line| line["logprobs"] != line["logprobs_after"]));
    }
}

#[test]
fn records_of_a_whole_minibatch_come_to_its_statistics() {
    let bench = Bench::train();
    let sets = ["rollout.filter=false", "update.epochs=1", "update.prompts=4", "run.steps=1"];
    let out = bench.run("run", &[&ALL[..], &sets].concat(), &[]);
    for (step, metrics) in (1..=1).zip(&metrics(&out)[1..]) {
        let lines = records(&out, step);
        let mut covariances: Vec<f64> = lines
            .iter()
            .flat_map(|line| array(line, "covariances"))
            .map(|value| value.as_f64().unwrap())
            .collect();
        covariances.sort_by(|a, b| b.total_cmp(a));
        let n = covariances.len();
        for (name, count) in
            [("cov/top_2_percent", n / 50), ("cov/top_50_percent", n / 2), ("cov/mean", n)]
        {
            let mean = covariances[..count].iter().sum::<f64>() / count as f64;
            assert!((mean - metrics[name].as_f64().unwrap()).abs() < 1e-5, "{name}: {mean}");
        }
        let selected: usize =
            lines.iter().filter_map(|line| line["selected"].as_array()).map(Vec::len).sum();
        assert_eq!(selected as f64, metrics["cov/selected"].as_f64().unwrap());
        assert!(lines.iter().all(|line| line["update"] == 1));
        for line in &lines {
            let [logprobs, advantage] = [array(line, "logprobs"), &[line["advantages"].clone()]];
            let centred = advantage[0].as_f64().unwrap() - line["mean_advantage"].as_f64().unwrap();
            for (logprob, covariance) in logprobs.iter().zip(array(line, "covariances")) {
                let expected =
                    (logprob.as_f64().unwrap() - line["mean_logprob"].as_f64().unwrap()) * centred;
                assert!((expected - covariance.as_f64().unwrap()).abs() < 1e-5, "{line}");
            }
        }
    }
}

#[test]
fn a_budget_is_kept_and_changes_nothing_else() {
    let bench = Bench::train();
    let [none, some, few, whole] = [0, 40, 1, 1_000_000].map(|tokens| {
        let set = format!("lab.record_tokens={tokens}");
        bench.run(&tokens.to_string(), &[&set, "run.steps=3", "eval.every=0"], &[])
    });
    for other in [&some, &few, &whole] {
        let differing = differences(&results(&none), &results(other));
        // Hashes of checkpoints' files do not depend on what is recorded either.
        assert!(differing.iter().all(|name| name.starts_with("tokens/")), "{differing:?}");
    }
    assert_eq!(names(&none.join("tokens")), [""; 0]);
    let mut samples = Vec::new();
    for step in 1..=3 {
        let count = |line: &Value| array(line, "pieces").len();
        let lines = records(&some, step);
        assert!(!lines.is_empty() && lines.iter().map(count).sum::<usize>() <= 40);
        assert!(
            lines.iter().all(|line| line["advantages"].is_number()),
            "what is trained on comes first"
        );
        assert_eq!(records(&few, step).len(), 1, "one at least");
        assert!(lines.iter().all(|line| records(&whole, step).contains(line)));
        samples.extend(lines.iter().map(|line| line["sample"].as_u64().unwrap()));
    }
    assert!(samples.iter().any(|&sample| sample > 0), "they are drawn: {samples:?}");
}

#[test]
fn a_step_is_shown_in_80_columns_and_on_a_page() {
    let bench = Bench::train();
    let out = bench.run("run", &["run.steps=2"], &[]);
    let said = stdout_of(&mut isentrope(&["inspect", &text(&out)]));
    assert!(said.starts_with("run, step 2: ") && said.contains("5.654   3.112   1.385"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let page = fs::read_to_string(out.join("inspect-step-000002.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && !page.contains("://"), "it needs no network");
    let first = ["inspect", &text(&out), "--step", "1", "--out", "-"];
    assert!(stdout_of(&mut isentrope(&first)).contains("tokens of step 1"));
    let elsewhere = bench.scratch.path("page.html");
    stdout_of(&mut isentrope(&["inspect", &text(&out), "--step", "last", "--out", &elsewhere]));
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), page);
    wrong_usage(
        &mut isentrope(&["inspect", &text(&out), "--step", "x"]),
        "a step's number, or last",
    );
    let said = failure(&mut isentrope(&["inspect", &text(&out), "--step", "7"]));
    assert!(said.contains("no token records of step 7; it has those of steps 1 to 2"), "{said}");
    let said = failure(&mut isentrope(&["inspect", &text(&out), "--out", &text(&out)]));
    assert!(said.contains("is a directory"), "{said}");
}

#[test]
fn responses_of_rollouts_are_refused_with_what_can_be_scored() {
    let bench = Bench::train();
    let out = bench.run("run", &["run.steps=1"], &[]);
    let lines = text(&out.join("rollouts/step-000001.jsonl"));
    let said = failure(&mut isentrope(&["score", base(), "--in", &lines]));
    assert!(
        said.contains("step-000001.jsonl:1: ") && said.contains("tokens/step-N.jsonl"),
        "{said}"
    );
}
