//! Ranks as processes that real launchers start: mpirun of Open MPI and of MPICH, whichever are
//! installed, and ranks that meet over TCP.
//!
//! `ISENTROPE_TEST_MPIRUN` may name more launchers, separated by colons. This program is its own
//! ranks: with a task in its environment it is one of them.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]
#![allow(clippy::print_stdout, reason = "what is not tested here is said")]

mod faults;
mod launcher;
mod rank;
mod results;

use launcher::{Launcher, MORE};
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Ok(task) = std::env::var(rank::TASK) {
        return rank::run(&task);
    }
    let launchers = Launcher::installed();
    let mut tests = vec![Trial::test("alone nothing is loaded", || done(results::alone))];
    if !launchers.iter().any(|launcher| launcher.kind.is_mpi()) {
        println!(
            "no launcher of MPI is found: ranks over MPI are not tested (apt-get install \
             openmpi-bin mpich, or name \
             one by {MORE})"
        );
    }
    for launcher in &launchers {
        for (name, test) in TESTS.iter().chain(MPI_TESTS.iter().filter(|_| launcher.kind.is_mpi()))
        {
            let (named, launcher) = (format!("{}: {name}", launcher.name), launcher.clone());
            tests.push(deep(named, move || done(|| test(&launcher))));
        }
    }
    for (name, test) in FAST {
        tests.push(Trial::test(format!("TCP: {name}"), move || done(|| test(&Launcher::tcp()))));
    }
    for (started_by, library_of) in pairs(&launchers) {
        let name = format!("{} with the library of {}", started_by.name, library_of.name);
        tests.push(deep(name, move || done(|| faults::wrong_library(&started_by, &library_of))));
    }
    // Some wait for time limits while the machine is idle.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(3));
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// A test of the deep tier.
fn deep(
    name: String,
    test: impl FnOnce() -> Result<(), libtest_mimic::Failed> + Send + 'static,
) -> Trial {
    Trial::test(name, test).with_ignored_flag(true)
}

type Test = fn(&Launcher);

/// The test that waits longest is the first.
const TESTS: [(&str, Test); 8] = [
    ("a rank that never begins is not awaited for ever", faults::absent),
    ("the same bits on any number of ranks", results::same_bits),
    ("a launcher of one rank loads nothing", results::one_rank),
    ("an error ends all ranks", faults::error),
    ("a rank that panics ends all", faults::panicked),
    ("a killed rank ends all", faults::killed),
    ("a stopped rank is named and all end", faults::stopped),
    ("another build of the program is refused", faults::other_build),
];

const FAST: [(&str, Test); 2] = [
    ("the same bits on a few numbers of ranks", results::same_bits_soon),
    ("ranks that are off are alone", results::one_rank),
];

const MPI_TESTS: [(&str, Test); 1] = [("a library that is none is refused", faults::no_library)];

/// Pairs of launchers of different families. The library of the second is to be tried.
fn pairs(launchers: &[Launcher]) -> Vec<(Launcher, Launcher)> {
    let all = launchers
        .iter()
        .flat_map(|one| launchers.iter().map(move |other| (one.clone(), other.clone())));
    all.filter(|(one, other)| one.kind.is_mpi() && other.kind.is_mpi() && one.kind != other.kind)
        .collect()
}

/// A panic is a test that failed; the harness prints it.
fn done(test: impl FnOnce()) -> Result<(), libtest_mimic::Failed> {
    test();
    Ok(())
}
