//! Whether accuracy has left the law: a policy that learns something new rises above what its entropy has bought so far.

use super::bootstrap::{Bootstrap, Regression, errors};
use super::{LEAST_POINTS, Point};
use serde::Serialize;

/// Prefixes that are tried, at most.
const PREFIXES: usize = 12;

/// The share of single measurements that a law which holds keeps within reach.
const LEVEL: f64 = 0.99;

/// No reach is less than so many standard errors, as that of the normal distribution is 2.6.
const LEAST_ERRORS: f64 = 2.0;

/// Measurements beyond reach, to the last one, that it takes.
const IN_A_ROW: usize = 2;

/// What counts: this share of what the accuracies of the prefix span.
const SHARE: f64 = 0.1;

/// Where accuracy has left the law, for good as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Departure {
    /// The last step of the points that the law was fitted to.
    pub fitted_until: u64,
    /// The first step from which on every accuracy is beyond the law's reach.
    pub since: u64,
    /// The latest accuracy.
    pub accuracy: f64,
    /// What the law had predicted for it.
    pub predicted: f64,
    /// How far a single accuracy may lie from that, in 99 of 100 cases.
    pub reach: f64,
}

impl Departure {
    /// Looks for it in the finite points of one run, in the order of steps: fits prefixes of different lengths, and sees
    /// whether the last two or more accuracies are all beyond reach, on one side. Of several departures, the earliest.
    pub(super) fn of(points: &[Point], seed: u64) -> Option<Self> {
        let prefixes = points.len().checked_sub(LEAST_POINTS + IN_A_ROW)?;
        let tried = prefixes.min(PREFIXES - 1);
        let lengths = (0..=tried).map(|i| LEAST_POINTS + prefixes * i / tried.max(1));
        lengths.filter_map(|length| after(points, length, seed)).min_by_key(|departure| departure.since)
    }

    /// Whether accuracy is above what the law had predicted.
    pub fn is_above(&self) -> bool {
        self.accuracy > self.predicted
    }
}

fn after(points: &[Point], length: usize, seed: u64) -> Option<Departure> {
    let (known, rest) = points.split_at(length);
    let regression = Regression::of(&[known])?;
    let (low, high) = known.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), p| {
        (low.min(p.accuracy), high.max(p.accuracy))
    });
    let excess: Vec<f64> = rest.iter().map(|p| p.accuracy - regression.at(p.x())).collect();
    let last = *excess.last()?;
    if last.abs() <= SHARE * (high - low) {
        return None;
    }
    let xs: Vec<f64> = rest.iter().map(Point::x).collect();
    let in_a_row = |reach: &[f64]| {
        let beyond =
            |(excess, reach): (&f64, &f64)| excess.signum() == last.signum() && excess.abs() > *reach;
        excess.iter().zip(reach).rev().take_while(|both| beyond(*both)).count()
    };
    let least: Vec<f64> = errors(&regression, &xs).iter().map(|error| LEAST_ERRORS * error).collect();
    if in_a_row(&least) < IN_A_ROW {
        return None; // which needs no bootstrap
    }
    let reach = Bootstrap::of(&regression, seed).reach(&xs, LEVEL);
    let in_a_row = in_a_row(&reach);
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
