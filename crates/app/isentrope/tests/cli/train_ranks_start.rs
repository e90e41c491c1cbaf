//! How runs on several ranks begin, and what is said where they cannot.

use crate::program::{assert_parts, stderr};
use crate::train_ranks::{Launcher, assert_failed_once, ended};
use crate::training::{Bench, checkpoint, succeed, tree};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::thread;

#[test]
#[ignore = "deep: several runs"]
fn where_the_recipe_does_not_say_there_are_as_many_shards_as_ranks() {
    let bench = Bench::train();
    let sets = "optimizer.schedule=constant"; // which does not depend on the number of steps
    let whole = bench.run("whole", format!("{sets} update.shards=2"), "");
    let unset = bench.command("unset", format!("{sets} run.steps=3"), "");
    succeed(Launcher::tcp().ranks(2, &unset));
    let recipe = fs::read_to_string(bench.out("unset").join("recipe.toml")).unwrap();
    assert!(recipe.contains("shards = 2"), "{recipe}");
    // The run has them from then on.
    succeed(bench.command("unset", sets, "--resume"));
    let last = |out: &Path| tree(&checkpoint(out, 6))["model.safetensors"].clone();
    assert!(last(&whole) == last(&bench.out("unset")), "the weights are others");
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn what_ends_a_run_is_said_once() {
    let cases: [(&str, &str, &[&str]); 5] = [
        // An error of the first rank alone.
        ("there", "update.shards=2", &["holds a run", "--resume"]),
        // Errors of all ranks alike.
        ("shards", "update.shards=3", &["3 shards (update.shards, sft.shards)", "not over 2"]),
        ("filter", "update.shards=2 rollout.max_tokens=1", &["the filter left 0 of 4"]),
        ("wrong", "update.shards=2 rollout.prompts=0", &["rollout.prompts"]),
        ("data", "update.shards=2 eval.files=nowhere.jsonl", &["nowhere.jsonl"]),
    ];
    for launcher in Launcher::installed() {
        // A run that fails leaves its directory, so each launcher has its own.
        let bench = Bench::train();
        bench.run("there", "run.steps=1", "");
        // Under MPI one error of the first rank and one of all are enough.
        let is_tried = |out: &str| launcher.is_tcp() || ["there", "filter"].contains(&out);
        for (out, sets, parts) in cases.iter().filter(|(out, ..)| is_tried(out)) {
            let output = ended(launcher.ranks(2, &bench.command(out, *sets, "")));
            let said = stderr(&output);
            // An error that starting again would not help has a status of its own.
            let expected = if *out == "filter" { 1 } else { 2 };
            assert_eq!(output.status.code(), Some(expected), "{said}");
            let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error")).collect();
            assert_eq!(errors.len(), 1, "{said}");
            assert_parts(errors[0], parts);
        }
    }
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn what_only_another_rank_lacks_is_not_tried_again() {
    let bench = Bench::train();
    let own = own_directories(&bench, ["with", "without"]);
    let answer = json!({"numbers": [1, 2, 3], "target": 6});
    bench.scratch.lines("with/held-out.jsonl", &[json!({"problem": "1 2 3>6:", "answer": answer})]);
    for launcher in Launcher::installed() {
        let command = bench.command("unused", "update.shards=2 eval.files=held-out.jsonl", "");
        let output = ended(launcher.jobs(&[(1, &own[0]), (1, &own[1])], &command));
        assert_failed_once(&output, "held-out.jsonl");
        assert!(stderr(&output).contains("rank 1 ("), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_directory_that_ranks_do_not_share_is_refused_before_any_work() {
    let bench = Bench::train();
    for launcher in Launcher::installed() {
        let places = ["here", "there"].map(|name| {
            let dir = bench.scratch.path(&format!("{name}-{}", launcher.name));
            fs::create_dir(&dir).unwrap();
            dir
        });
        let command = bench.command("unused", "update.shards=2 run.out=out", "");
        let options = places.each_ref().map(|dir| format!("--chdir={dir}"));
        let output = ended(launcher.jobs(&[(1, &options[0]), (1, &options[1])], &command));
        assert_failed_once(&output, "rank 1 (");
        assert!(stderr(&output).contains("run.out must be one that all machines share"));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(!Path::new(&places[1]).join("out").exists(), "the second has written something");
        assert!(fs::read_dir(Path::new(&places[0]).join("out")).unwrap().next().is_none());
    }
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_hub_that_cannot_be_reached_may_be_tried_again() {
    let bench = Bench::train();
    // One for each launcher, at the same time: a download is tried for half a minute.
    let sets = ["model.path=nobody/nothing", "data.files=hf://datasets/nobody/nothing"];
    thread::scope(|scope| {
        for (launcher, set) in Launcher::installed().into_iter().zip(sets) {
            let mut command = bench.command("unused", &["update.shards=2", set], "");
            command.env("HF_ENDPOINT", "http://127.0.0.1:9").env("HF_HUB_OFFLINE", "0");
            command.env("HF_HOME", bench.scratch.path("hub"));
            scope.spawn(move || {
                let output = ended(launcher.ranks(2, &command));
                assert_failed_once(&output, "127.0.0.1:9");
                assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
            });
        }
    });
}

/// A directory for each of two ranks, as an option of `env`.
fn own_directories(bench: &Bench, names: [&str; 2]) -> [String; 2] {
    names.map(|name| {
        fs::create_dir(bench.scratch.path(name)).unwrap();
        format!("--chdir={}", bench.scratch.path(name))
    })
}
