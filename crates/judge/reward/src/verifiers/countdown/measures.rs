//! Measures a response beside its verdict: how it searches, and how well it calculates.

use super::Step;
use std::collections::BTreeMap;

/// Counts the steps of a response as they are read. The time for a step is logarithmic in what came
/// before, however many numbers the problem gives.
pub(super) struct Measures {
    /// How often the problem gives each number.
    given: BTreeMap<u64, i64>,
    /// How often the attempt's steps so far have added each number, less how often they have used
    /// it.
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

    /// Takes in the next step. It is false where its result is, or where it uses a number that is
    /// not there: given, or made by a step before it in its attempt, and not used by one. A step
    /// that is false makes what it says all the same, so that the steps that go on from it are not
    /// false for its sake.
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

    /// Uses a number, if it is there.
    fn take(&mut self, number: u64) -> bool {
        let given = self.given.get(&number).copied().unwrap_or_default();
        let made = self.made.entry(number).or_default();
        let is_there = given + *made > 0;
        *made -= i64::from(is_there);
        is_there
    }

    /// Under the names of docs/reference/metrics.md; nothing where no step could be read.
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
