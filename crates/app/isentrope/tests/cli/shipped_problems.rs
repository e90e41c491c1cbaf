//! The problems of examples/arithmetic and examples/word-problems, and the recipes that learn from
//! them.

use crate::program::{Scratch, isentrope, skipped};
use crate::text_model::text_model;
use crate::training::{metrics, succeed};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn shipped(example: &str, name: &str) -> String {
    fs::read_to_string(root().join("examples").join(example).join(name)).unwrap()
}

/// The rows of an example's files, with the file's name.
fn rows<const N: usize>(example: &str, files: [&'static str; N]) -> Vec<(&'static str, Value)> {
    let of = |file| {
        shipped(example, file)
            .lines()
            .map(|line| (file, serde_json::from_str(line).unwrap()))
            .collect()
    };
    files.map(of).into_iter().flat_map(|rows: Vec<_>| rows).collect()
}

/// The sign and the two numbers of a problem.
fn taken_apart(problem: &str) -> (&str, i64, i64) {
    let asked = problem.strip_prefix("What is ").unwrap();
    let asked = asked.strip_suffix("? Put the final answer in \\boxed{}.").unwrap();
    let [a, sign, b] = asked.split(' ').collect::<Vec<_>>()[..] else { panic!("{problem}") };
    (sign, a.parse().unwrap(), b.parse().unwrap())
}

#[test]
fn no_sum_is_there_twice_and_all_answers_are_right() {
    let mut seen = BTreeSet::new();
    let mut count = BTreeMap::new();
    for (file, row) in rows("arithmetic", ["test.jsonl", "train.jsonl", "easy.jsonl", "hard.jsonl"])
    {
        let (sign, a, b) = taken_apart(row["problem"].as_str().unwrap());
        let (kind, answer) = match sign {
            "+" => ("sum", a + b),
            "-" => ("difference", a - b),
            "*" => ("product", a * b),
            _ => panic!("{row}"),
        };
        assert_eq!(row["answer"].as_str().unwrap(), answer.to_string(), "{row}");
        assert_eq!(row["data_source"], kind, "{row}");
        // Not in the same file, nor in the test and a file to train on; also not with its numbers
        // exchanged.
        let same = (kind, a.min(b), a.max(b));
        assert!(
            !seen.contains(&("test.jsonl", same)) && seen.insert((file, same)),
            "{file}: {row}"
        );
        *count.entry((file, kind)).or_insert(0) += 1;
    }
    let of = |file, kind| count.get(&(file, kind)).copied().unwrap_or(0);
    let kinds = |file| ["sum", "difference", "product"].map(|kind| of(file, kind));
    assert_eq!(kinds("test.jsonl"), [26, 26, 26]);
    assert_eq!(kinds("train.jsonl"), [100, 100, 59]);
    assert_eq!(kinds("easy.jsonl"), [100, 0, 59]);
    assert_eq!(kinds("hard.jsonl"), [100, 300, 59]);
}

#[test]
fn they_are_what_their_scripts_make_where_there_is_python() {
    let examples: [(&str, &[&str]); 3] = [
        ("arithmetic", &["train.jsonl", "test.jsonl", "easy.jsonl", "hard.jsonl"]),
        ("guess", &["train.jsonl", "test.jsonl"]),
        ("word-problems", &["train.jsonl", "test.jsonl", "worked.jsonl"]),
    ];
    for (example, files) in examples {
        let scratch = Scratch::new();
        let script = scratch.file("make.py", shipped(example, "make.py"));
        let Ok(made) = Command::new("python3").arg(script).status() else {
            skipped("there is no python3 here: the scripts are not run");
            return;
        };
        assert!(made.success());
        for name in files {
            assert_eq!(
                fs::read_to_string(scratch.path(name)).unwrap(),
                shipped(example, name),
                "{example}/{name}"
            );
        }
    }
}

/// Makes one step of `recipes/smollm2-135m-{recipe}.toml` with a small model in the place of its
/// own: what that says, and its metrics.
fn one_step(command: &str, recipe: &str, changes: &str) -> (String, Vec<Value>) {
    let scratch = Scratch::new();
    let out = scratch.path("out");
    let model = text_model(&scratch, "model");
    let sets = format!("run.out={out} model.path={} eval.problems=3", model.display());
    let sets = format!("run.steps=1 {sets} {changes}");
    let sets = sets.split_whitespace().flat_map(|set| ["--set", set]);
    let mut command = isentrope(format!("{command} recipes/smollm2-135m-{recipe}.toml"));
    command.args(sets);
    let said = succeed(command.current_dir(root()).env("ISENTROPE_THREADS", "1"));
    (said, metrics(Path::new(&out)))
}

#[test]
fn the_recipes_train_another_model_in_its_place() {
    for (recipe, rows) in [("arithmetic", [259, 78]), ("word-problems", [400, 104])] {
        let (said, lines) = one_step("train", recipe, "");
        for rows in rows {
            assert!(said.contains(&format!("{rows} rows: {rows} usable, 0 duplicates")), "{said}");
        }
        let evaluated =
            (lines[0]["eval/test/mean@4"].is_f64(), lines[1]["eval/test/entropy"].is_f64());
        assert_eq!(evaluated, (true, true), "{lines:?}");
        assert_eq!(lines[1]["verdict/fault"], 0.0);
    }
    // Its tokens are shorter, and it has no more positions.
    let (said, lines) = one_step("sft", "worked", "sft.max_tokens=512");
    for rows in ["200 rows: 193 usable, 0 duplicates", "104 rows: 104 usable, 0 duplicates"] {
        assert!(said.contains(rows), "{said}");
    }
    assert!(lines[1]["sft/loss"].is_f64() && lines[1]["eval/test/mean@4"].is_f64(), "{lines:?}");
}
