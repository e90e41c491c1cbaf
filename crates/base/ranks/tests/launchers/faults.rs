//! Ranks of which one goes wrong.

use crate::launcher::{Ended, Launcher};
use crate::rank::{DIRECTORY, TIMEOUT};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

pub fn error(launcher: &Launcher) {
    let ended = launcher.run(3, "error", &[]);
    assert!(!ended.success, "{}", ended.told());
    let told: Vec<&str> =
        ended.stderr.lines().filter_map(|line| line.strip_prefix("ended: ")).collect();
    assert_eq!(told.len(), 3, "{}", ended.told());
    assert!(
        told.iter().all(|said| said.starts_with("rank 2 (")
            && said.ends_with("): metrics.jsonl: no space left on device")),
        "{told:?}"
    );
}

pub fn panicked(launcher: &Launcher) {
    for rank in [2, 0] {
        let ended = launcher.run(3, &format!("panic {rank}"), &[]);
        let said = ended.stderr.contains("a mistake of ours");
        assert!(
            !ended.success && said && ended.took < Duration::from_secs(20),
            "{:?} {}",
            ended.took,
            ended.told()
        );
    }
}

/// A job of three ranks that work for ever, of which one gets a signal.
fn signalled(launcher: &Launcher, signal: &str, rank: usize) -> Ended {
    let directory =
        env::temp_dir().join(format!("isentrope-ranks-{}-{signal}-{rank}", process::id()));
    fs::create_dir_all(&directory).unwrap();
    let job =
        launcher.start(3, "endless", &[(DIRECTORY, directory.to_str().unwrap()), (TIMEOUT, "2")]);
    let begun = Instant::now();
    let process_of = |rank: usize| loop {
        if let Ok(process) = fs::read_to_string(directory.join(rank.to_string())) {
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
    fs::remove_dir_all(&directory).unwrap();
    for process in processes {
        assert!(!is_alive(&process), "process {process} is left: {}", ended.told());
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
        assert!(
            !ended.success && ended.took < Duration::from_secs(20),
            "{:?} {}",
            ended.took,
            ended.told()
        );
    }
}

pub fn stopped(launcher: &Launcher) {
    for rank in [1, 0] {
        let ended = signalled(launcher, "-STOP", rank);
        assert!(
            !ended.success && ended.took < Duration::from_secs(40),
            "{:?} {}",
            ended.took,
            ended.told()
        );
        let named = ended.stderr.lines().find(|line| line.starts_with(&format!("rank {rank} (")));
        let named = named.unwrap_or_else(|| panic!("{}", ended.told()));
        assert!(
            named.contains("was last heard of ") && named.contains("of 1000000 done"),
            "{named}"
        );
    }
}

pub fn no_library(launcher: &Launcher) {
    let ended = launcher.run(2, "sum 2", &[("ISENTROPE_MPI", "/no/such/libmpi.so")]);
    assert!(
        !ended.success && ended.stderr.contains("ISENTROPE_MPI = /no/such/libmpi.so: "),
        "{}",
        ended.told()
    );
    // A library that has nothing of MPI.
    let other = launcher.run(2, "sum 2", &[("ISENTROPE_MPI", "libm.so.6")]);
    assert!(
        !other.success && other.stderr.contains("libm.so.6 is no MPI library"),
        "{}",
        other.told()
    );
}

/// Ranks that one launcher has started do not take the library of another for theirs.
pub fn wrong_library(started_by: &Launcher, library_of: &Launcher) {
    let Some(library) = library_of.library() else {
        println!("{} does not say which library it has: not tested", library_of.name);
        return;
    };
    let ended = started_by.run(2, "sum 2", &[("ISENTROPE_MPI", &library)]);
    assert!(!ended.success, "{}", ended.told());
    // Some libraries then end the process by themselves: this must have been said before.
    assert!(ended.stderr.contains("does not belong to mpirun of "), "{}", ended.told());
    assert!(!ended.stdout.contains("hash="), "{}", ended.told());
}
