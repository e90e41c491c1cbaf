//! Measures a response beside its verdict: how it searches, and how well it calculates.

use super::Step;
use std::collections::BTreeMap;

/// Counts the steps of a response as they are read. The time for a step is logarithmic in what came
/// before, however many numbers the problem gives.
pub(super) struct Measures {
    /// The number of times that the problem gives each number.
    given: BTreeMap<u64, i64>,
    /// For each number, the times that the attempt's steps have made it, less the times that they
    /// have used it.
    made: BTreeMap<u64, i64>,
    attempts: usize,
    steps: usize,
    false_steps: usize,
}

impl Measures {
    /// Begins to measure a response to a problem with these numbers.
    pub fn new(numbers: &[u64]) -> Self {
        let mut given = BTreeMap::new();
        for &number in numbers {
            *given.entry(number).or_default() += 1;
        }
        Self { given, made: BTreeMap::new(), attempts: 0, steps: 0, false_steps: 0 }
    }

    /// Adds the next step. It is false if its result is, or if it uses a number that is not
    /// available: given or made by an earlier step of the attempt, and not used. A false step still
    /// makes its number, so that later steps with it are not false too.
    pub fn add(&mut self, step: Step, opens_attempt: bool) {
        if opens_attempt {
            self.attempts += 1;
            self.made.clear();
        }
        let are_there = [step.a, step.b].map(|operand| self.take(operand));
        *self.made.entry(step.result).or_default() += 1;
        self.steps += 1;
        self.false_steps += usize::from(!step.is_true() || are_there.contains(&false));
    }

    /// Uses a number, if it is available.
    fn take(&mut self, number: u64) -> bool {
        let given = self.given.get(&number).copied().unwrap_or_default();
        let made = self.made.entry(number).or_default();
        let is_there = given + *made > 0;
        *made -= i64::from(is_there);
        is_there
    }

    /// The metrics by the names of docs/reference/metrics.md; empty if no step could be read.
    pub fn metrics(&self, gives_up: bool) -> BTreeMap<String, f64> {
        let metrics = [
            ("attempts", self.attempts as f64),
            ("gave_up", f64::from(u8::from(gives_up))),
            ("false_steps", self.false_steps as f64 / self.steps as f64),
        ];
        metrics
            .into_iter()
            .filter(|_| self.steps > 0)
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}
