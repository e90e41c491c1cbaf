//! Verdicts on programs and reports on responses.

use std::fmt;

use crate::compare::{in_line, shorten};
use crate::{End, Failure};

/// Longest sentence of a reason, in characters: long enough to keep the end of a remedy.
const SENTENCE: usize = 500;

/// The verdict on a program, or on the first test that it did not pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It passes all tests.
    Passed,
    /// The program returns or prints a wrong result; the text says which.
    WrongAnswer(String),
    /// The program ends with an error: the last line of the traceback.
    RuntimeError(String),
    /// The program exceeds its time limit.
    TimeLimit,
    /// The program exceeds its memory limit.
    MemoryLimit,
    /// The program exceeds its output limit.
    OutputLimit,
    /// There is no program in the response.
    NoCode,
    /// The program could not be judged, for a reason that is not its own: the sandbox failed.
    Fault(String),
    /// The program could not be judged, because no program can pass the tests: they are not Python,
    /// or import a module that is not there.
    UnusableTests(String),
}

impl Verdict {
    /// Names of the verdicts on programs that were run and do not pass, in the order of reports.
    pub const FAILURES: [&'static str; 5] =
        ["wrong_answer", "runtime_error", "time_limit", "memory_limit", "output_limit"];

    /// Its name in every file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::WrongAnswer(_) => "wrong_answer",
            Self::RuntimeError(_) => "runtime_error",
            Self::TimeLimit => "time_limit",
            Self::MemoryLimit => "memory_limit",
            Self::OutputLimit => "output_limit",
            Self::NoCode => "no_code",
            Self::Fault(_) => "fault",
            Self::UnusableTests(_) => "unusable_tests",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::WrongAnswer(what) => write!(f, "wrong answer: {what}"),
            Self::RuntimeError(line) if line.is_empty() => f.write_str("runtime error"),
            Self::RuntimeError(line) => write!(f, "runtime error: {}", in_line(line, SENTENCE)),
            Self::TimeLimit => f.write_str("time limit"),
            Self::MemoryLimit => f.write_str("memory limit"),
            Self::OutputLimit => f.write_str("output limit"),
            Self::NoCode => f.write_str("no code in the response"),
            Self::Fault(what) => write!(f, "the sandbox failed: {}", in_line(what, SENTENCE)),
            Self::UnusableTests(what) => {
                write!(f, "the tests cannot be run: {}", in_line(what, SENTENCE))
            }
        }
    }
}

impl Verdict {
    /// The verdict on a run that failed; none for a run that completed, whose results decide.
    pub(crate) fn of_end(end: End) -> Option<Self> {
        Some(match end {
            End::Completed => return None,
            End::RuntimeError(line) => Self::RuntimeError(line),
            End::TimeLimit => Self::TimeLimit,
            End::MemoryLimit => Self::MemoryLimit,
            End::OutputLimit => Self::OutputLimit,
            End::Fault(what) => Self::Fault(what),
        })
    }
}

impl From<Failure> for Verdict {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Assertion(text) => {
                Self::WrongAnswer(format!("{} does not hold", shorten(&text)))
            }
            // A program that ends without an error before its test does has returned no result.
            Failure::Ended(end) => Self::of_end(end)
                .unwrap_or_else(|| Self::RuntimeError("it ended before the test did".into())),
            Failure::Test(what) => Self::UnusableTests(what),
        }
    }
}

/// The report on a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The verdict on the program, or on the first test that it did not pass.
    pub verdict: Verdict,
    /// That test, from 1.
    pub failed: Option<usize>,
    /// Tests that it passed.
    pub passed: usize,
    /// The number of tests known. Assertion code that stops early may have more.
    pub tests: usize,
    /// The program, if the response has one.
    pub program: Option<String>,
}

impl Report {
    /// The report on a response for which no test was run.
    pub(crate) fn untested(verdict: Verdict) -> Self {
        Self { verdict, failed: None, passed: 0, tests: 0, program: None }
    }

    /// Share of the tests that it passed.
    pub fn fraction(&self) -> f64 {
        if self.verdict == Verdict::Passed {
            1.0
        } else {
            self.passed as f64 / self.tests.max(self.passed + 1) as f64
        }
    }

    /// The verdict with its test, in a line.
    pub fn reason(&self) -> String {
        match (&self.verdict, self.failed) {
            (Verdict::Passed, _) => format!("passed {}", tests(self.tests)),
            (verdict, None) => verdict.to_string(),
            (verdict, Some(test)) => format!("test {test}: {verdict}"),
        }
    }
}

fn tests(count: usize) -> String {
    if count == 1 { "1 test".into() } else { format!("{count} tests") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdict: Verdict, failed: Option<usize>, passed: usize, tests: usize) -> Report {
        Report { verdict, failed, passed, tests, program: None }
    }

    #[test]
    fn a_reason_names_the_test() {
        let wrong = Verdict::WrongAnswer("line 1: expected 2, found 3".into());
        let reason = report(wrong, Some(3), 2, 5).reason();
        assert_eq!(reason, "test 3: wrong answer: line 1: expected 2, found 3");
        let remedy = format!("{}: install it", "x".repeat(200));
        let unusable = report(Verdict::UnusableTests(remedy.clone()), None, 0, 0);
        assert_eq!(unusable.reason(), format!("the tests cannot be run: {remedy}"));
        assert_eq!(report(Verdict::Passed, None, 1, 1).reason(), "passed 1 test");
        let assertion = Verdict::from(Failure::Assertion("assert f(1) == 2".into()));
        assert_eq!(assertion.to_string(), "wrong answer: assert f(1) == 2 does not hold");
        assert_eq!(report(Verdict::NoCode, None, 0, 5).reason(), "no code in the response");
        let raised = Verdict::RuntimeError("ValueError:\x1b[31m no".into());
        let reason = report(raised, Some(1), 0, 1).reason();
        assert_eq!(reason, "test 1: runtime error: ValueError: [31m no");
    }

    #[test]
    fn only_what_passes_is_worth_all() {
        assert_eq!(report(Verdict::Passed, None, 5, 5).fraction(), 1.0);
        assert_eq!(report(Verdict::TimeLimit, Some(3), 3, 4).fraction(), 0.75);
        assert!(report(Verdict::TimeLimit, Some(3), 3, 3).fraction() < 1.0);
        assert_eq!(report(Verdict::NoCode, None, 0, 0).fraction(), 0.0);
    }
}
