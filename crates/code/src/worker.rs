//! A worker: a pair of jails, one for programs and one for the data's assertion code, each with a warm Python in it.

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::Value;

use crate::Python;

/// Stands for the crate of the same name until it is there.
#[derive(Debug)]
pub struct Sandbox;

/// What one run of a program may take.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLimits {
    /// Wall-clock time: of a script from its start to its end, of each call (loading the program is part of the first), of each
    /// unit of an assertion test.
    pub wall: Duration,
    /// Address space of each of its processes, in bytes.
    pub memory_bytes: u64,
    /// What it may print to its standard output, in bytes, or return from a call.
    pub output_bytes: usize,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// By itself, without an error.
    Completed,
    /// With an error: the last line of the traceback, or a sentence on how the process ended.
    RuntimeError(String),
    /// It took longer than it may.
    TimeLimit,
    /// It wanted more memory than it may have.
    MemoryLimit,
    /// It printed or returned more than it may.
    OutputLimit,
    /// It could not be run, for a reason that is not the program's: a jail failed.
    Fault(String),
}

/// Assertion code of a data set, and what it is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssertionTest {
    /// Code that comes before the program and before the test, in both processes: the problem's imports and helper classes such
    /// as `ListNode`. What it defines is used in the test as it stands here, not as the program redefines it, but for the entry
    /// point.
    pub preamble: String,
    /// Code that comes before the first part, in the test's process alone (`test_setup_code` of MBPP).
    pub setup: String,
    /// The assertion code. Parts share their names and their program; each is judged.
    pub parts: Vec<String>,
    /// What `check(candidate)` of the parts is called with, if they define it and do not call it: `add` or
    /// `Solution().twoSum`.
    pub entry_point: Option<String>,
}

/// Why a unit of a test did not pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// An assertion does not hold: its text.
    Assertion(String),
    /// The program ended, or failed in a way that the test does not expect.
    Ended(End),
    /// The test itself cannot be run: it is no Python, or imports what is not there. No program could pass it.
    Test(String),
}

/// What all runs of a worker together may take.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerLimits {
    /// Memory of all processes of a jail, in bytes.
    pub memory_bytes: u64,
    /// Size of the private temporary directory, in bytes.
    pub temporary_bytes: u64,
    /// Processes and threads in a jail.
    pub processes: u64,
}

/// Why a worker cannot be started.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("a worker for programs cannot be started: {0}")]
pub struct StartError(pub String);

/// Runs programs, one at a time. Its processes end with it.
#[derive(Debug)]
pub struct Worker {
    python: Python,
    limits: WorkerLimits,
}

impl Worker {
    /// Starts the jail for programs. The one for assertion code is started when it is first needed.
    ///
    /// # Errors
    /// [`StartError`] when the jail or the interpreter in it does not start.
    pub fn start(sandbox: &Sandbox, python: &Python, limits: WorkerLimits) -> Result<Self, StartError> {
        let _ = sandbox;
        Ok(Self { python: python.clone(), limits })
    }

    /// Runs a program in a fresh process as `__main__`; what it printed, and how it ended.
    pub fn script(&mut self, program: &str, input: &str, limits: &RunLimits) -> (String, End) {
        let _ = (program, input, limits, &self.python, &self.limits);
        (String::new(), End::Fault("not there yet".into()))
    }

    /// Calls a function of a program (`add`, or `Solution.add` of a class that is constructed without arguments) once for each
    /// list of arguments, and tells `observe` the number of the call and its value, until that breaks off. All calls share a
    /// process; after one that the process does not survive, the others have a fresh one.
    pub fn calls(
        &mut self,
        program: &str,
        function: &str,
        arguments: &[Vec<Value>],
        limits: &RunLimits,
        observe: &mut dyn FnMut(usize, Result<Value, End>) -> ControlFlow<()>,
    ) {
        let _ = (program, function, limits);
        for call in 0..arguments.len() {
            if observe(call, Err(End::Fault("not there yet".into()))).is_break() {
                return;
            }
        }
    }

    /// Runs the assertion code of a data set on a program, and tells `observe` of each unit whether it passed, until that breaks
    /// off. A part that defines test functions or cases has a unit for each, any other part is one. There is at least one.
    pub fn assertions(
        &mut self,
        program: &str,
        test: &AssertionTest,
        limits: &RunLimits,
        observe: &mut dyn FnMut(Result<(), Failure>) -> ControlFlow<()>,
    ) {
        let _ = (program, test, limits);
        let _ = observe(Err(Failure::Ended(End::Fault("not there yet".into()))));
    }
}
