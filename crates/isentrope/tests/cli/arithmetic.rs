//! The problems of examples/arithmetic, and the recipe that learns from them.

use crate::program::{Scratch, isentrope};
use crate::text_model::text_model;
use crate::training::{metrics, succeed};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn shipped(name: &str) -> String {
    fs::read_to_string(root().join("examples/arithmetic").join(name)).unwrap()
}

/// The sign and the two numbers of a problem.
fn taken_apart(problem: &str) -> (&str, i64, i64) {
    let asked = problem.strip_prefix("What is ").unwrap();
    let asked = asked.strip_suffix("? Put the final answer in \\boxed{}.").unwrap();
    let [a, sign, b] = asked.split(' ').collect::<Vec<_>>()[..] else { panic!("{problem}") };
    (sign, a.parse().unwrap(), b.parse().unwrap())
}

#[test]
fn no_problem_is_there_twice_and_all_answers_are_right() {
    let mut seen = BTreeSet::new();
    let mut numbers = BTreeMap::new();
    for file in ["train.jsonl", "test.jsonl"] {
        for line in shipped(file).lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let (sign, a, b) = taken_apart(row["problem"].as_str().unwrap());
            let (kind, answer) = match sign {
                "+" => ("sum", a + b),
                "-" => ("difference", a - b),
                "*" => ("product", a * b),
                _ => panic!("{line}"),
            };
            assert_eq!(row["answer"].as_str().unwrap(), answer.to_string(), "{line}");
            assert_eq!(row["data_source"], kind, "{line}");
            // Also not with its numbers exchanged, in the same file or the other.
            assert!(seen.insert((kind, a.min(b), a.max(b))), "{file}: {line}");
            *numbers.entry((file, kind)).or_insert(0) += 1;
        }
    }
    let of = |file, kind| numbers[&(file, kind)];
    assert_eq!(["sum", "difference", "product"].map(|kind| of("train.jsonl", kind)), [100, 100, 59]);
    assert_eq!(["sum", "difference", "product"].map(|kind| of("test.jsonl", kind)), [26, 26, 26]);
}

#[test]
fn they_are_what_their_script_makes_where_there_is_python() {
    let scratch = Scratch::new();
    let script = scratch.file("make.py", shipped("make.py"));
    let Ok(made) = Command::new("python3").arg(script).status() else {
        eprintln!("there is no python3 here: the script is not run");
        return;
    };
    assert!(made.success());
    for name in ["train.jsonl", "test.jsonl"] {
        assert_eq!(fs::read_to_string(scratch.path(name)).unwrap(), shipped(name), "{name}");
    }
}

#[test]
fn the_recipe_trains_another_model_in_its_place() {
    let scratch = Scratch::new();
    let model = text_model(&scratch, "model");
    let out = scratch.path("out");
    let changes = [
        format!("run.out={out}"),
        format!("model.path={}", model.display()),
        "run.steps=1".into(),
        "eval.problems=3".into(),
    ];
    let mut command = isentrope(&["train", "recipes/smollm2-135m-arithmetic.toml"]);
    command.args(changes.iter().flat_map(|change| ["--set", change]));
    let said = succeed(command.current_dir(root()).env("ISENTROPE_THREADS", "1"));
    assert!(said.contains("259 rows: 259 usable, 0 duplicates"), "{said}");
    assert!(said.contains("78 rows: 78 usable, 0 duplicates"), "{said}");

    let lines = metrics(Path::new(&out));
    assert!(lines[0]["eval/test/mean@4"].is_f64() && lines[1]["eval/test/entropy"].is_f64(), "{lines:?}");
    let judged = ["correct", "wrong", "unparseable"]
        .map(|verdict| lines[1][format!("verdict/{verdict}")].as_f64().unwrap());
    assert_eq!(judged.iter().sum::<f64>(), 1.0, "{judged:?}");
    assert_eq!((&lines[1]["rollout/responses"], &lines[1]["update/count"]), (&128.0.into(), &2.0.into()));
}
