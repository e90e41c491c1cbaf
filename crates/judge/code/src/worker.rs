//! A worker: a pair of jails, one for programs and one for the data's assertion code, each with a
//! warm Python in it.
//!
//! `server` is one jail, over `pipes`; `launch` has its start, `run_report` how runs end. A worker
//! asks it about a script (here), about calls of a function (`calls`), or lets the test in one jail
//! talk with the program in the other (`assertions`). Every run has a fresh process, and is at its
//! end when nothing is left of it.

mod assertions;
mod calls;
mod launch;
mod pipes;
mod run_report;
mod server;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use isentrope_sandbox::Sandbox;
use serde_json::{Value, json};

use crate::{JudgeError, Python};
pub use assertions::TestProgress;
use launch::Role;
use server::{Event, Order, Server, ServerFailure};

/// Limits of one run of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLimits {
    /// Wall-clock time: of a script from its start to its end, of each call (loading the program is
    /// part of the first), of each unit of an assertion test.
    pub wall: Duration,
    /// The end of the total time, for all runs with these limits together. Unset: no total limit.
    pub until: Option<Instant>,
    /// Address space of each process of the run, in bytes.
    pub memory_bytes: u64,
    /// Most bytes that the program may print to standard output, or return from a call.
    pub output_bytes: usize,
}

impl RunLimits {
    /// The deadline of a run, call or unit that begins now.
    fn deadline(&self) -> Instant {
        let own = Instant::now() + self.wall;
        self.until.map_or(own, |until| own.min(until))
    }

    /// Whether nothing more may run.
    fn are_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// By itself, without an error.
    Completed,
    /// The program ended with an error: the last line of the traceback, or a sentence on how the
    /// process ended.
    RuntimeError(String),
    /// The program exceeded its time limit.
    TimeLimit,
    /// The program exceeded its memory limit.
    MemoryLimit,
    /// The program exceeded its output limit.
    OutputLimit,
    /// The program could not be run, for a reason that is not its own: a jail failed.
    Fault(String),
}

/// A data set's assertion code, with the code around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssertionTest {
    /// Code that comes before the program and before the test, in both processes: the problem's
    /// imports and helper classes such as `ListNode`. The test uses the names that it defines,
    /// except the entry point, even if the program redefines them.
    pub preamble: String,
    /// Code that comes before the first part, in the test's process alone (`test_setup_code` of
    /// MBPP).
    pub setup: String,
    /// The assertion code. Parts share their names and their program; each is judged.
    pub parts: Vec<String>,
    /// The expression that `check(candidate)` gets, if the parts define it and do not call it:
    /// `add` or `Solution().twoSum`.
    pub entry_point: Option<String>,
}

/// Why a unit of a test did not pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// An assertion failed; this is its text.
    Assertion(String),
    /// The program ended, or failed in a way that the test does not expect.
    Ended(End),
    /// The test itself cannot be run: it is not Python, or imports a module that is not there. No
    /// program could pass it.
    Test(String),
}

/// Limits of all runs of a worker together.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerLimits {
    /// Memory of all processes of a jail, in bytes.
    pub memory_bytes: u64,
    /// Size of the private temporary directory, in bytes.
    pub temporary_bytes: u64,
    /// Processes and threads in a jail.
    pub processes: u64,
}

/// Runs programs, one at a time. Its processes end when it is dropped.
#[derive(Debug)]
pub struct Worker {
    sandbox: Sandbox,
    python: Python,
    limits: WorkerLimits,
    programs: Option<Server>,
    tests: Option<Server>,
}

/// Runs programs.
pub trait Runner {
    /// Runs a program in a fresh process as `__main__`. Returns its output and how it ended.
    fn script(&mut self, program: &str, input: &str, limits: &RunLimits) -> (String, End);

    /// Calls a function of a program (`add`, or `Solution.add` of a class that is constructed
    /// without arguments) once for each list of arguments, and tells `observe` the number of the
    /// call and its value, until that breaks off. All calls share a process; after one that the
    /// process does not survive, the others have a fresh one. An argument that is an object whose
    /// keys are all whole numbers arrives with numbers as its keys, since JSON has none; tuples
    /// come back as lists.
    fn calls(
        &mut self,
        program: &str,
        function: &str,
        arguments: &[Vec<Value>],
        limits: &RunLimits,
        observe: &mut dyn FnMut(usize, Result<Value, End>) -> ControlFlow<()>,
    );

