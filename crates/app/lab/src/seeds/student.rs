//! Means over a few runs: their intervals by Student's t, and tests of paired differences.

use isentrope_run::sign_flip::{SignFlip, difference};
pub use isentrope_run::student::{quantile, within};
use serde::Serialize;

/// A mean over runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// The mean's 95 % interval by Student's t. None for a single run or for equal numbers: three
    /// seeds with the same count do not show that every seed would have it.
    pub interval: Option<[f64; 2]>,
    /// The runs' own numbers.
    pub runs: Vec<f64>,
}

/// The comparison of two groups of runs over the seeds that both have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Paired {
    /// The differences, one for each seed that both have.
    pub difference: Mean,
    /// Two-sided p-value of the paired t test; None for a single pair or equal differences, whose
    /// spread is unknown.
    pub p: Option<f64>,
    /// Two-sided p-value of the sign-flip permutation test over all assignments of signs, which
    /// assumes no distribution. None for more than 20 pairs.
    pub p_exact: Option<f64>,
    /// The least possible `p_exact` with n pairs: 2 assignments out of 2^n.
    pub p_exact_least: f64,
}

/// A spread that is a smaller share of the numbers is rounding.
pub(super) const ROUNDING: f64 = 1e-12;

impl Mean {
    /// The mean of runs' numbers; none without any.
    pub fn of(runs: Vec<f64>) -> Option<Self> {
        let size = runs.iter().fold(0.0, |size: f64, x| size.max(x.abs()));
        Self::of_size(runs, size)
    }

    /// The mean of numbers that are differences of numbers of size `size`.
    fn of_size(runs: Vec<f64>, size: f64) -> Option<Self> {
        let n = runs.len() as f64;
        let degrees = runs.len().checked_sub(1)?;
        let value = runs.iter().sum::<f64>() / n;
        let [least, most] = runs
            .iter()
            .fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], x| [low.min(*x), high.max(*x)]);
        let has_spread = most - least > ROUNDING * size;
        let interval = (degrees > 0 && has_spread).then(|| {
            let half = quantile(0.975, degrees) * error(&runs, value);
            [value - half, value + half]
        });
        Some(Self { value, interval, runs })
    }

    /// Whether there are several numbers and all are the same.
    pub fn has_no_spread(&self) -> bool {
        self.runs.len() > 1 && self.interval.is_none()
    }

    /// Clamps the interval to the number's possible range. Returns whether that changed it.
    pub(super) fn cut_off(&mut self, [least, most]: [f64; 2]) -> bool {
        let before = self.interval;
        self.interval = before.map(|ends| ends.map(|end| end.clamp(least, most)));
        self.interval != before
    }
}

impl Paired {
    /// The comparison of (old, new) numbers, a pair for each seed; none without any.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let size = pairs.iter().fold(0.0, |size: f64, (old, new)| size.max(old.abs() + new.abs()));
        let difference =
            Mean::of_size(pairs.iter().map(|(old, new)| difference(*old, *new)).collect(), size)?;
        // Equal differences have no interval, and an infinite t would seem to rule out chance.
        let p = difference.interval.map(|_| {
            let error = error(&difference.runs, difference.value);
            1.0 - within(difference.value.abs() / error, pairs.len() - 1)
        });
        let p_exact = SignFlip::of(&difference.runs).exact();
        let p_exact_least = 2f64.powi(1 - i32::try_from(pairs.len()).unwrap_or(i32::MAX));
        Some(Self { difference, p, p_exact, p_exact_least })
    }
}

/// The standard error of the mean `value` of at least two numbers.
fn error(numbers: &[f64], value: f64) -> f64 {
    let n = numbers.len() as f64;
    (numbers.iter().map(|x| (x - value) * (x - value)).sum::<f64>() / (n - 1.0) / n).sqrt()
}
