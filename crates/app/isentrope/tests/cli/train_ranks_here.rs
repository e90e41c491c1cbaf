//! Runs whose ranks `--ranks` starts: the bytes of one process, and one word where they fail.

use crate::processes::{kill, runs, send, send_to, start, start_heard, until, wait_until};
use crate::program::{assert_parts, stderr};
use crate::train_ranks::{assert_failed_once, end_of, ended, ranks_of, wait_for_lines};
use crate::training::{Bench, assert_same_results, checkpoint, lines, succeed};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A run of `count` ranks and one of a process alone, byte for byte.
fn assert_same_bytes(bench: &Bench, sets: &str, count: usize) {
    let alone = bench.run("alone", sets, "");
    let said = succeed(bench.command("ranks", sets, format!("--ranks {count}")));
    assert_parts(&said, &[&format!("{count} ranks ("), " over TCP"]);
    assert_same_results(&alone, &bench.out("ranks"));
}

#[test]
fn two_ranks_that_are_started_here_make_the_bytes_of_one() {
    assert_same_bytes(&Bench::train(), "update.shards=4 eval.every=0 run.steps=2", 2);
}

#[test]
fn three_ranks_that_are_started_here_make_the_bytes_of_one() {
    let sets = "sft.shards=3 eval.every=0 checkpoint.every=2 run.steps=2";
    assert_same_bytes(&Bench::sft(), sets, 3);
}

#[test]
fn why_ranks_here_cannot_run_is_said_once() {
    let bench = Bench::train();
    let started = |variables: &[(&str, &str)], sets: &str| {
        let mut command = bench.command("out", sets, "--ranks 2");
        command.envs(variables.iter().copied());
        ended(command)
    };
    let output = started(&[], "update.shards=3");
    assert_failed_once(&output, "3 shards (update.shards, sft.shards)");
    assert!(!stderr(&output).contains("over TCP"), "ranks were started");
    assert_eq!(output.status.code(), Some(2));
    let output = started(&[("ISENTROPE_THREADS", "x")], "update.shards=2");
    assert_failed_once(&output, "ISENTROPE_THREADS=x");
    assert_eq!(output.status.code(), Some(2));
    // A launcher that gives its process no others to meet.
    let alone = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "")];
    assert_failed_once(&started(&alone, "update.shards=2"), "MASTER_ADDR is \"\"");
}

#[test]
fn ranks_here_start_under_a_launcher_of_one() {
    let bench = Bench::train();
    for name in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"] {
        let mut command =
            bench.command(name, "update.shards=2 run.steps=1 eval.every=0", "--ranks 2");
        command.env(name, "1");
        assert_parts(&succeed(command), &["2 ranks (", " over TCP"]);
    }
}

/// Nobody waits for the third rank, which is absent.
#[test]
fn ranks_of_a_launcher_do_not_start_more() {
    let bench = Bench::train();
    let started = Instant::now();
    let children = ["0", "1"].map(|rank| {
        let mut command = bench.command("out", "update.shards=3", "--ranks 3");
        command.env("RANK", rank).env("WORLD_SIZE", "3").env("MASTER_ADDR", "localhost");
        command.env("MASTER_PORT", "1");
        start_heard(command)
    });
    let [first, mut second] = children;
    let output = end_of(first);
    assert!(started.elapsed() < Duration::from_secs(10), "it has waited for the others");
    assert_failed_once(&output, "RANK and WORLD_SIZE has started 3 already");
    assert_failed_once(&output, ".toml --ranks 3` alone");
    assert_eq!(output.status.code(), Some(2));
    // The second would end the first under a launcher, so that it leaves it time.
    assert!(kill(&mut second));
    assert_eq!(stderr(&second.wait_with_output().unwrap()), "");
}

#[test]
fn ctrl_c_saves_the_step_of_ranks_here() {
    let bench = Bench::sft();
    let sets = "sft.shards=2 run.steps=60 eval.every=0 checkpoint.every=0";
    let mut child = start_heard(bench.command("out", sets, "--ranks 2"));
    wait_until(PATIENCE, &mut child, || lines(&bench.out("out")) > 1);
    send("INT", &child);
    let output = end_of(child);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert_eq!(said.matches("finishing the current step").count(), 1, "{said}");
    let steps = lines(&bench.out("out")) as u64 - 1;
    assert!(steps < 60 && checkpoint(&bench.out("out"), steps).is_dir(), "{said}");
    assert_failed_once(&output, &format!("interrupted: step {steps} is saved"));
}

#[test]
#[ignore = "deep: kills ranks"]
fn a_rank_here_that_is_killed_ends_all() {
    let bench = Bench::train();
    let sets = "update.shards=4 run.steps=30 checkpoint.every=1 eval.every=0";
    let out = bench.out("out");
    let ranks = || ranks_of(&bench.scratch.path("out"));
    // Another rank, then rank 0, which has started them.
    let mut child = start_heard(bench.command("out", sets, "--ranks 4"));
    wait_for_lines(&mut child, &out, 3);
    let all = ranks();
    assert_eq!(all.len(), 4);
    let other = all.iter().find(|process| **process != child.id().to_string()).unwrap();
    send_to("KILL", other);
    let output = end_of(child);
    assert_failed_once(&output, "has ended without a word");
    assert_eq!(output.status.code(), Some(1));
    until(PATIENCE, "ranks go on", || !all.iter().any(|process| runs(process)));

    let mut child = start(bench.command("out", sets, "--ranks 4 --resume"));
    let before = lines(&out);
    wait_for_lines(&mut child, &out, before + 2);
    let all = ranks();
    send("KILL", &child);
    child.wait().unwrap();
    until(PATIENCE, "ranks go on", || !all.iter().any(|process| runs(process)));

    succeed(bench.command("out", sets, "--ranks 2 --resume"));
    assert_same_results(&bench.run("whole", sets, ""), &out);
}
