//! Runs assertion code in one jail against a program in another. All messages between the two pass
//! through here.

use std::ops::ControlFlow;
use std::time::Instant;

use serde_json::{Value, json};

use super::calls::{ended_early, loading_error};
use super::run_report::raised;
use super::server::{Order, Reply, Server, ServerFailure};
use super::{AssertionTest, End, Failure, RunLimits, Worker};
use crate::wire::Frame;

/// Longest question of a test to a program, in bytes: its arguments.
const QUESTION: usize = 256 << 20;

/// Most units of a test. The time of each is limited on its own.
const UNITS: usize = 10_000;

/// A finding about a test while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum TestProgress {
    /// The number of units that the test has at least. Comes before the first unit that it adds.
    Units(usize),
    /// How the next unit went.
    Unit(Result<(), Failure>),
}

/// Runs the test against a fresh process of the program. Passes each finding to `observe`, until
/// the test ends, `observe` breaks off, or a process dies.
pub fn run(
    worker: &mut Worker,
    program: &str,
    test: &AssertionTest,
    limits: &RunLimits,
    observe: &mut dyn FnMut(TestProgress) -> ControlFlow<()>,
) -> Result<(), ServerFailure> {
    let (programs, tests) = worker.both()?;
    let AssertionTest { preamble, setup, parts, entry_point } = test;
    let order = |mode| Order::new(mode, limits, UNITS);
    let cpu_s = order("session").cpu_s;
    programs.order(order("session"), &json!({"program": program, "preamble": preamble}));
    let content = json!({
        "preamble": preamble, "setup": setup, "parts": parts, "entry_point": entry_point,
    });
    tests.order(order("test"), &content);
    let mut talk = Talk { programs, tests, limits, cpu_s, deadline: limits.deadline() };
    let failure = match talk.load()? {
        Some(end) => Some(Failure::Ended(end)),
        None => talk.units(parts.len(), observe)?.err(),
    };
    if let Some(failure) = failure {
        let _ = observe(TestProgress::Unit(Err(failure)));
    }
    Ok(())
}

/// The servers of a program and a test that exchange messages.
struct Talk<'a> {
    programs: &'a mut Server,
    tests: &'a mut Server,
    limits: &'a RunLimits,
    cpu_s: u64,
    deadline: Instant,
}

impl Talk<'_> {
    /// Waits until the program is loaded, and sends its names to the test. Returns how the program
    /// ended, if it did not load.
    fn load(&mut self) -> Result<Option<End>, ServerFailure> {
        let said = self.programs.message(self.limits.output_bytes, self.deadline)?;
        let message = match self.message(said) {
            Ok(message) => message,
            Err(end) => return Ok(Some(ended_early(end))),
        };
        let error = loading_error(&message.body);
        if error.is_none() {
            let loaded: Value = serde_json::from_slice(&message.body).unwrap_or_default();
            self.tests.tell(b'n', loaded["names"].to_string().as_bytes());
        }
        Ok(error)
    }

    /// Passes on questions and answers, and the results of units to `observe`. An error is a unit's
    /// failure after which no other unit can run.
    fn units(
        &mut self,
        parts: usize,
        observe: &mut dyn FnMut(TestProgress) -> ControlFlow<()>,
    ) -> Result<Result<(), Failure>, ServerFailure> {
        let unclear = |what: &str| Ok(Err(Failure::Test(format!("its process {what}"))));
        // The part and the test function that runs; -1 stands for the part's own code.
        let mut at: (i64, i64) = (-1, -2);
        // A part has one unit unless its process says otherwise.
        let mut counts = vec![1; parts];
        loop {
            let said = if self.limits.are_over() {
                Reply::Late // even if there were more to read without end
            } else {
                self.tests.message(QUESTION, self.deadline)?
            };
            let Frame { kind, body } = match self.message(said) {
                Ok(frame) => frame,
                Err(end) => return Ok(Err(Failure::Ended(end_of_test(end)))),
            };
            let flow = match kind {
                b'q' => match self.answer(&body)? {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(end) => return Ok(Err(Failure::Ended(end))),
                },
                b'p' => match serde_json::from_slice(&body) {
                    Ok(next) if next > at => {
                        at = next;
                        self.deadline = self.limits.deadline();
                        ControlFlow::Continue(())
                    }
                    _ => return unclear("does not go on from unit to unit"),
                },
                b'c' => match count(&mut counts, &body) {
                    Some(units) => observe(TestProgress::Units(units)),
                    None => return unclear("does not say how many tests it has"),
                },
                b'u' => observe(TestProgress::Unit(result(&body))),
                b'z' => return Ok(Ok(())),
                b'x' => {
                    let problem = String::from_utf8_lossy(&body).into_owned();
                    return Ok(Err(Failure::Ended(End::RuntimeError(problem))));
                }
                _ => return unclear("says what it was not asked"),
            };
            if flow.is_break() {
                return Ok(Ok(()));
            }
        }
    }

    /// Passes a question on to the program and its answer back. Returns how the program ended if it
    /// does not answer.
    fn answer(&mut self, question: &[u8]) -> Result<Result<(), End>, ServerFailure> {
        self.programs.tell(b'q', question);
        let said = self.programs.message(self.limits.output_bytes, self.deadline)?;
        Ok(match self.message(said) {
            Ok(Frame { kind: b'a', body }) => {
                self.tests.tell(b'a', &body);
                Ok(())
            }
            Ok(_) => Err(End::RuntimeError("it says what is no answer".into())),
            Err(end) => Err(ended_early(end)),
        })
    }

    fn message(&self, said: Reply) -> Result<Frame, End> {
        match said {
            Reply::Message(message) => Ok(message),
            Reply::Ended(ended) => Err(ended.end(self.cpu_s)),
            Reply::Late => Err(End::TimeLimit),
            Reply::TooLong => Err(End::OutputLimit),
        }
    }
}

/// Notes the number of units of a part, as reported by its process. Returns the number of all
/// parts.
fn count(counts: &mut [usize], body: &[u8]) -> Option<usize> {
    let (part, units): (usize, u32) = serde_json::from_slice(body).ok()?;
    *counts.get_mut(part)? = (units as usize).max(1);
    Some(counts.iter().sum())
}

/// The end of a unit whose test process has ended early.
fn end_of_test(end: End) -> End {
    match end {
        End::RuntimeError(how) => {
            End::RuntimeError(format!("what it returned has ended the test's process: {how}"))
        }
        End::Completed => End::RuntimeError("the test has ended itself".into()),
        end => end,
    }
}

/// The result of a unit, as reported by the test's process.
fn result(body: &[u8]) -> Result<(), Failure> {
    let result: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |key: &str| result[key].as_str().map(str::to_owned);
    if let Some(assertion) = text("assertion") {
        Err(Failure::Assertion(assertion))
    } else if let Some(line) = text("error") {
        Err(Failure::Ended(raised(&line)))
    } else if let Some(problem) = text("test") {
        Err(Failure::Test(problem))
    } else if result.as_object().is_some_and(serde_json::Map::is_empty) {
        Ok(())
    } else {
        Err(Failure::Test("its process does not say how a unit went".into()))
    }
}
