//! `isentrope lab selection`, on runs that have recorded all of their tokens.

use crate::program::{failure_saying, isentrope, stderr, stdout_of};
use crate::training::{Bench, metrics};
use serde_json::{Value, json};
use std::fs;

#[test]
fn what_micro_batches_pick_is_held_against_what_the_run_has_picked() {
    let bench = Bench::train();
    // Records are of the first pass over a rollout, metrics of all of them.
    let sets = [
        "run.steps=2",
        "update.epochs=1",
        "lab.record_tokens=100000",
        "objective.covariance.method=kl-cov",
        "objective.covariance.fraction=0.05",
    ];
    let out = bench.run("all", &sets, &[]);
    let run = out.to_str().unwrap();
    let found: Value =
        serde_json::from_str(&stdout_of(&mut isentrope(&["lab", "selection", run, "--json"]))).unwrap();
    assert_eq!((&found["rule"]["method"], &found["rule"]["fraction"]), (&json!("kl-cov"), &json!(0.05)));
    assert_eq!(found["incomplete"], 0);
    let steps = found["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2);
    // Inside the whole minibatch it is what the run itself has picked.
    for (step, metrics) in steps.iter().zip(metrics(&out).iter().filter(|line| line["step"] != 0)) {
        let whole = &step["compared"][0];
        assert_eq!(whole["micro_batch"], Value::Null);
        assert_eq!(whole["picked"], metrics["cov/selected"], "{step}");
        assert_eq!(whole["overlap"], 1.0);
        let share = whole["quadrants"]["unlikely_worse"].as_f64().unwrap();
        let own = metrics["cov/quadrant_low_logprob_negative_advantage"].as_f64().unwrap();
        assert!((share - own).abs() < 1e-9, "{share} {own}");
    }
    let all = found["all"].as_array().unwrap();
    let sizes: Vec<&Value> = all.iter().map(|row| &row["micro_batch"]).collect();
    assert_eq!(sizes[0], &Value::Null);
    assert_eq!(sizes.last(), Some(&&json!(1)));
    let picked: Vec<f64> = all.iter().map(|row| row["picked"].as_f64().unwrap()).collect();
    assert!(picked.last() > picked.first(), "one response picks a token at least: {picked:?}");

    let text = stdout_of(&mut isentrope(&["lab", "selection", run]));
    for part in ["what KL-Cov picks, fraction 0.05", "the whole minibatch", "each 1 response", "by step"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let clip_cov = ["--micro-batch", "2", "--method", "clip-cov", "--fraction", "0.5", "--json"];
    let asked = [&["lab", "selection", run], &clip_cov[..]].concat();
    let found: Value = serde_json::from_str(&stdout_of(&mut isentrope(&asked))).unwrap();
    assert_eq!(found["rule"], json!({"method": "clip-cov", "fraction": 0.5, "band": [1.0, 5.0]}));
    assert_eq!(found["all"].as_array().unwrap().len(), 3, "the minibatch, and both groupings");
    // The fraction of another method says nothing of this one.
    let asked = ["lab", "selection", run, "--method", "clip-cov", "--json"];
    let found: Value = serde_json::from_str(&stdout_of(&mut isentrope(&asked))).unwrap();
    assert_eq!(found["rule"]["fraction"], 2e-4);
}

/// An autopilot steers the fraction: what each step picked is compared, not what the recipe began
/// with.
#[test]
fn a_steered_fraction_is_that_of_each_step() {
    let bench = Bench::train();
    let sets = [
        "run.steps=2",
        "update.epochs=1",
        "lab.record_tokens=100000",
        "objective.covariance.method=clip-cov",
        "objective.covariance.fraction=0.05",
        "objective.entropy_bonus={ coefficient = 0.0 }",
        "objective.covariance.target_entropy=1.0",
    ];
    let out = bench.run("steered", &sets, &[]);
    let run = out.to_str().unwrap();
    let found = |more: &[&str]| -> Value {
        let asked = [&["lab", "selection", run, "--json"], more].concat();
        serde_json::from_str(&stdout_of(&mut isentrope(&asked))).unwrap()
    };
    let steps = found(&[]);
    let mut fractions = Vec::new();
    for (step, metrics) in
        steps["steps"].as_array().unwrap().iter().zip(metrics(&out).iter().filter(|line| line["step"] != 0))
    {
        assert_eq!(step["fraction"], metrics["cov/fraction"], "{step}");
        fractions.push(step["fraction"].as_f64().unwrap());
    }
    assert!(fractions.len() == 2 && fractions.iter().any(|fraction| *fraction != 0.05), "{fractions:?}");
    let asked = found(&["--fraction", "0.5"]);
    assert!(asked["steps"].as_array().unwrap().iter().all(|step| step["fraction"] == 0.5), "{asked}");
}

#[test]
fn what_is_no_run_of_all_tokens_is_refused() {
    let bench = Bench::train();
    let out = bench.run("sample", &["run.steps=1", "lab.record_tokens=40"], &[]);
    let run = out.to_str().unwrap();
    failure_saying(&mut isentrope(&["lab", "selection", run]), &["are a sample", "--set lab.record_tokens="]);
    fs::remove_dir_all(out.join("tokens")).unwrap();
    failure_saying(
        &mut isentrope(&["lab", "selection", run]),
        &["has no token records", "--set lab.record_tokens="],
    );
    failure_saying(
        &mut isentrope(&["lab", "selection", "no/such/run"]),
        &["no/such/run", "not the directory of a run"],
    );
    for wrong in [["--micro-batch", "0"], ["--fraction", "0"], ["--fraction", "1.5"], ["--fraction", "x"]] {
        let output = isentrope(&[&["lab", "selection", run][..], &wrong].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}
