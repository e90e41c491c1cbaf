//! Evaluations of `train` at several temperatures, and of sets with problems of several sources.

use crate::program::{
    Scratch, assert_parts, failure_saying, isentrope, json_of, stderr, stdout_of,
};
use crate::training::{Bench, base, metrics, problems, state, succeed, weights};
use serde_json::{Map, Value, json};
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
    let run = |out: &str, temperature: &str| bench.command(out, &["run.steps=2", temperature], &[]);
    let [plain, cool, both] = ["plain", "cool", "both"].map(|out| bench.out(out));
    succeed(&mut run("plain", "eval.temperature=1"));
    succeed(&mut run("cool", "eval.temperature=0.6"));
    let output = run("both", "eval.temperature=[1.0, 0.6]").output().unwrap();
    let (table, said) = (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output));
    assert!(output.status.success(), "{said}");
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
    assert_ne!(of_both[0]["eval/problems_t0.6/entropy"], of_both[0]["eval/problems/entropy"]);
    assert_eq!(state(&plain, 2)["best"], state(&both, 2)["best"]);
    assert!(weights(&plain, 2) == weights(&both, 2));
    let kept = |out: &Path, set: &str| {
        fs::read(out.join(format!("evaluations/step-000002-{set}.jsonl"))).unwrap()
    };
    assert!(kept(&plain, "problems") == kept(&both, "problems"));
    assert!(kept(&cool, "problems") == kept(&both, "problems_t0.6"));
    let recipe = |out: &Path| fs::read_to_string(out.join("recipe.toml")).unwrap();
    assert_parts(&recipe(&cool), &["\ntemperature = 0.6\n"]);
    assert_parts(&recipe(&both), &["\ntemperature = [1.0, 0.6]\n"]);
    // A temperature may be added to a run that has begun.
    let more = ["eval.temperature=[1, 0.6]", "run.steps=4"];
    succeed(&mut bench.command("plain", &more, &["--resume"]));
    let resumed = metrics(&plain);
    assert!(resumed[2].get("eval/problems_t0.6/mean@2").is_none());
    assert!(resumed[4].get("eval/problems_t0.6/mean@2").is_some(), "{}", resumed[4]);
}

#[test]
fn every_set_and_benchmark_is_evaluated_at_every_temperature() {
    let bench = Bench::train();
    let sums = bench.scratch.lines("sums.jsonl", &[json!({"problem": "1 + 1", "answer": 2})]);
    let sets = [
        "run.steps=1",
        "eval.every=1",
        "eval.max_tokens=8",
        "eval.temperature=[0.0, 0.7, 1.0]",
        &format!("eval.bench=['math500={sums}']"),
    ];
    let said = succeed(&mut bench.command("run", &sets, &[]));
    assert!(said.contains("eval.temperature = [0, 0.7, 1] instead of 0"), "{said}");
    let first = &metrics(&bench.out("run"))[0];
    let mean = |set: &str| first[format!("eval/{set}/mean@2")].as_f64().unwrap();
    for set in ["problems_t0.7", "problems_t1", "math500_t0.7", "math500_t1"] {
        assert!(mean(set) >= 0.0, "{set}");
    }
    assert_eq!(first["eval/mean_of_sets"], json!((mean("problems") + mean("math500")) / 2.0));

    let same = bench.scratch.lines("problems_t0.6.jsonl", &problems());
    let problems = bench.scratch.path("problems.jsonl");
    for files in [format!("{problems:?}, {same:?}"), format!("{same:?}, {problems:?}")] {
        let sets = [&format!("eval.files=[{files}]")[..], "eval.temperature=[1, 0.6]"];
        failure_saying(
            &mut bench.command("no", &sets, &["--dry-run"]),
            &["eval.temperature", "problems_t0.6", "rename"],
        );
    }
}

/// Countdown problems of two sources, the second with a name that no metric can have.
fn of_sources() -> Vec<Value> {
    let source = |i: usize| if i.is_multiple_of(3) { "sum" } else { "my/other\u{1b}[31m" };
    let with_source = |(i, mut problem): (usize, Value)| {
        problem["data_source"] = json!(source(i));
        problem
    };
    problems().into_iter().enumerate().map(with_source).collect()
}

