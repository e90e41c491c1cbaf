//! Tests whether accuracy has left the law: a policy that learns something new rises above the
//! accuracy that its entropy predicts.

use super::bootstrap::{Regression, errors};
use super::{LEAST_POINTS, Point};
use serde::Serialize;
use std::cmp::Reverse;

/// Prefixes that are tried, at most.
const PREFIXES: usize = 12;

/// The number of standard errors of a single measurement that are within reach. The test runs after
/// every evaluation, with many prefixes each time. With this number at most about 5 of 100 runs
/// that obey the law ever raise a false alarm, as long as neighbouring residuals correlate by no
/// more than 0.6 (docs/concepts/entropy.md).
const REACH: f64 = 4.4;

/// Number of last measurements that must all be beyond reach.
const IN_A_ROW: usize = 2;

/// A departure counts from this share of the range that the prefix's accuracies span.
const SHARE: f64 = 0.1;

/// The step from which accuracy has left the law, up to the last evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Departure {
    /// The last step of the points that the law was fitted to.
    pub fitted_until: u64,
    /// The first step from which on every accuracy is beyond the law's reach.
    pub since: u64,
    /// The latest accuracy.
    pub accuracy: f64,
    /// The law's prediction for it.
    pub predicted: f64,
    /// The distance from the prediction that a single accuracy may have: 4.4 standard errors, which
    /// account for correlated neighbours.
    pub reach: f64,
}

impl Departure {
    /// Looks for a departure in the finite points of one run, in the order of steps: fits prefixes
    /// of different lengths, and tests whether the last two or more accuracies are all beyond
    /// reach, on one side. Of several departures it returns the earliest; of equally early ones,
    /// the one with the longest prefix.
    pub fn of(points: &[Point]) -> Option<Self> {
        let prefixes = points.len().checked_sub(LEAST_POINTS + IN_A_ROW)?;
        let tried = prefixes.min(PREFIXES - 1);
        let lengths = (0..=tried).map(|i| LEAST_POINTS + prefixes * i / tried.max(1));
        lengths
            .filter_map(|length| after(points, length))
            .min_by_key(|departure| (departure.since, Reverse(departure.fitted_until)))
    }

    /// Whether accuracy is above the law's prediction.
    pub fn is_above(&self) -> bool {
        self.accuracy > self.predicted
    }
}

fn after(points: &[Point], length: usize) -> Option<Departure> {
    let (known, rest) = points.split_at(length);
    let regression = Regression::of(&[known])?;
    let (low, high) = known.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), p| {
        (low.min(p.accuracy), high.max(p.accuracy))
    });
    let excess: Vec<f64> = rest.iter().map(|p| p.accuracy - regression.at(p.x())).collect();
    let last = *excess.last()?;
    // A standard error is at least the residuals' root mean square, which is cheaper to compute.
    if last.abs() <= SHARE * (high - low) || last.abs() <= REACH * regression.rms() {
        return None;
    }
    let xs: Vec<f64> = rest.iter().map(Point::x).collect();
    let reach: Vec<f64> = errors(&regression, &xs).iter().map(|error| REACH * error).collect();
    let is_beyond =
        |(excess, reach): &(&f64, &f64)| excess.signum() == last.signum() && excess.abs() > **reach;
    let in_a_row = excess.iter().zip(&reach).rev().take_while(is_beyond).count();
    if in_a_row < IN_A_ROW {
        return None;
    }
    let accuracy = rest.last()?.accuracy;
    Some(Departure {
        fitted_until: known.last()?.step,
        since: rest[rest.len() - in_a_row].step,
        accuracy,
        predicted: accuracy - last,
        reach: *reach.last()?,
    })
}
