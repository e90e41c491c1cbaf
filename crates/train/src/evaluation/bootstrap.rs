//! How far a number about a set of problems could be off because these problems and no others are in it.
//!
//! The percentile bootstrap (Efron 1979): problems are drawn with replacement, as many as there are, again and again; the
//! interval holds the middle 95 % of what the number comes to. Responses are not drawn anew: those to one problem belong
//! together.

use isentrope_random::{Draws, Purpose};
use serde::{Deserialize, Serialize};

/// Sets of problems that are drawn.
pub const RESAMPLES: usize = 2000;

/// The share of what is drawn that lies in an interval.
const LEVEL: f64 = 0.95;

/// A number with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Estimate {
    /// From the number and what it comes to in sets drawn at random; without any, the interval is the number.
    pub fn new(value: f64, mut drawn: Vec<f64>) -> Self {
        drawn.retain(|x| !x.is_nan());
        drawn.sort_by(f64::total_cmp);
        let tail = (1.0 - LEVEL) / 2.0;
        let end = |share| quantile(&drawn, share).unwrap_or(value);
        Self { value, low: end(tail), high: end(1.0 - tail) }
    }
}

/// Which problems are in each set that is drawn: the same for every number about one set of problems, and others for sets
/// of other names.
pub struct Resamples {
    /// [RESAMPLES, problems]
    chosen: Vec<u32>,
    problems: usize,
}

impl Resamples {
    /// For a set's name and number of problems.
    pub fn new(name: &str, problems: usize) -> Self {
        let mut draws = Draws::of(0, Purpose::Bootstrap, stream(name), 0);
        let count = (RESAMPLES * problems) as u64;
        let chosen = (0..count).map(|i| draws.below(i, problems as u64) as u32).collect();
        Self { chosen, problems }
    }

    /// What a ratio of sums comes to in each set, from every problem's numerator and denominator; NaN where the
    /// denominators are 0.
    pub fn ratios(&self, problems: &[(f64, f64)]) -> Vec<f64> {
        let sets = self.chosen.chunks(self.problems.max(1));
        sets.map(|set| {
            let (a, b) = set.iter().fold((0.0, 0.0), |(a, b), &i| {
                let (c, d) = problems[i as usize];
                (a + c, b + d)
            });
            a / b
        })
        .collect()
    }
}

/// A number for a name (FNV-1a).
pub(super) fn stream(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The value below which a share of the sorted values lies, interpolated between neighbours (Hyndman and Fan 1996, type
/// 7).
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let below = place as usize;
    let above = (below + 1).min(sorted.len() - 1);
    Some(sorted[below] + (place - below as f64) * (sorted[above] - sorted[below]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let values = [1.0, 2.0, 4.0, 8.0];
        assert_eq!(quantile(&values, 0.5), Some(3.0));
        assert_eq!(quantile(&values, 1.0), Some(8.0));
        assert_eq!(quantile(&values[..1], 0.9), Some(1.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    /// The interval of a mean of n shares p is close to that of the normal approximation of the binomial distribution.
    #[test]
    fn the_interval_of_a_mean_is_that_of_the_binomial_distribution() {
        let (n, right) = (400, 120);
        let problems: Vec<(f64, f64)> = (0..n).map(|i| (f64::from(u8::from(i < right)), 1.0)).collect();
        let estimate = Estimate::new(0.3, Resamples::new("set", n).ratios(&problems));
        let half = 1.96 * (0.3f64 * 0.7 / n as f64).sqrt();
        assert!((estimate.low - (0.3 - half)).abs() < 0.006, "{estimate:?}");
        assert!((estimate.high - (0.3 + half)).abs() < 0.006, "{estimate:?}");
    }

    #[test]
    fn names_decide_what_is_drawn_and_nothing_else_does() {
        let drawn = |name| Resamples::new(name, 10).chosen;
        assert_eq!(drawn("a"), drawn("a"));
        assert_ne!(drawn("a"), drawn("b"));
        assert!(Resamples::new("a", 0).ratios(&[]).is_empty());
        let no_denominators = Resamples::new("a", 2).ratios(&[(0.0, 0.0), (0.0, 0.0)]);
        assert_eq!(Estimate::new(0.5, no_denominators), Estimate { value: 0.5, low: 0.5, high: 0.5 });
    }

    /// Intervals that are made so hold the true mean in about 95 of 100 cases.
    #[test]
    fn intervals_hold_the_true_mean_as_often_as_they_say() {
        let mut draws = Draws::of(3, Purpose::Bootstrap, 1, 1);
        let (trials, n) = (200, 60);
        let mut held = 0;
        for trial in 0..trials {
            let problems: Vec<(f64, f64)> = (0..n).map(|i| (draws.uniform(trial * n + i), 1.0)).collect();
            let mean = problems.iter().map(|p| p.0).sum::<f64>() / n as f64;
            let estimate =
                Estimate::new(mean, Resamples::new(&trial.to_string(), n as usize).ratios(&problems));
            held += u64::from((estimate.low..=estimate.high).contains(&0.5));
        }
        assert!((176..=200).contains(&held), "{held} of {trials}"); // below 176 once in a million
    }
}
