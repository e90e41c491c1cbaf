//! Workers with real jails and a real Python.

mod assertions;
mod calls;
mod scripts;

use std::ops::ControlFlow;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use isentrope_sandbox::Sandbox;
use serde_json::Value;

use super::{AssertionTest, End, Failure, RunLimits, Runner, TestProgress, Worker, WorkerLimits};
use crate::Python;

fn limits() -> RunLimits {
    RunLimits {
        wall: Duration::from_secs(20),
        until: None,
        memory_bytes: 512 << 20,
        output_bytes: 4 << 20,
    }
}

fn worker(python: &Python) -> Worker {
    let limits = WorkerLimits { memory_bytes: 1 << 30, temporary_bytes: 16 << 20, processes: 32 };
    Worker::start(&Sandbox::find().unwrap(), python, limits).unwrap()
}

/// A worker that many tests share: what one of them does must not matter to the others.
fn shared() -> MutexGuard<'static, Worker> {
    static WORKER: LazyLock<Mutex<Worker>> =
        LazyLock::new(|| Mutex::new(worker(&Python::find(None).unwrap())));
    WORKER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An interpreter of another place and name, as tools for environments make it.
#[test]
fn an_environment_of_its_own_works() {
    let directory = tempfile::tempdir().unwrap();
    let python = Python::find(None).unwrap();
    let made = std::process::Command::new(python.program())
        .args(["-m", "venv", "--without-pip"])
        .arg(directory.path().join("env"))
        .status()
        .unwrap();
    assert!(made.success());
    let python = Python::find(Some(&directory.path().join("env/bin/python"))).unwrap();
    let program = "import sys; print(sys.prefix, sys.prefix != sys.base_prefix)";
    let (printed, end) = worker(&python).script(program, "", &limits());
    assert_eq!(end, End::Completed);
    assert_eq!(printed, format!("{} True\n", directory.path().join("env").display()));
}

fn error(line: &str) -> End {
    End::RuntimeError(line.into())
}

impl Worker {
    fn all_calls(
        &mut self,
        program: &str,
        function: &str,
        arguments: &[Vec<Value>],
    ) -> Vec<Result<Value, End>> {
        let mut results = Vec::new();
        self.calls(program, function, arguments, &limits(), &mut |call, result| {
            assert_eq!(call, results.len());
            results.push(result);
            ControlFlow::Continue(())
        });
        results
    }

    fn units(
        &mut self,
        program: &str,
        test: &AssertionTest,
        limits: &RunLimits,
    ) -> Vec<Result<(), Failure>> {
        let mut results = Vec::new();
        let mut known = test.parts.len();
        self.assertions(program, test, limits, &mut |found| {
            match found {
                TestProgress::Units(units) => known = units,
                TestProgress::Unit(result) => results.push(result),
            }
            ControlFlow::Continue(())
        });
        let is_cut = matches!(results.last(), Some(Err(Failure::Ended(_) | Failure::Test(_))));
        assert!(
            is_cut || known <= results.len().max(test.parts.len()),
            "{known} units were announced: {results:?}"
        );
        results
    }
}
