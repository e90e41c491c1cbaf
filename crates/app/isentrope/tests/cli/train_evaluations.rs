//! Evaluations of `train` at several temperatures, and of sets with problems of several sources.

use crate::program::{
    Scratch, assert_parts, failure_saying, isentrope, json_lines, json_of, spoken, stdout_of,
};
use crate::training::{Bench, base, metrics, problems, rollouts, state, succeed, weights};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A step's metrics of everything but the sets and laws of this name.
fn without(line: &Value, set: &str) -> Map<String, Value> {
    let of_set = [format!("eval/{set}/"), format!("law/{set}/")];
    let is_kept = |name: &str| !of_set.iter().any(|prefix| name.starts_with(prefix));
    line.as_object().unwrap().clone().into_iter().filter(|(name, _)| is_kept(name)).collect()
}

#[test]
fn further_temperatures_are_sets_that_change_nothing_else() {
    let bench = Bench::train();
    let run = |out: &str, temperature: &str| {
        bench.command(out, format!("run.steps=2 eval.temperature={temperature}"), "")
    };
    let [plain, cool, both] = ["plain", "cool", "both"].map(|out| bench.out(out));
    succeed(run("plain", "1"));
    succeed(run("cool", "0.6"));
    let (table, said) = spoken(run("both", "[1.0,0.6]"));
    assert_parts(&said, &["evaluation after step 2, problems_t0.6: mean@2 "]);
    assert_parts(&table, &["\n  problems_t0.6 ", "    problems_t0.6: "]);
    let [of_plain, of_cool, of_both] = [&plain, &cool, &both].map(|out| metrics(out));
    assert_eq!(of_both.len(), 3);
    for ((plain, cool), both) in of_plain.iter().zip(&of_cool).zip(&of_both) {
        assert_eq!(&without(both, "problems_t0.6"), plain.as_object().unwrap());
        for (name, value) in cool.as_object().unwrap() {
            if let Some(what) = name.strip_prefix("eval/problems/") {
                assert_eq!(both[format!("eval/problems_t0.6/{what}")], *value, "{name}");
            }
        }
    }
    assert!(of_both[0].get("eval/mean_of_sets").is_none());
    assert_eq!(state(&plain, 2)["best"], state(&both, 2)["best"]);
    assert!(weights(&plain, 2) == weights(&both, 2));
    let kept = |out: &Path, set: &str| {
        fs::read(out.join(format!("evaluations/step-000002-{set}.jsonl"))).unwrap()
    };
    assert!(kept(&plain, "problems") == kept(&both, "problems"));
    assert!(kept(&cool, "problems") == kept(&both, "problems_t0.6"));
    // A temperature may be added to a run that has begun.
    let more = "eval.temperature=[1,0.6] run.steps=4";
    succeed(bench.command("plain", more, "--resume"));
    let resumed = metrics(&plain);
    assert!(resumed[2].get("eval/problems_t0.6/mean@2").is_none());
    assert!(resumed[4].get("eval/problems_t0.6/mean@2").is_some(), "{}", resumed[4]);
}

#[test]
fn every_set_and_benchmark_is_evaluated_at_every_temperature() {
    let bench = Bench::train();
    let sums = bench.scratch.lines("sums.jsonl", &[json!({"problem": "1 + 1", "answer": 2})]);
    let sets = format!(
        "run.steps=1 eval.every=1 eval.max_tokens=8 eval.temperature=[0.0,0.7,1.0] \
         eval.bench=[\"math500={sums}\"]"
    );
    let said = succeed(bench.command("run", sets, ""));
    assert_parts(&said, &["eval.temperature = [0, 0.7, 1] instead of 0"]);
    let first = &metrics(&bench.out("run"))[0];
    let mean = |set: &str| first[format!("eval/{set}/mean@2")].as_f64().unwrap();
    for set in ["problems_t0.7", "problems_t1", "math500_t0.7", "math500_t1"] {
        assert!(mean(set) >= 0.0, "{set}");
    }
    assert_eq!(first["eval/mean_of_sets"], json!((mean("problems") + mean("math500")) / 2.0));

    let [plain, same] = ["problems.jsonl", "problems_t0.6.jsonl"]
        .map(|name| bench.scratch.lines(name, &problems()));
    let sets = format!("eval.files=[{same:?},{plain:?}] eval.temperature=[1,0.6]");
    let parts = ["eval.temperature", "problems_t0.6", "rename"];
    failure_saying(bench.command("no", sets, "--dry-run"), &parts);
}

