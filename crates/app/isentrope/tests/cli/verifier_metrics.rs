//! Measures of verifiers beside the verdict: in rollouts, in evaluations, in their rows, and by
//! `isentrope eval`.

use crate::program::{Scratch, isentrope, json_of, parse_lines, stdout_of};
use crate::training::{Bench, base, metrics, problems};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

fn rows(path: &Path) -> Vec<Value> {
    parse_lines(&fs::read_to_string(path).unwrap())
}

/// The mean of each metric over the rows that have it.
fn means(rows: &[Value]) -> BTreeMap<String, f64> {
    let names: BTreeSet<&String> =
        rows.iter().filter_map(|r| r["metrics"].as_object()).flat_map(|m| m.keys()).collect();
    let mean = |name: &String| {
        let values: Vec<f64> = rows.iter().filter_map(|r| r["metrics"][name].as_f64()).collect();
        (name.clone(), values.iter().sum::<f64>() / values.len() as f64)
    };
    names.into_iter().map(mean).collect()
}

fn assert_written(line: &Value, prefix: &str, rows: &[Value], names: &[&str]) {
    let want = means(rows);
    assert_eq!(want.keys().collect::<Vec<_>>(), names, "{prefix}");
    for (name, want) in want {
        let got = line[&format!("{prefix}/{name}")].as_f64();
        assert!(
            got.is_some_and(|got| (got - want).abs() < 1e-12),
            "{prefix}/{name} is {got:?}, not {want}"
        );
    }
}

#[test]
fn attempts_giving_up_and_false_steps_are_told_of_rollouts_and_evaluations() {
    let bench = Bench::train();
    let sets = ["rollout.temperature=1.5", "eval.temperature=1.5", "eval.samples=8", "run.steps=2"];
    let out = bench.run("run", &sets, &[]);
    let names = ["attempts", "false_steps", "gave_up"];
    let lines = metrics(&out);
    let (mut falsehoods, mut unread) = (0, 0);
    for step in [0, 1, 2] {
        if step != 1 {
            let rows = rows(&out.join(format!("evaluations/step-{step:06}-problems.jsonl")));
            assert_written(&lines[step], "eval/problems", &rows, &names);
        }
        if step == 0 {
            continue;
        }
        let rows = rows(&out.join(format!("rollouts/step-{step:06}.jsonl")));
        assert_written(&lines[step], "reward", &rows, &names);
        for row in &rows {
            let (response, measured) = (row["response"].as_str().unwrap().trim(), &row["metrics"]);
            if row["verdict"] == "unparseable" {
                unread += usize::from(measured.is_null());
                assert!(measured.is_null() || measured["gave_up"] == 0.0);
                continue;
            }
            assert_eq!(
                measured["attempts"],
                json!(response.split(';').count() as f64),
                "{response}"
            );
            assert_eq!(
                measured["gave_up"],
                json!(f64::from(u8::from(response.ends_with('?')))),
                "{response}"
            );
            // A right response of one attempt has no false step; a wrong one that is said to be
            // false has.
            let reason = row["reason"].as_str().unwrap();
            let is_false = reason.ends_with("is not true") || reason.ends_with("is not available");
            falsehoods += usize::from(is_false);
            assert!(!is_false || measured["false_steps"].as_f64() > Some(0.0), "{response}");
            let is_right = row["verdict"] == "correct" && !response.contains(';');
            assert!(!is_right || measured["false_steps"] == 0.0, "{response}");
        }
    }
    assert!(
        falsehoods > 0 && unread > 0,
        "{falsehoods} false, {unread} not read: nothing was tried"
    );
}

#[test]
fn the_command_eval_has_them_with_intervals() {
    let scratch = Scratch::new();
    let file = scratch.lines("problems.jsonl", &problems());
    let out = scratch.path("out");
    let arguments =
        ["eval", base(), "--bench", &format!("mine={file}"), "--n", "4", "--temperature", "1.2"];
    let table = stdout_of(&mut isentrope(
        &[&arguments[..], &["--max-tokens", "16", "--out", &out]].concat(),
    ));
    assert!(table.contains("false_steps") && table.contains("attempts"), "{table}");
    let want = means(&rows(&Path::new(&out).join("responses/mine.jsonl")));
    let results = json_of(&Path::new(&out).join("results.json"));
    let told = results["benchmarks"]["mine"]["metrics"].as_object().unwrap();
    assert_eq!(told.keys().collect::<Vec<_>>(), ["attempts", "false_steps", "gave_up"]);
    for (name, estimate) in told {
        let [value, low, high] =
            ["value", "low", "high"].map(|key| estimate[key].as_f64().unwrap());
        assert!(
            (value - want[name]).abs() < 1e-12 && low <= value && value <= high,
            "{name}: {estimate}"
        );
    }
    let falsehoods = &told["false_steps"];
    assert!(falsehoods["low"].as_f64() < falsehoods["high"].as_f64(), "{falsehoods}");
}
