//! Jobs in which one rank goes wrong.

use crate::launcher::{JobResult, Kind, Launcher};
use crate::rank::{DIRECTORY, TIMEOUT};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, thread};
use tempfile::tempdir;

pub fn error(launcher: &Launcher) {
    let ended = launcher.run(3, "error", &[]);
    let causes = ended.stderr.lines().filter_map(|line| line.strip_prefix("ended: rank 2 ("));
    let causes =
        causes.filter(|cause| cause.ends_with("): metrics.jsonl: no space left on device"));
    ended.check(!ended.success && causes.count() == 3);
}

/// A rank that ends well before MPI has begun.
pub fn absent(launcher: &Launcher) {
    let directory = tempdir().unwrap();
    let variables = [(DIRECTORY, directory.path().to_str().unwrap()), (TIMEOUT, "4")];
    let ended = launcher.run(3, "leave", &variables);
    ended.check_failed(Duration::from_secs(50));
    ended.check(ended.stderr.contains("has waited 10 s for the others to begin"));
    ended.check(ended.stderr.contains(" within 20 s (ranks.timeout_s"));
}

pub fn panicked(launcher: &Launcher) {
    for rank in [2, 0] {
        let ended = launcher.run(3, &format!("panic {rank}"), &[]);
        ended.check(ended.stderr.contains("a mistake of ours"));
        ended.check_failed(Duration::from_secs(20));
    }
}

/// A job of three ranks that work for ever; one of them gets a signal.
fn signalled(launcher: &Launcher, signal: &str, rank: usize) -> JobResult {
    let directory = tempdir().unwrap();
    let variables = [(DIRECTORY, directory.path().to_str().unwrap()), (TIMEOUT, "4")];
    let job = launcher.start(3, "endless", &variables);
    let begun = Instant::now();
    let process_of = |rank: usize| loop {
        if let Ok(process) = fs::read_to_string(directory.path().join(rank.to_string())) {
            return process;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no rank has begun");
        thread::sleep(Duration::from_millis(20));
    };
    let processes: Vec<String> = (0..3).map(process_of).collect();
    assert!(Command::new("kill").args([signal, &processes[rank]]).status().unwrap().success());
    let signalled = Instant::now();
    let mut ended = job.end();
    ended.took = signalled.elapsed();
    for process in processes {
        ended.check(!is_alive(&process));
    }
    ended
}

/// Whether a process is there and no zombie: those that launchers have left to nobody are.
fn is_alive(process: &str) -> bool {
    let state = || fs::read_to_string(format!("/proc/{process}/stat"));
    let alive = |stat: String| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'));
    let begun = Instant::now();
    while state().is_ok_and(alive) {
        if begun.elapsed() > Duration::from_secs(10) {
            return true;
        }
        thread::sleep(Duration::from_millis(50));
    }
    false
}

pub fn killed(launcher: &Launcher) {
    for rank in [1, 0] {
        let ended = signalled(launcher, "-KILL", rank);
        ended.check_failed(Duration::from_secs(20));
        // Under MPI it is the launcher's to say so.
        if launcher.kind == Kind::Tcp {
            let told = ended.stderr.lines().filter(|line| line.starts_with("rank "));
            let told: Vec<&str> = told.collect();
            ended.check(told.len() == 1 && told[0].starts_with(&format!("rank {rank} (")));
            ended.check(told[0].contains("has ended without a word"));
        }
    }
}

pub fn stopped(launcher: &Launcher) {
    for rank in [1, 0] {
        let ended = signalled(launcher, "-STOP", rank);
        ended.check_failed(Duration::from_secs(40));
        let named = ended.stderr.lines().find(|line| line.starts_with(&format!("rank {rank} (")));
        let is_told =
            |line: &str| line.contains("was last heard of ") && line.contains("of 1000000 done");
        ended.check(named.is_some_and(is_told));
    }
}

/// A copy of this program that does the same, but is another file.
pub fn other_build(launcher: &Launcher) {
    let own = env::current_exe().unwrap();
    let directory = tempdir().unwrap();
    let other = directory.path().join("other");
    // A shell writes the copy. If this process had it open, so would a child that another test
    // starts meanwhile, and a program that is open for writing cannot be run.
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"cp "$0" "$1" && printf '\0' >>"$1""#]).args([&own, &other]);
    assert!(shell.status().unwrap().success());
    let ended = launcher.start_programs(&[(1, own), (1, other)], "sum 2", &[]).end();
    ended.check(!ended.success && ended.stderr.contains("has another program than rank 0 ("));
    ended.check(ended.stderr.contains("has a test (build "));
}

pub fn no_library(launcher: &Launcher) {
    let ended = launcher.run(2, "sum 2", &[("ISENTROPE_MPI", "/no/such/libmpi.so")]);
    ended.check(!ended.success && ended.stderr.contains("ISENTROPE_MPI = /no/such/libmpi.so: "));
    // A library that has nothing of MPI.
    let other = launcher.run(2, "sum 2", &[("ISENTROPE_MPI", "libm.so.6")]);
    other.check(!other.success && other.stderr.contains("libm.so.6 is no MPI library"));
}

/// Ranks that one launcher has started do not take the library of another for theirs.
pub fn wrong_library(started_by: &Launcher, library_of: &Launcher) {
    let Some(library) = library_of.library() else {
        println!("{} does not say which library it has: not tested", library_of.name);
        return;
    };
    let ended = started_by.run(2, "sum 2", &[("ISENTROPE_MPI", &library)]);
    // Some libraries then end the process by themselves: this must have been said before.
    ended.check(!ended.success && ended.stderr.contains("does not belong to mpirun of "));
    ended.check(!ended.stdout.contains("hash="));
}