#[test]
fn problems_of_several_sources_are_told_apart_in_training_and_by_the_command() {
    let bench = Bench::train();
    // The second source has a name that no metric can have.
    let source = |i: usize| if i.is_multiple_of(3) { "sum" } else { "my/other\u{1b}[31m" };
    let mut rows = problems();
    rows.iter_mut().enumerate().for_each(|(i, row)| row["data_source"] = json!(source(i)));
    let test = bench.scratch.lines("test.jsonl", &rows);
    let sets =
        format!("run.steps=1 eval.every=1 eval.samples=4 eval.problems=24 eval.files=[{test:?}]");
    let (table, said) = spoken(bench.command("run", sets, ""));
    let parts = ["evaluation after step 1, test, mean@4 of parts: my_other__31m "];
    assert_parts(&said, &parts);
    assert_parts(&table, &["      of sum ", "      of my_other__31m "]);
    let first = &metrics(&bench.out("run"))[0];
    let of = |part: &str, what: &str| first[format!("eval/test/{part}{what}")].as_f64().unwrap();
    for what in ["mean@4", "pass@4", "entropy", "length_mean"] {
        let mixed = (of("sum/", what) + 2.0 * of("my_other__31m/", what)) / 3.0;
        assert!((mixed - of("", what)).abs() < 1e-9, "{what}: {mixed} is not {}", of("", what));
    }
    let laws = first.as_object().unwrap().keys().filter(|name| name.starts_with("law/"));
    assert_eq!(laws.collect::<Vec<_>>(), ["law/test/entropy_spent"], "parts have none");

    let out = bench.scratch.path("eval");
    let table = stdout_of(isentrope(format!(
        "eval {} --bench test={test} -n 4 --temperature 1 --max-tokens 16 --seed 3 --out {out}",
        base()
    )));
    assert_parts(&table, &["    sum/mean@4 "]);
    let results = json_of(&Path::new(&out).join("results.json"));
    for (name, estimate) in results["benchmarks"]["test"]["estimates"].as_object().unwrap() {
        assert_eq!(first[format!("eval/test/{name}")], estimate["value"], "{name}");
    }
}

#[test]
fn problems_that_are_trained_on_too_and_settings_that_nothing_reads_are_told() {
    let scratch = Scratch::new();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/countdown-base");
    let mut rows = problems();
    rows.iter_mut().for_each(|row| row["response"] = json!("1+1=2!"));
    let (train, test) =
        (scratch.lines("train.jsonl", &rows[..14]), scratch.lines("test.jsonl", &rows[10..]));
    let recipe = format!(
        "run.steps = 1\nmodel.path = {model:?}\n\
         data = {{ files = [{train:?}], prompt_prefix = \"1 \", system = \"Count.\" }}\n\
         eval = {{ every = 1, files = [{test:?}], max_tokens = 8, temperature = [1.0, 0.5] }}\n"
    );
    let recipe = scratch.file("recipe.toml", recipe);
    let notes = [
        "test: 4 of 14 problems are in data.files too; the first is test.jsonl line 1: accuracy on \
         them says nothing of others",
        "data.system has no effect: the model has no chat template",
    ];
    for line in ["train --set rollout.max_tokens=8", "sft --set sft.max_tokens=64"] {
        let shown = stdout_of(isentrope(format!("{line} {recipe} --dry-run")));
        for note in notes {
            assert_eq!(shown.matches(note).count(), 1, "{line}: {shown}");
        }
    }
}

/// The mean of each of a verifier's metrics over the rows that have it.
fn means(rows: &[Value]) -> BTreeMap<String, f64> {
    let names: BTreeSet<&String> =
        rows.iter().filter_map(|r| r["metrics"].as_object()).flat_map(|m| m.keys()).collect();
    let mean = |name: &String| {
        let values: Vec<f64> = rows.iter().filter_map(|r| r["metrics"][name].as_f64()).collect();
        (name.clone(), values.iter().sum::<f64>() / values.len() as f64)
    };
    names.into_iter().map(mean).collect()
}

/// `crates/judge/reward` tests the measures themselves.
#[test]
fn a_verifiers_measures_are_told_of_rollouts_evaluations_and_by_the_command() {
    let bench = Bench::train();
    let sets = "rollout.temperature=1.5 eval.temperature=1.5 eval.samples=8 run.steps=2";
    let out = bench.run("run", sets, "");
    let names = ["attempts", "false_steps", "gave_up"];
    let lines = metrics(&out);
    let evaluated = json_lines(&out.join("evaluations/step-000002-problems.jsonl"));
    for (prefix, rows) in [("eval/problems", evaluated), ("reward", rollouts(&out, 2))] {
        let want = means(&rows);
        assert_eq!(want.keys().collect::<Vec<_>>(), names, "{prefix}");
        for (name, want) in want {
            let got = lines[2][&format!("{prefix}/{name}")].as_f64().unwrap();
            assert!((got - want).abs() < 1e-12, "{prefix}/{name} is {got}, not {want}");
        }
    }
    let file = bench.scratch.lines("mine.jsonl", &problems());
    let dir = bench.scratch.path("eval");
    let table = stdout_of(isentrope(format!(
        "eval {} --bench mine={file} -n 4 --temperature 1.2 --max-tokens 16 --out {dir}",
        base()
    )));
    assert_parts(&table, &names);
    let want = means(&json_lines(&Path::new(&dir).join("responses/mine.jsonl")));
    let results = json_of(&Path::new(&dir).join("results.json"));
    for (name, estimate) in results["benchmarks"]["mine"]["metrics"].as_object().unwrap() {
        let [value, low, high] =
            ["value", "low", "high"].map(|key| estimate[key].as_f64().unwrap());
        assert!((value - want[name]).abs() < 1e-12 && low <= value && value <= high, "{name}");
    }
}
