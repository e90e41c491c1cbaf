//! Confidence intervals: how far a number about a set could be off because the set has these
//! problems and no others.
//!
//! The percentile bootstrap (Efron 1979): problems are drawn with replacement, as many as there
//! are, again and again; the interval holds the middle 95 % of the values that the number takes.
//! Problems are drawn with all their responses, which are not drawn by themselves.

use isentrope_random::{Draws, Purpose};
use serde::{Deserialize, Serialize};

/// The number of resampled sets of problems.
pub const RESAMPLES: usize = 2000;

/// The share of the values that lies in an interval.
const LEVEL: f64 = 0.95;

/// Ends of an interval that differ by a smaller share of themselves differ by rounding.
const ROUNDING: f64 = 1e-12;

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
    /// An estimate of `value` from its values in resampled sets, `drawn`. If there are none, the
    /// interval is the value alone.
    pub fn new(value: f64, mut drawn: Vec<f64>) -> Self {
        drawn.retain(|x| !x.is_nan());
        drawn.sort_by(f64::total_cmp);
        let tail = (1.0 - LEVEL) / 2.0;
        let end = |share| quantile(&drawn, share).unwrap_or(value);
        Self { value, low: end(tail), high: end(1.0 - tail) }
    }

    /// Whether the number was the same in all resampled sets, for example because every problem had
    /// the same outcome. Then the interval says nothing about other problems.
    pub fn has_no_spread(&self) -> bool {
        self.high - self.low <= ROUNDING * self.value.abs()
    }
}

/// The values that numbers about a set of problems take in each of [`RESAMPLES`] sets drawn from
/// it. Each number is a ratio of two sums over problems, given by every problem's numerator and
/// denominator: `statistics` is `[numbers, problems]`, the result `[numbers, RESAMPLES]`, with NaN
/// where the denominators add up to 0. Without problems nothing is drawn. The drawn sets are the
/// same for all numbers; they depend on the set's name and the number of problems alone.
pub fn resampled(name: &str, statistics: &[Vec<(f64, f64)>]) -> Vec<Vec<f64>> {
    let problems = statistics.first().map_or(0, Vec::len);
    let mut drawn = vec![Vec::new(); statistics.len()];
    if problems == 0 {
        return drawn;
    }
    let mut draws = Draws::of(0, Purpose::Bootstrap, stream(name), 0);
    let mut sums = vec![(0.0, 0.0); statistics.len()];
    let mut position = 0;
    for _ in 0..RESAMPLES {
        sums.fill((0.0, 0.0));
        for _ in 0..problems {
            let problem = draws.below(position, problems as u64) as usize;
            position += 1;
            for ((a, b), parts) in sums.iter_mut().zip(statistics) {
                let (c, d) = parts[problem];
                (*a, *b) = (*a + c, *b + d);
            }
        }
        for (drawn, (a, b)) in drawn.iter_mut().zip(&sums) {
            drawn.push(a / b);
        }
    }
    drawn
}

/// A number for a name (FNV-1a).
pub(super) fn stream(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The value below which a share of the sorted values lies, interpolated between neighbours
/// (Hyndman and Fan 1996, type 7).
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

    /// The expected values draw the places of all sets at once, one set after the other.
    #[test]
    fn every_number_sees_the_same_sets_which_follow_from_the_name() {
        let powers: Vec<(f64, f64)> = (0..10).map(|i| (f64::from(1 << i), 1.0)).collect();
        let weighted: Vec<(f64, f64)> =
            (0..10).map(|i| (0.1 * f64::from(i), f64::from(i % 3))).collect();
        let mut draws = Draws::of(0, Purpose::Bootstrap, stream("a"), 0);
        let all: Vec<usize> =
            (0..RESAMPLES as u64 * 10).map(|place| draws.below(place, 10) as usize).collect();
        let expected = |parts: &[(f64, f64)]| -> Vec<f64> {
            let sum = |set: &[usize], part: &dyn Fn(usize) -> f64| {
                set.iter().fold(0.0, |sum, &i| sum + part(i))
            };
            all.chunks(10)
                .map(|set| sum(set, &|i| parts[i].0) / sum(set, &|i| parts[i].1))
                .collect()
        };
        let statistics = [powers.clone(), weighted.clone()];
        assert_eq!(resampled("a", &statistics), [expected(&powers), expected(&weighted)]);
        assert_ne!(resampled("a", &statistics), resampled("b", &statistics));
    }

    #[test]
    fn without_problems_or_denominators_the_interval_is_the_number() {
        assert_eq!(resampled("a", &[]), [[0.0; 0]; 0]);
        assert_eq!(resampled("a", &[vec![], vec![]]), [[0.0; 0], []]);
        for parts in [vec![], vec![(0.0, 0.0); 2]] {
            let drawn = resampled("a", &[parts]).remove(0);
            let estimate = Estimate::new(0.5, drawn);
            assert_eq!(estimate, Estimate { value: 0.5, low: 0.5, high: 0.5 });
            assert!(estimate.has_no_spread());
        }
    }

    #[test]
    fn problems_that_all_came_out_alike_leave_no_spread() {
        let drawn = |parts: Vec<(f64, f64)>| Estimate::new(0.1, resampled("a", &[parts]).remove(0));
        for right in [0.0, 0.1, 1.0] {
            assert!(drawn(vec![(right, 1.0); 30]).has_no_spread());
        }
        // These shares have other weights, so their quotients differ by rounding.
        assert!(
            drawn((1..30).map(|n| (0.1 * f64::from(n), f64::from(n))).collect()).has_no_spread()
        );
        assert!(
            !drawn((0..30).map(|n| (f64::from(u8::from(n == 0)), 1.0)).collect()).has_no_spread()
        );
    }

    /// The intervals hold the true mean in about 95 of 100 cases.
    #[test]
    fn intervals_hold_the_true_mean_as_often_as_they_say() {
        let mut draws = Draws::of(3, Purpose::Bootstrap, 1, 1);
        let (trials, n) = (200, 60);
        let mut held = 0;
        for trial in 0..trials {
            let problems: Vec<(f64, f64)> =
                (0..n).map(|i| (draws.uniform(trial * n + i), 1.0)).collect();
            let mean = problems.iter().map(|p| p.0).sum::<f64>() / n as f64;
            let estimate =
                Estimate::new(mean, resampled(&trial.to_string(), &[problems]).remove(0));
            held += u64::from((estimate.low..=estimate.high).contains(&0.5));
        }
        assert!((176..=200).contains(&held), "{held} of {trials}"); // below 176 once in a million
    }
}