    /// Runs the assertion code of a data set on a program, and passes the result of each unit to
    /// `observe`, until that breaks off or the program does not survive a unit. A part that defines
    /// test functions has a unit for each, whose number `observe` gets before the first; any other
    /// part is one. There is at least one.
    fn assertions(
        &mut self,
        program: &str,
        test: &AssertionTest,
        limits: &RunLimits,
        observe: &mut dyn FnMut(TestProgress) -> ControlFlow<()>,
    );
}

impl Worker {
    /// Starts the jail for programs. The one for assertion code is started when it is first needed.
    pub fn start(
        sandbox: &Sandbox,
        python: &Python,
        limits: WorkerLimits,
    ) -> Result<Self, JudgeError> {
        let (sandbox, python) = (sandbox.clone(), python.clone());
        let mut worker = Self { sandbox, python, limits, programs: None, tests: None };
        worker.programs()?;
        Ok(worker)
    }

    fn run_script(
        &mut self,
        program: &str,
        input: &str,
        limits: &RunLimits,
        output: &mut Vec<u8>,
    ) -> Result<End, ServerFailure> {
        let server = self.programs()?;
        let order = Order::new("script", limits, 1);
        let cpu_s = order.cpu_s;
        let deadline = limits.deadline();
        server.order(order, &json!({"program": program, "input": input}));
        loop {
            match server.event(deadline)? {
                Event::Output(bytes) => output.extend(bytes),
                Event::Ended(ended) => return Ok(ended.end(cpu_s)),
                Event::Late => return Ok(End::TimeLimit),
            }
        }
    }

    /// Ends the runs under way. A jail that no longer works stays until it is next needed, and is
    /// replaced then.
    fn finish(&mut self) {
        for place in [&mut self.programs, &mut self.tests] {
            if place.as_mut().is_some_and(|server| server.finish().is_err()) {
                *place = None;
            }
        }
    }

    /// The jail for programs, started unless it works.
    fn programs(&mut self) -> Result<&mut Server, JudgeError> {
        let Self { sandbox, python, limits, programs, .. } = self;
        ensure(programs, || Server::start(sandbox, python, limits, Role::Programs))
    }

    /// Both jails, each started unless it works.
    fn both(&mut self) -> Result<(&mut Server, &mut Server), JudgeError> {
        let Self { sandbox, python, limits, programs, tests } = self;
        let programs = ensure(programs, || Server::start(sandbox, python, limits, Role::Programs))?;
        let tests = ensure(tests, || Server::start(sandbox, python, limits, Role::Tests))?;
        Ok((programs, tests))
    }
}

impl Runner for Worker {
    fn script(&mut self, program: &str, input: &str, limits: &RunLimits) -> (String, End) {
        let mut output = Vec::new();
        let end = self
            .run_script(program, input, limits, &mut output)
            .unwrap_or_else(|ServerFailure(end)| end);
        self.finish();
        (String::from_utf8_lossy(&output).into_owned(), end)
    }

    fn calls(
        &mut self,
        program: &str,
        function: &str,
        arguments: &[Vec<Value>],
        limits: &RunLimits,
        observe: &mut dyn FnMut(usize, Result<Value, End>) -> ControlFlow<()>,
    ) {
        let mut next = 0;
        while next < arguments.len() {
            // Each process answers calls until one kills it; the next process goes on.
            let flow = calls::run(self, program, function, arguments, &mut next, limits, observe)
                .unwrap_or_else(|ServerFailure(end)| {
                    next += 1;
                    observe(next - 1, Err(end))
                });
            self.finish();
            if flow.is_break() {
                return;
            }
        }
    }

    fn assertions(
        &mut self,
        program: &str,
        test: &AssertionTest,
        limits: &RunLimits,
        observe: &mut dyn FnMut(TestProgress) -> ControlFlow<()>,
    ) {
        if test.parts.is_empty() {
            let none = Failure::Test("it has no assertions".into());
            let _ = observe(TestProgress::Unit(Err(none)));
            return;
        }
        if let Err(ServerFailure(end)) = assertions::run(self, program, test, limits, observe) {
            let _ = observe(TestProgress::Unit(Err(Failure::Ended(end))));
        }
        self.finish();
    }
}

/// The working server in a slot. Starts one if the slot has none.
fn ensure(
    place: &mut Option<Server>,
    start: impl FnOnce() -> Result<Server, JudgeError>,
) -> Result<&mut Server, JudgeError> {
    if !place.as_mut().is_some_and(Server::is_there) {
        *place = None; // the old one ends before the new one begins
        *place = Some(start()?);
    }
    Ok(place.as_mut().expect("it has just been put there"))
}

impl From<JudgeError> for ServerFailure {
    fn from(error: JudgeError) -> Self {
        Self(End::Fault(error.to_string()))
    }
}
