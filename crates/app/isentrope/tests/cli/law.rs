//! The command `law`.

use crate::program::{Scratch, failure_saying, isentrope, stderr, stdout_of, wrong_usage};
use isentrope_lab::law::{Point, SEED, Study};
use serde_json::{Value, json};
use std::fs;

/// A run directory whose evaluations obey the law but for a little, with accuracies moved by
/// `lift`.
fn run(scratch: &Scratch, name: &str, points: u64, lift: f64) -> String {
    let dir = scratch.path(name);
    fs::create_dir(&dir).unwrap();
    let lines = (0..points).map(|i| {
        let entropy = 0.15 + 1.05 * (-0.4 * i as f64).exp();
        let accuracy = 0.8 - 0.17 * entropy.exp() + lift + [0.004, -0.003, 0.001, -0.004, 0.002][i as usize % 5];
        json!({ "step": 5 * i, "eval/test/mean@1": accuracy, "eval/test/entropy": entropy, "eval/test/pass@8": 0.9,
                "policy/entropy": entropy, "reward/score": accuracy })
    });
    scratch.lines(&format!("{name}/metrics.jsonl"), &lines.collect::<Vec<_>>());
    dir
}

fn report(arguments: &[&str]) -> Value {
    let all = [&["law", "--json"], arguments].concat();
    serde_json::from_str(&stdout_of(&mut isentrope(&all))).unwrap()
}

#[test]
fn a_run_has_a_law_a_prediction_and_a_plot() {
    let scratch = Scratch::new();
    let dir = run(&scratch, "grpo", 12, 0.0);
    let text = stdout_of(&mut isentrope(&["law", &dir]));
    for part in [
        "grpo, test\n",
        "accuracy R is eval/test/mean@1, entropy H is eval/test/entropy",
        "12 points, steps 0 to 55",
        "entropy   1.200 ->",
        "R = -a exp(H) + b                    95 % interval",
        "ceiling at H = 0, b - a",
        "the first 3 points (to step 10) predict the other 9",
        "c - d exp(-step / tau)       -             -",
        "-: not determined by so few points",
        "predicted less measured",
        "measured",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        text.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)),
        "nothing is drawn:\n{text}"
    );
    assert_eq!(text, stdout_of(&mut isentrope(&["law", &dir])));
    let one = &report(&[&dir])["runs"][0];
    assert_eq!((&one["run"], &one["measured"]["set"]), (&json!("grpo"), &json!("test")));
    assert_eq!(one["refusals"], json!([]));
    let ceiling = &one["law"]["ceiling"];
    let [value, low, high] = ["value", "low", "high"].map(|end| ceiling[end].as_f64().unwrap());
    assert!(
        low < value && value < high && (value - 0.63).abs() < 0.01 && high - low < 0.05,
        "{ceiling}"
    );
    assert_eq!(one["prediction"]["prefix"], 3);
    assert_eq!(one["points"].as_array().unwrap().len(), 12);
    // The bits of training, show and report.
    let points: Vec<Point> = serde_json::from_value(one["points"].clone()).unwrap();
    assert_eq!(json!(Study::of(points, SEED).holds()), one["law"]);
    let other = report(&[&dir, "--prefix", "0.5", "--seed", "3"]);
    assert_eq!(other["runs"][0]["prediction"]["prefix"], 6);
    assert_eq!(other["runs"][0]["law"]["a"]["value"], one["law"]["a"]["value"]);
    assert_ne!(other["runs"][0]["law"]["a"]["low"], one["law"]["a"]["low"]);
}

/// As `show` and `report` take them; those of one name are called by their paths.
#[test]
fn a_directory_of_several_runs_is_all_of_them() {
    let scratch = Scratch::new();
    for (dir, name, lift) in [("one", "grpo", 0.0), ("one", "rloo", 0.004), ("two", "grpo", -0.004)]
    {
        fs::create_dir_all(scratch.path(dir)).unwrap();
        fs::rename(
            run(&scratch, "run", 10, lift) + "/metrics.jsonl",
            scratch.path(&format!("{dir}/{name}.jsonl")),
        )
        .unwrap();
        fs::remove_dir(scratch.path("run")).unwrap();
    }
    let report = report(&[&scratch.path("one"), &scratch.path("two")]);
    let path = |run: &str| scratch.path(run);
    assert_eq!(
        report["together"][0]["runs"],
        json!([path("one/grpo.jsonl"), "rloo", path("two/grpo.jsonl")])
    );
}

