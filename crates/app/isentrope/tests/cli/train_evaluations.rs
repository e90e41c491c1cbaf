//! Evaluations of `train` at several temperatures, and of sets with problems of several sources.
//! `crates/learn/evaluation` tests the numbers.

use crate::program::{
    Scratch, assert_parts, failure_saying, isentrope, json_of, spoken, stdout_of,
};
use crate::training::{Bench, base, metrics, problems, state, succeed, weights};
use serde_json::{Map, Value, json};
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
    let [plain, both] = ["plain", "both"].map(|out| bench.out(out));
    succeed(run("plain", "1"));
    let (table, said) = spoken(run("both", "[1.0,0.6]"));
    assert_parts(&said, &["evaluation after step 2, problems_t0.6: mean@2 "]);
    assert_parts(&table, &["\n  problems_t0.6 ", "    problems_t0.6: "]);
    for (plain, both) in metrics(&plain).iter().zip(&metrics(&both)) {
        assert_eq!(&without(both, "problems_t0.6"), plain.as_object().unwrap());
    }
    assert_eq!(state(&plain, 2)["best"], state(&both, 2)["best"]);
    assert!(weights(&plain, 2) == weights(&both, 2));
    // A temperature may be added to a run that has begun.
    succeed(bench.command("plain", "eval.temperature=[1,0.6] run.steps=4", "--resume"));
    let resumed = metrics(&plain);
    assert!(resumed[2].get("eval/problems_t0.6/mean@2").is_none());
    assert!(resumed[4].get("eval/problems_t0.6/mean@2").is_some(), "{}", resumed[4]);
    // The name of such a set may be another's.
    let [same, own] = ["problems_t0.6.jsonl", "problems.jsonl"]
        .map(|name| bench.scratch.lines(name, &problems()));
    let sets = format!("eval.files=[{same:?},{own:?}] eval.temperature=[1,0.6]");
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
fn problems_that_are_trained_on_too_and_settings_that_nothing_reads_are_noted() {
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
