//! `isentrope init`: a recipe that trains, from a model, data and a reward.

use crate::program::{Scratch, assert_parts, failure, isentrope, spoken};
use crate::training::{base, metrics, problems, succeed};
use serde_json::json;
use std::fs;
use std::path::Path;

#[test]
fn a_recipe_is_written_shown_and_trains() {
    let scratch = Scratch::new();
    let data = scratch.lines("mine.jsonl", &problems());
    let out = scratch.path("recipe.toml");
    let line = format!("init --model {} --data {data} --out {out}", base());
    let (printed, said) = spoken(isentrope(&line));
    assert_parts(&said, &["recipe.toml is written", "isentrope train "]);
    assert_parts(&printed, &["# memory: weights ", "# time: about ", "1 of the data"]);
    let recipe = fs::read_to_string(&out).unwrap();
    assert_parts(&recipe, &["run.steps = 100", "mine.jsonl", "reward.verifier = \"auto\""]);
    assert!(recipe.lines().count() <= 20, "{recipe}");
    // It is never overwritten.
    let said = failure(isentrope(&line));
    assert_parts(&said, &["recipe.toml: exists already", "--out"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), recipe);
    let (run, small) = (scratch.path("run"), "rollout.max_tokens=16");
    let sets = format!("--set run.steps=1 --set {small} --set run.out={run}");
    succeed(isentrope(format!("train {out} {sets}")).env("ISENTROPE_THREADS", "1"));
    assert_eq!(metrics(Path::new(&run)).last().unwrap()["step"], 1);
}

#[test]
fn rewards_are_files_functions_or_names() {
    let scratch = Scratch::new();
    let row = json!({"problem": "1 2 3>6:", "answer": "6"});
    let data = scratch.lines("mine.jsonl", &[row]);
    let file =
        scratch.file("reward.py", "def one(x):\n    return 1\n\ndef two(x):\n    return 2\n");
    let init = |reward: &str| {
        let out = scratch.path("recipe.toml");
        let line = format!("init --model {} --data {data} --reward {reward} --out {out}", base());
        isentrope(line)
    };
    for (reward, parts) in [
        (file.clone(), ["reward.py: has several functions, one, two", "FILE.py:NAME"]),
        ("absent.py".into(), ["--reward: absent.py", "No such file"]),
        ("maths".into(), ["--reward: it must be one of", "did you mean \"math\""]),
    ] {
        assert_parts(&failure(init(&reward)), &parts);
        assert!(!Path::new(&scratch.path("recipe.toml")).exists(), "{reward}");
    }
    spoken(init("math"));
    let recipe = fs::read_to_string(scratch.path("recipe.toml")).unwrap();
    assert_parts(&recipe, &["reward.verifier = \"math\""]);
    fs::remove_file(scratch.path("recipe.toml")).unwrap();
    let _ = init(&format!("{file}:two")).output().unwrap(); // its dry run needs Python
    let recipe = fs::read_to_string(scratch.path("recipe.toml")).unwrap();
    assert_parts(&recipe, &["reward.verifier = { python = ", "reward.py:two\" }"]);
}