/// Nobody can leave a run out of a directory: what one of a sweep has not measured yet keeps no
/// other from its law.
#[test]
fn runs_of_a_directory_that_have_hardly_begun_keep_no_other_from_its_law() {
    let scratch = Scratch::new();
    let sweep = scratch.path("sweep");
    fs::create_dir(&sweep).unwrap();
    let begun = scratch.lines("sweep/begun.jsonl", &[json!({ "step": 1, "grad/norm": 1.0 })]);
    let later = scratch.lines("sweep/later.jsonl", &[json!({ "step": 1, "grad/norm": 2.0 })]);
    failure_saying(
        &mut isentrope(&["law", &sweep]),
        &[
            "none of the 2 runs has points; the first: ",
            "begun.jsonl: no step has both an accuracy and",
        ],
    );
    let named =
        scratch.lines("script.jsonl", &[json!({ "step": 1, "entropy": 1.0, "accuracy": 0.5 })]);
    failure_saying(
        &mut isentrope(&["law", &named]),
        &["script.jsonl: no step has both", "--entropy and --accuracy"],
    );
    fs::remove_file(later).unwrap();
    for (name, points, lift) in [("a", 10, 0.0), ("b", 10, 0.004), ("c", 1, 0.1), ("d", 1, 0.1)] {
        let metrics = run(&scratch, name, points, lift) + "/metrics.jsonl";
        fs::rename(metrics, scratch.path(&format!("sweep/{name}.jsonl"))).unwrap();
    }
    let mut law = isentrope(&["law", "--json", &sweep]);
    let said = stderr(&law.output().unwrap());
    for part in [
        "begun.jsonl: no step has both an accuracy and an entropy yet",
        "note: c and d have the same points (eval/test/mean@1), which count once",
    ] {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
    let report: Value = serde_json::from_str(&stdout_of(&mut law)).unwrap();
    let runs = report["runs"].as_array().unwrap().iter();
    assert_eq!(
        runs.map(|run| run["run"].as_str().unwrap()).collect::<Vec<_>>(),
        ["a", "b", "c", "d"]
    );
    assert_eq!(report["together"][0]["runs"], json!(["a", "b", "c"]));
    // So it is with a metric that one of them has not measured; a run that is named alone can be
    // left out.
    let accuracy = ["--accuracy", "eval/test/pass@8"];
    stdout_of(&mut isentrope(&[&["law", &sweep], &accuracy[..]].concat()));
    failure_saying(
        &mut isentrope(&[&["law", &begun, &sweep], &accuracy[..]].concat()),
        &["has no metric"],
    );
}

#[test]
fn metrics_sets_and_tables_are_chosen_by_name() {
    let scratch = Scratch::new();
    let dir = run(&scratch, "run", 8, 0.0);
    let metrics = |arguments: &[&str]| {
        let report = report(&[&[dir.as_str()], arguments].concat());
        let measured = &report["runs"][0]["measured"];
        ["set", "accuracy", "entropy"].map(|key| measured[key].as_str().unwrap().to_owned())
    };
    assert_eq!(metrics(&["--set", "rollout"]), ["rollout", "reward/score", "policy/entropy"]);
    assert_eq!(
        metrics(&["--entropy", "policy/entropy"]),
        ["test", "eval/test/mean@1", "policy/entropy"]
    );
    let pass_at_8 = "eval/test/pass@8";
    assert_eq!(metrics(&["--accuracy", pass_at_8]), ["test", pass_at_8, "eval/test/entropy"]);
    let rows: String = (0..8)
        .map(|i| format!("{},{},{}\n", 10 * i, 2.0 - 0.2 * f64::from(i), 0.1 + 0.05 * f64::from(i)))
        .collect();
    let csv = scratch.file("w.csv", format!("_step,actor/entropy,val/acc\n{rows}"));
    let from_csv = report(&[&csv, "--entropy", "actor/entropy", "--accuracy", "val/acc"]);
    assert_eq!(
        from_csv["runs"][0]["points"][3],
        json!({"step": 30, "entropy": 1.4, "accuracy": 0.25})
    );
}

#[test]
fn what_cannot_be_read_is_named_with_a_remedy() {
    let scratch = Scratch::new();
    let dir = run(&scratch, "run", 8, 0.0);
    let law = |arguments: &[&str]| isentrope(&[&["law"], arguments].concat());
    failure_saying(
        &mut law(&[&dir, "--set", "x"]),
        &["run: --set x: there is no such set; there are: test"],
    );
    failure_saying(
        &mut law(&[&dir, "--accuracy", "eval/test/mean@8"]),
        &["no metric", "eval/test/mean@1"],
    );
    failure_saying(&mut law(&["nowhere"]), &["nowhere: "]);
    let csv = scratch.file("a.csv", "step,entropy,acc\n0,1.0,0.5\n1,?,0.5\n");
    failure_saying(
        &mut law(&[&csv]),
        &["a.csv: line 3: column \"entropy\" must have a number, not \"?\""],
    );
    scratch.lines("run/metrics.jsonl", &[json!({"step": 1, "grad/norm": 1.0})]);
    failure_saying(
        &mut law(&[&dir]),
        &["metrics.jsonl: no step has both an accuracy and an entropy yet"],
    );
    wrong_usage(&mut law(&[]), "RUN");
    wrong_usage(&mut law(&[&dir, "--prefix", "1.5"]), "between 0 and 1");
}
