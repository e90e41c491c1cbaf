//! One response judged by its tests, by one worker.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::compare::{self, Numbers};
use crate::forms::{Call, Kind, Script, Tests};
use crate::response::{Program, program};
use crate::settings::{CodeSettings, Score};
use crate::verdict::{Report, Verdict};
use crate::{RunLimits, Runner, TestProgress};

/// Most further attempts to judge a response after its sandbox failed.
const RETRIES: usize = 2;

/// Errors that show that a text is not Python. A response without a code block may be prose.
const NO_PYTHON: [&str; 3] = ["SyntaxError", "IndentationError", "TabError"];

/// The settings by which a response is judged.
#[derive(Clone, Debug)]
pub struct Rules {
    limits: RunLimits,
    total: Duration,
    all: bool,
    tolerance: Option<f64>,
}

impl Rules {
    /// Takes the rules from a recipe's settings.
    pub fn new(settings: &CodeSettings) -> Self {
        Self {
            limits: settings.run_limits(),
            total: Duration::from_secs_f64(settings.total_timeout_s),
            all: settings.score == Score::All,
            tolerance: settings.tolerance,
        }
    }

    /// Judges a response. If the sandbox fails, tries again before the verdict is a fault.
    pub fn judge(&self, runner: &mut dyn Runner, tests: &Tests, response: &str) -> Report {
        let Some(Program { text, fenced }) = program(response) else {
            return Report::untested(Verdict::NoCode);
        };
        let mut report = self.run(runner, tests, &text);
        for _ in 0..RETRIES {
            if !matches!(report.verdict, Verdict::Fault(_)) {
                break;
            }
            report = self.run(runner, tests, &text);
        }
        let is_prose =
            |line: &str| !fenced && NO_PYTHON.iter().any(|error| line.starts_with(error));
        match report.verdict {
            Verdict::RuntimeError(line) if report.failed == Some(1) && is_prose(&line) => {
                Report { verdict: Verdict::NoCode, failed: None, ..report }
            }
            verdict => Report { verdict, program: Some(text), ..report },
        }
    }

    fn run(&self, runner: &mut dyn Runner, tests: &Tests, program: &str) -> Report {
        let numbers = match tests.tolerance.or(self.tolerance) {
            Some(tolerance) => Numbers::Within(tolerance),
            None if tests.by_value => Numbers::Value,
            None => Numbers::Exact,
        };
        let mut tally = Tally::new(Instant::now() + self.total, self.all);
        let limits = RunLimits { until: Some(tally.deadline), ..self.limits.clone() };
        let known = match &tests.kind {
            Kind::Scripts(scripts) => {
                run_scripts(runner, program, scripts, numbers, &limits, &mut tally);
                scripts.len()
            }
            Kind::Calls { function, calls } => {
                run_calls(runner, program, (function, calls), numbers, &limits, &mut tally);
                calls.len()
            }
            Kind::Assertions(test) => {
                let completed = test.completed(program);
                let program = completed.as_deref().unwrap_or(program);
                let mut units = test.parts.len();
                runner.assertions(program, test, &limits, &mut |found| match found {
                    TestProgress::Units(known) => {
                        units = known;
                        ControlFlow::Continue(())
                    }
                    TestProgress::Unit(unit) => tally.add(unit.map_err(Verdict::from)),
                });
                if tally.first.is_none() && tally.run < units {
                    let _ =
                        tally.add(Err(Verdict::UnusableTests("not all of them were run".into())));
                }
                units
            }
        };
        tally.report(known)
    }
}

fn run_scripts(
    runner: &mut dyn Runner,
    program: &str,
    scripts: &[Script],
    numbers: Numbers,
    limits: &RunLimits,
    tally: &mut Tally,
) {
    for Script { input, output } in scripts {
        let (printed, end) = runner.script(program, input, limits);
        let result = match Verdict::of_end(end) {
            Some(verdict) => Err(verdict),
            None => compare::output(output, &printed, numbers).map_err(Verdict::WrongAnswer),
        };
        if tally.add(result).is_break() {
            return;
        }
    }
}

fn run_calls(
    runner: &mut dyn Runner,
    program: &str,
    (function, calls): (&str, &[Call]),
    numbers: Numbers,
    limits: &RunLimits,
    tally: &mut Tally,
) {
    let arguments: Vec<Vec<Value>> = calls.iter().map(|call| call.arguments.clone()).collect();
    let function = name_in(program, function);
    runner.calls(program, &function, &arguments, limits, &mut |call, value| {
        let accepted = calls.get(call).map_or(&[][..], |call| &call.accepted);
        let result = match value {
            Ok(value) => {
                first_ok(accepted.iter().map(|accepted| compare::value(accepted, &value, numbers)))
            }
            Err(end) => {
                Err(Verdict::of_end(end).unwrap_or(Verdict::Fault("a call has no value".into())))
            }
        };
        tally.add(result)
    });
}

/// Ok if any result is Ok; otherwise the first difference.
fn first_ok(results: impl Iterator<Item = Result<(), String>>) -> Result<(), Verdict> {
    let mut first = None;
    for result in results {
        match result {
            Ok(()) => return Ok(()),
            Err(difference) => first = first.or(Some(Verdict::WrongAnswer(difference))),
        }
    }
    Err(first.unwrap_or(Verdict::Fault("a call has no expected value".into())))
}

/// The function's path in the program. Data sets name a method of the class `Solution` without the
/// class.
fn name_in(program: &str, function: &str) -> String {
    let has_class = program.lines().any(|line| {
        let rest = line.strip_prefix("class Solution");
        rest.is_some_and(|rest| rest.trim_start().starts_with([':', '(']))
    });
    let is_method =
        has_class && !function.contains('.') && !crate::forms::defines(program, function);
    if is_method { format!("Solution.{function}") } else { function.to_owned() }
}

/// The results of the tests so far.
struct Tally {
    deadline: Instant,
    all: bool,
    run: usize,
    passed: usize,
    /// The first test that did not pass: its number, from 1, and its verdict.
    first: Option<(usize, Verdict)>,
}

impl Tally {
    fn new(deadline: Instant, all: bool) -> Self {
        Self { deadline, all, run: 0, passed: 0, first: None }
    }

    /// Counts a test, and returns whether another may run. A test that ends after the total time
    /// limit has not passed.
    fn add(&mut self, result: Result<(), Verdict>) -> ControlFlow<()> {
        self.run += 1;
        let is_late = Instant::now() >= self.deadline;
        match result {
            // These verdicts are about the sandbox or the tests, not about the program.
            Err(fault @ (Verdict::Fault(_) | Verdict::UnusableTests(_))) => {
                self.first = Some((self.run, fault));
                return ControlFlow::Break(());
            }
            Ok(()) if !is_late => self.passed += 1,
            late_or_wrong => {
                let verdict = late_or_wrong.err().unwrap_or(Verdict::TimeLimit);
                self.first = self.first.take().or(Some((self.run, verdict)));
            }
        }
        if is_late || self.all && self.first.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// The report, if there are at least `known` tests.
    fn report(self, known: usize) -> Report {
        let tests = known.max(self.run);
        let unrun = || {
            (self.run < known)
                .then(|| (self.run + 1, Verdict::Fault("not all tests were run".into())))
        };
        let (failed, verdict) = self
            .first
            .or_else(unrun)
            .map_or((None, Verdict::Passed), |(test, verdict)| (Some(test), verdict));
        Report { verdict, failed, passed: self.passed, tests, program: None }
    }
}

#[cfg(test)]
mod tests;