#[test]
fn problems_of_several_sources_are_told_apart_in_training_and_by_the_command() {
    let bench = Bench::train();
    let test = bench.scratch.lines("test.jsonl", &of_sources());
    let files = format!("eval.files=['{test}']");
    let sets = ["run.steps=1", "eval.every=1", "eval.samples=4", "eval.problems=24", &files];
    let mut command = bench.command("run", &sets, &[]);
    let output = command.output().unwrap();
    let (table, said) = (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output));
    assert!(
        said.contains("evaluation after step 1, test, mean@4 of parts: my_other__31m "),
        "{said}"
    );
    assert!(
        table.contains("      of sum ") && table.contains("      of my_other__31m "),
        "{table}"
    );
    let first = &metrics(&bench.out("run"))[0];
    let of = |part: &str, what: &str| first[format!("eval/test/{part}{what}")].as_f64().unwrap();
    for what in ["mean@4", "pass@4", "entropy", "length_mean"] {
        let mixed = (of("sum/", what) + 2.0 * of("my_other__31m/", what)) / 3.0;
        assert!((mixed - of("", what)).abs() < 1e-9, "{what}: {mixed} is not {}", of("", what));
    }
    let laws = first.as_object().unwrap().keys().filter(|name| name.starts_with("law/"));
    assert_eq!(laws.collect::<Vec<_>>(), ["law/test/entropy_spent"], "parts have none");

    let (out, set) = (bench.scratch.path("eval"), format!("test={test}"));
    let arguments =
        ["eval", base(), "--bench", &set, "-n", "4", "--temperature", "1", "--max-tokens", "16"];
    let more = ["--seed", "3", "--out", &out];
    let table = stdout_of(&mut isentrope(&[&arguments[..], &more].concat()));
    assert!(table.contains("    sum/mean@4 "), "{table}");
    let results = json_of(&Path::new(&out).join("results.json"));
    for (name, estimate) in results["benchmarks"]["test"]["estimates"].as_object().unwrap() {
        assert_eq!(first[format!("eval/test/{name}")], estimate["value"], "{name}");
    }
    assert!(results["benchmarks"]["test"]["estimates"].get("sum/entropy").is_some());

    // One source tells nothing apart.
    let one: Vec<Value> =
        of_sources().into_iter().filter(|problem| problem["data_source"] == "sum").collect();
    let one = format!("eval.files=['{}']", bench.scratch.lines("one.jsonl", &one));
    let first = &metrics(&bench.run("one", &["run.steps=1", "eval.every=1", &one], &[]))[0];
    assert!(
        first.as_object().unwrap().keys().all(|name| !name.starts_with("eval/one/sum")),
        "{first}"
    );
}

#[test]
fn problems_that_are_trained_on_too_and_settings_that_nothing_reads_are_told() {
    let scratch = Scratch::new();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/countdown-base");
    let mut rows = problems();
    rows.iter_mut().for_each(|row| row["response"] = json!("1+1=2!"));
    let (train, test) =
        (scratch.lines("train.jsonl", &rows[..14]), scratch.lines("test.jsonl", &rows[10..]));
    let other = scratch.lines("other.jsonl", &rows[14..]);
    let recipe = format!(
        "run.steps = 1\nmodel.path = {model:?}\n\
         data = {{ files = [{train:?}], prompt_prefix = \"1 \", system = \"Count.\" }}\n\
         eval = {{ every = 1, files = [{test:?}, {other:?}], max_tokens = 8, temperature = [1.0, 0.5] }}\n"
    );
    let recipe = scratch.file("recipe.toml", recipe);
    let notes = [
        "test: 4 of 14 problems are in data.files too; the first is test.jsonl line 1: accuracy on them says nothing of others",
        "data.system has no effect: the model has no chat template",
    ];
    for (command, more) in [("train", "rollout.max_tokens=8"), ("sft", "sft.max_tokens=64")] {
        let shown = stdout_of(&mut isentrope(&[command, &recipe, "--dry-run", "--set", more]));
        for note in notes {
            assert_eq!(shown.matches(note).count(), 1, "{command}: {shown}");
        }
        assert_eq!(shown.matches("data.files too").count(), 1, "{command}: {shown}");
    }
}
