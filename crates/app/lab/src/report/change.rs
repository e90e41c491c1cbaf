//! The difference between a run's first and last measurement, and whether it is more than chance.

use super::number::Scale;
use super::run::PageRun;
use crate::log::lines::{Row, each_row};
use crate::seeds::Paired;
use crate::tokens::is_scored;
use isentrope_run::student::interval_of_change;
use serde_json::Value;
use std::path::Path;

/// A quantity at its first and its last measurement.
pub(super) struct Change {
    /// Steps and values.
    pub ends: [(u64, f64); 2],
    /// 95 % interval of the last value less the first.
    interval: Option<[f64; 2]>,
    /// Whether no update between the two has changed a weight.
    pub has_same_weights: bool,
}

/// A quantity of the responses to an evaluation set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OfResponses {
    Accuracy,
    Entropy,
}

impl Change {
    /// The change over a series of measurements after steps.
    pub fn of(run: &PageRun, series: &[(u64, f64)]) -> Option<Self> {
        let ends = [*series.first()?, *series.last()?];
        let interval = interval_of_change(&series.iter().map(|point| point.1).collect::<Vec<_>>());
        let has_same_weights = run.data.log.has_same_weights(ends[0].0, ends[1].0);
        Some(Self { ends, interval, has_same_weights })
    }

    /// Like [`of`](Self::of), for rollouts, whose responses the weights before the step have
    /// sampled.
    pub fn of_rollouts(run: &PageRun, series: &[(u64, f64)]) -> Option<Self> {
        let change = Self::of(run, series)?;
        let [first, last] = change.ends.map(|(step, _)| step.saturating_sub(1));
        Some(Self { has_same_weights: run.data.log.has_same_weights(first, last), ..change })
    }

    /// Like [`of`](Self::of), for an evaluation set. If the run has kept the responses of both
    /// evaluations, the interval is Student's over the differences of single problems.
    pub fn of_set(
        run: &PageRun,
        set: &str,
        what: OfResponses,
        series: &[(u64, f64)],
    ) -> Option<Self> {
        let change = Self::of(run, series)?;
        let by_problem = by_problem(run, set, change.ends.map(|(step, _)| step), what);
        Some(Self { interval: by_problem.or(change.interval), ..change })
    }

    /// Whether the change is a fall beyond chance.
    pub fn is_fall(&self) -> bool {
        !self.has_same_weights && self.interval.is_some_and(|[_, high]| high < 0.0)
    }

    /// Whether the change is a rise beyond chance.
    pub fn is_rise(&self) -> bool {
        !self.has_same_weights && self.interval.is_some_and(|[low, _]| low > 0.0)
    }

    /// The change in words, as HTML. It has a verb of change only if the interval excludes 0.
    pub fn words(&self, scale: &Scale) -> String {
        let Scale { value, unit, difference, unit_of_difference } = scale;
        let [(first, from), (last, to)] = self.ends;
        let (a, b) = (value(from), value(to));
        if first == last {
            return format!("was {a}{unit} after step {first}, the only measurement");
        }
        if self.has_same_weights {
            return format!(
                "was {a} at step {first} and <b>{b}</b>{unit} at step {last}, both of the same \
                 weights: the difference is chance"
            );
        }
        let Some([low, high]) = self.interval else {
            return format!(
                "went from {a} to <b>{b}</b>{unit}: two measurements do not tell a change from \
                 chance"
            );
        };
        let (verb, by, low, high) = match (low > 0.0, high < 0.0) {
            (true, _) => ("rose", to - from, low, high),
            (_, true) => ("fell", from - to, -high, -low),
            _ => ("shows no change beyond chance:", to - from, low, high),
        };
        let [by, low, high] = [by, low, high].map(difference);
        format!("{verb} from {a} to <b>{b}</b>{unit}, by {by}{unit_of_difference} [{low}, {high}]")
    }
}

/// The 95 % interval of the difference between two evaluations of a set, over its problems; none if
/// the run has not kept the responses.
fn by_problem(run: &PageRun, set: &str, steps: [u64; 2], what: OfResponses) -> Option<[f64; 2]> {
    if set.contains('/') {
        return None; // no set of this program, and no name of a file
    }
    let files = run.data.files()?;
    let file = |step: u64| problems(&files.evaluation(step, set));
    let [old, new] = [file(steps[0])?, file(steps[1])?];
    let is_same = old.len() == new.len() && old.iter().zip(&new).all(|(a, b)| a.prompt == b.prompt);
    let both = old.iter().zip(&new).filter_map(|(a, b)| Some((a.number(what)?, b.number(what)?)));
    let pairs: Vec<(f64, f64)> = both.collect();
    let difference = Paired::of(&pairs).filter(|_| is_same)?.difference;
    // If every problem is equal, the change is exactly 0.
    let is_equal = difference.value == 0.0 && difference.has_no_spread();
    difference.interval.or(is_equal.then_some([0.0; 2]))
}

/// Sums over the responses to a problem.
#[derive(Default)]
struct Problem {
    prompt: Option<Value>,
    judged: u32,
    correct: u32,
    /// Responses with tokens, and their entropies.
    sampled: u32,
    entropies: f64,
}

impl Problem {
    fn add(&mut self, response: &Row) {
        let verdict = response.get("verdict").and_then(Value::as_str).unwrap_or_default();
        self.judged += u32::from(is_scored(verdict));
        self.correct += u32::from(verdict == "correct");
        if response.get("tokens").and_then(Value::as_u64) > Some(0) {
            self.sampled += 1;
            self.entropies += response.get("entropy").and_then(Value::as_f64).unwrap_or(f64::NAN);
        }
    }

    fn number(&self, what: OfResponses) -> Option<f64> {
        match what {
            OfResponses::Accuracy => {
                (self.judged > 0).then(|| f64::from(self.correct) / f64::from(self.judged))
            }
            OfResponses::Entropy => {
                (self.sampled > 0).then(|| self.entropies / f64::from(self.sampled))
            }
        }
    }
}

/// The problems of an evaluation's file, in order; none if the file cannot be read.
fn problems(path: &Path) -> Option<Vec<Problem>> {
    let mut all: Vec<Problem> = Vec::new();
    each_row(path, &mut |row: Row| {
        if all.is_empty() || row.get("sample").and_then(Value::as_u64) == Some(0) {
            all.push(Problem { prompt: row.get("prompt").cloned(), ..Problem::default() });
        }
        if let Some(problem) = all.last_mut() {
            problem.add(&row);
        }
        Ok(())
    })
    .ok()?;
    Some(all)
}

/// The step of the first measurement at which half of the change was over; none if the change is
/// less than 2 % of the first value.
pub(super) fn half_way(series: &[(u64, f64)]) -> Option<u64> {
    let (first, last) = (series.first()?.1, series.last()?.1);
    let middle = first + (last - first) / 2.0;
    let is_over = |value: f64| if last > first { value >= middle } else { value <= middle };
    let is_large = (last - first).abs() > 0.02 * first.abs().max(f64::MIN_POSITIVE);
    series.iter().find(|(_, value)| is_large && is_over(*value)).map(|(step, _)| *step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_change_is_over_at_a_measurement() {
        assert_eq!(half_way(&[(0, 2.0), (10, 1.2), (50, 0.2)]), Some(50));
        assert_eq!(half_way(&[(0, 0.0), (10, 0.25), (50, 0.5)]), Some(10));
        assert_eq!(half_way(&[(0, 1.0), (5, 1.0), (10, 0.985)]), None);
        assert_eq!((half_way(&[]), half_way(&[(0, 0.5)])), (None, None));
    }
}
