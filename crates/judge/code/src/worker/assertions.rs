//! Assertion code in one jail about a program in another. All that the two say to each other passes
//! through here.

use std::ops::ControlFlow;
use std::time::Instant;

use serde_json::{Value, json};

use super::calls::{ended_early, loading_error, raised};
use super::server::{Order, Reply, Server, ServerFailure};
use super::{AssertionTest, End, Failure, RunLimits, Worker};
use crate::wire::Frame;

/// Longest question of a test to a program, in bytes: its arguments.
const QUESTION: usize = 256 << 20;

/// Units of a test for whose time a process may compute. Each is watched by itself.
const UNITS: usize = 10_000;

/// A place in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitPosition {
    /// The part; -1 for what comes before the first.
    pub part: i64,
    /// The test function of the part; -1 for the part itself.
    pub test: i64,
}

impl UnitPosition {
    /// The beginning of a test.
    pub const START: Self = Self { part: 0, test: -1 };

    /// Stands before every place that a process could name.
    const BEFORE: Self = Self { part: -1, test: -2 };

    /// The unit after this one. Nothing comes after the setup that did not succeed.
    pub fn after(self) -> Self {
        match self {
            Self { part: ..0, .. } => Self { part: i64::MAX, test: -1 },
            Self { part, test: ..0 } => Self { part: part.saturating_add(1), test: -1 },
            Self { part, test } => Self { part, test: test.saturating_add(1) },
        }
    }

    fn read(body: &[u8]) -> Option<Self> {
        let (part, test) = serde_json::from_slice(body).ok()?;
        Some(Self { part, test })
    }
}

/// A finding about a test while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum TestProgress {
    /// So many units it has at least. Reply before the first of them.
    Units(usize),
    /// How the next unit went.
    Unit(Result<(), Failure>),
}

/// How many units each part has, as far as it is known.
#[derive(Debug)]
pub struct Counts(Vec<usize>);

impl Counts {
    /// Counts one unit for each part, which has one at least.
    pub fn new(parts: usize) -> Self {
        Self(vec![1; parts])
    }

    /// Takes down what a process says of a part, which may have found it before; the units of all
    /// parts.
    fn add(&mut self, body: &[u8]) -> Option<usize> {
        let (part, units): (usize, u32) = serde_json::from_slice(body).ok()?;
        let known = self.0.get_mut(part)?;
        *known = (units as usize).max(*known);
        Some(self.0.iter().sum())
    }
}

/// Runs the test from `from` on with a fresh process of the program, and tells `observe` what is
/// found, until all is done, that breaks off, or one of the processes does not survive.
pub fn run(
    worker: &mut Worker,
    program: &str,
    test: &AssertionTest,
    from: &mut UnitPosition,
    counts: &mut Counts,
    limits: &RunLimits,
    observe: &mut dyn FnMut(TestProgress) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, ServerFailure> {
    let (programs, tests) = worker.both()?;
    let AssertionTest { preamble, setup, parts, entry_point } = test;
    let order = |mode| Order::new(mode, limits, UNITS);
    let cpu_s = order("session").cpu_s;
    programs.order(order("session"), &json!({"program": program, "preamble": preamble}));
    let content = json!({
        "preamble": preamble, "setup": setup, "parts": parts, "entry_point": entry_point,
        "from": [from.part, from.test],
    });
    tests.order(order("test"), &content);
    let mut talk = Talk { programs, tests, limits, cpu_s, deadline: limits.deadline() };
    match talk.load()? {
        Some(end) => {
            from.part = i64::MAX; // it would not load again either
            Ok(observe(TestProgress::Unit(Err(Failure::Ended(end)))))
        }
        None => talk.units(from, counts, observe),
    }
}

/// A program and a test that talk.
struct Talk<'a> {
    programs: &'a mut Server,
    tests: &'a mut Server,
    limits: &'a RunLimits,
    cpu_s: u64,
    deadline: Instant,
}

impl Talk<'_> {
    /// Waits for the program to be loaded and tells the test its names; how it ended, if it was
    /// not.
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

    /// Passes on questions and answers, and tells `observe` how units went. `from` is then where to
    /// go on.
    fn units(
        &mut self,
        from: &mut UnitPosition,
        counts: &mut Counts,
        observe: &mut dyn FnMut(TestProgress) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ServerFailure> {
        let mut at = UnitPosition::BEFORE;
        loop {
            let said = if self.limits.are_over() {
                Reply::Late // even if there were more to read without end
            } else {
                self.tests.message(QUESTION, self.deadline)?
            };
            let unclear = |what: &str| Err(Failure::Test(format!("its process {what}")));
            let flow = match self.message(said) {
                Ok(Frame { kind: b'q', body }) => match self.answer(&body)? {
                    Ok(()) => Ok(ControlFlow::Continue(())),
                    Err(end) => Err(Failure::Ended(end)),
                },
                Ok(Frame { kind: b'p', body }) => {
                    match UnitPosition::read(&body).filter(|place| *place > at) {
                        Some(place) => {
                            at = place;
                            self.deadline = self.limits.deadline();
                            Ok(ControlFlow::Continue(()))
                        }
                        None => unclear("does not go on from unit to unit"),
                    }
                }
                Ok(Frame { kind: b'c', body }) => match counts.add(&body) {
                    Some(units) => Ok(observe(TestProgress::Units(units))),
                    None => unclear("does not say how many tests it has"),
                },
                Ok(Frame { kind: b'u', body }) => {
                    *from = at.after();
                    Ok(observe(TestProgress::Unit(result(&body))))
                }
                Ok(Frame { kind: b'z', .. }) => {
                    from.part = i64::MAX;
                    return Ok(ControlFlow::Continue(()));
                }
                Ok(Frame { kind: b'x', body }) => {
                    let problem = String::from_utf8_lossy(&body).into_owned();
                    Err(Failure::Ended(End::RuntimeError(problem)))
                }
                Ok(_) => unclear("says what it was not asked"),
                Err(end) => Err(Failure::Ended(end_of_test(end))),
            };
            match flow {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
                Err(failure) => {
                    *from = at.after();
                    return Ok(observe(TestProgress::Unit(Err(failure))));
                }
            }
        }
    }

    /// Passes a question on to the program and its answer back; how the program ended if it does
    /// not answer.
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

/// How a unit ends whose test's process has ended before its time.
fn end_of_test(end: End) -> End {
    match end {
        End::RuntimeError(how) => {
            End::RuntimeError(format!("what it returned has ended the test's process: {how}"))
        }
        End::Completed => End::RuntimeError("the test has ended itself".into()),
        end => end,
    }
}

/// How a unit went, as the test's process says it.
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
