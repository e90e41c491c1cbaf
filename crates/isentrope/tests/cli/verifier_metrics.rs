//! What verifiers measure beside the verdict: of rollouts, of evaluations, in their rows, and by `isentrope eval`.

use crate::program::{Scratch, isentrope, parse_lines, stdout_of, text};
use crate::training::{Bench, base, metrics, problems, succeed};
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
        assert!(got.is_some_and(|got| (got - want).abs() < 1e-12), "{prefix}/{name} is {got:?}, not {want}");
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
            assert_eq!(measured["attempts"], json!(response.split(';').count() as f64), "{response}");
            assert_eq!(
                measured["gave_up"],
                json!(f64::from(u8::from(response.ends_with('?')))),
                "{response}"
            );
            // A right response of one attempt has no false step; a wrong one that is said to be false has.
            let reason = row["reason"].as_str().unwrap();
            let is_false = reason.ends_with("is not true") || reason.ends_with("is not available");
            falsehoods += usize::from(is_false);
            assert!(!is_false || measured["false_steps"].as_f64() > Some(0.0), "{response}");
            let is_right = row["verdict"] == "correct" && !response.contains(';');
            assert!(!is_right || measured["false_steps"] == 0.0, "{response}");
        }
    }
    assert!(falsehoods > 0 && unread > 0, "{falsehoods} false, {unread} not read: nothing was tried");
}

#[test]
fn parts_of_a_weighted_sum_are_told_apart() {
    let bench = Bench::train();
    let verifier =
        "reward.verifier.weighted=[{verifier='countdown',weight=1},{verifier='countdown',weight=1}]";
    let out = bench.run("run", &[verifier, "run.steps=1"], &[]);
    let lines = metrics(&out);
    let of_part =
        |part: &str| ["", "/attempts", "/false_steps", "/gave_up"].map(|name| format!("{part}{name}"));
    let names = [of_part("part_1"), of_part("part_2")].concat();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_written(&lines[1], "reward", &rows(&out.join("rollouts/step-000001.jsonl")), &names);
    assert_written(
        &lines[0],
        "eval/problems",
        &rows(&out.join("evaluations/step-000000-problems.jsonl")),
        &names,
    );
}

/// A verifier of the user's own may call its metrics what it likes: none passes for a number of the set.
#[cfg(unix)]
#[test]
fn metrics_of_ones_own_are_told_of_evaluations_beside_the_sets_own_numbers() {
    let bench = Bench::train();
    let script = bench.scratch.file(
        "worker.sh",
        r#"asked=0
while read -r line; do id=${line#*:}; id=${id%%,*}; asked=$((asked + 1))
metrics="{\"odd\":$((asked % 2)),\"entropy\":100,\"a/mean@2\":101,\"reward_entropy\":102}"
echo "{\"id\":$id,\"score\":$((asked % 2)),\"metrics\":$metrics}"
done"#,
    );
    let own = format!("reward.verifier={{ command = [\"sh\", {script:?}], workers = 1 }}");
    let lines = metrics(&bench.run("own", &[&own, "run.steps=1", "rollout.filter=false"], &[]));
    let plain = metrics(&bench.run("plain", &["run.steps=1"], &[]));
    for (line, rollout) in [(&lines[0], false), (&lines[1], true)] {
        assert_eq!(line["eval/problems/odd"], 0.5);
        assert_eq!(line["eval/problems/reward_entropy"], 100.0);
        assert_eq!(line["eval/problems/a/reward_mean@2"], 101.0);
        assert_eq!(line["eval/problems/reward_reward_entropy"], 102.0);
        assert!(!rollout || line["reward/entropy"] == 100.0 && line["reward/odd"] == 0.5);
    }
    assert_eq!(lines[0]["eval/problems/entropy"], plain[0]["eval/problems/entropy"], "before the first step");
}

/// A verifier that names metrics after what it judges: the first names have numbers, the others a word.
#[cfg(unix)]
#[test]
fn of_more_metrics_than_are_kept_there_is_a_note() {
    let bench = Bench::train();
    let script = bench.scratch.file(
        "worker.sh",
        r#"while read -r line; do id=${line#*:}; id=${id%%,*}; i=0; metrics=
while [ $i -lt 60 ]; do metrics="$metrics,\"m${id}_$i\":1"; i=$((i + 1)); done
echo "{\"id\":$id,\"score\":$((id % 2)),\"metrics\":{${metrics#,}}}"
done"#,
    );
    let verifier = format!("{{ command = [\"sh\", {script:?}], workers = 1 }}");
    let own = format!("reward.verifier={verifier}");
    let said = succeed(&mut bench.command("own", &[&own, "run.steps=1", "rollout.filter=false"], &[]));
    let note = "the verifier names more than 64 metrics: the first 64 are kept";
    assert_eq!(said.matches(note).count(), 3, "of two evaluations and a rollout: {said}");
    assert!(said.contains(&format!("problems: {note}")), "{said}");
    let lines = metrics(&bench.out("own"));
    let count =
        |line: &Value, of: &str| line.as_object().unwrap().keys().filter(|name| name.starts_with(of)).count();
    assert_eq!(count(&lines[0], "eval/problems/m"), 64 + 1, "with mean@k: {}", lines[0]);
    assert_eq!((count(&lines[1], "eval/problems/m"), count(&lines[1], "reward/m")), (65, 65), "{}", lines[1]);
}

#[test]
fn the_command_eval_has_them_with_intervals() {
    let scratch = Scratch::new();
    let file = scratch.lines("problems.jsonl", &problems());
    let out = scratch.path("out");
    let arguments = ["eval", base(), "--bench", &format!("mine={file}"), "--n", "4", "--temperature", "1.2"];
    let table = stdout_of(&mut isentrope(&[&arguments[..], &["--max-tokens", "16", "--out", &out]].concat()));
    assert!(table.contains("false_steps") && table.contains("attempts"), "{table}");
    let want = means(&rows(&Path::new(&out).join("responses/mine.jsonl")));
    let results: Value =
        serde_json::from_slice(&fs::read(text(&Path::new(&out).join("results.json"))).unwrap()).unwrap();
    let told = results["benchmarks"]["mine"]["metrics"].as_object().unwrap();
    assert_eq!(told.keys().collect::<Vec<_>>(), ["attempts", "false_steps", "gave_up"]);
    for (name, estimate) in told {
        let [value, low, high] = ["value", "low", "high"].map(|key| estimate[key].as_f64().unwrap());
        assert!((value - want[name]).abs() < 1e-12 && low <= value && value <= high, "{name}: {estimate}");
    }
    let falsehoods = &told["false_steps"];
    assert!(falsehoods["low"].as_f64() < falsehoods["high"].as_f64(), "{falsehoods}");
}
