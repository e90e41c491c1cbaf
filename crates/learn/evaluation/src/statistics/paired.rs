//! Tests whether one policy does better than another on the same problems.

use super::bootstrap::{Estimate, resampled, stream};
use isentrope_random::{Draws, Purpose};
use isentrope_run::sign_flip::{SignFlip, difference};
use serde::{Deserialize, Serialize};

/// Number of assignments of signs that are drawn if there are too many to try all.
const DRAWN: u64 = 100_000;

/// Two policies' accuracies, mean scores, pass@k or maj@k on the problems that both were asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairedTest {
    /// Problems that both were asked and both have a judged response to.
    pub problems: usize,
    /// The baseline policy's mean over the problems.
    pub old: f64,
    /// The name of the other.
    pub new: f64,
    /// `new` - `old`, with the interval of the paired bootstrap, which draws a problem with both
    /// its numbers.
    pub difference: Estimate,
    /// Problems on which the new policy is better.
    pub better: usize,
    /// Problems on which the new policy is worse.
    pub worse: usize,
    /// The p-value of the two-sided sign-flip permutation test. If the two policies were alike,
    /// each problem's difference could as well have the other sign. This is the share of all
    /// assignments of signs whose mean difference is at least as far from 0 as the one found. For
    /// accuracies that are 0 or 1 it is the exact McNemar test.
    pub p: f64,
    /// Whether all assignments of signs were tried; else 100,000 were drawn.
    pub exact: bool,
}

impl PairedTest {
    /// Compares (old, new) numbers per problem; none without problems.
    pub fn of(name: &str, pairs: &[(f64, f64)]) -> Option<Self> {
        let count = pairs.len();
        if count == 0 {
            return None;
        }
        let mean = |value: &dyn Fn(&(f64, f64)) -> f64| {
            pairs.iter().map(value).sum::<f64>() / count as f64
        };
        let difference = |(old, new): &(f64, f64)| difference(*old, *new);
        let differences: Vec<(f64, f64)> =
            pairs.iter().map(|pair| (difference(pair), 1.0)).collect();
        let nonzero: Vec<f64> = differences.iter().map(|d| d.0).filter(|d| *d != 0.0).collect();
        let drawn = resampled(name, &[differences]).remove(0);
        let (p, exact) = sign_flip(name, &nonzero);
        Some(Self {
            problems: count,
            old: mean(&|pair| pair.0),
            new: mean(&|pair| pair.1),
            difference: Estimate::new(mean(&difference), drawn),
            better: nonzero.iter().filter(|d| **d > 0.0).count(),
            worse: nonzero.iter().filter(|d| **d < 0.0).count(),
            p,
            exact,
        })
    }
}

/// The p-value of differences that are not 0, and whether it is exact.
fn sign_flip(name: &str, differences: &[f64]) -> (f64, bool) {
    let test = SignFlip::of(differences);
    if let Some(p) = test.exact() {
        return (p, true);
    }
    let mut draws = Draws::of(0, Purpose::Bootstrap, stream(name), 1);
    let words = differences.len().div_ceil(64) as u64;
    let far = (0..DRAWN)
        .filter(|draw| {
            let signs: Vec<u64> = (0..words).map(|word| draws.bits(draw * words + word)).collect();
            test.is_as_far(|i| signs[i / 64] >> (i % 64) & 1 == 1)
        })
        .count();
    // The observed assignment counts as one of the draws.
    ((far + 1) as f64 / (DRAWN + 1) as f64, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(better: usize, worse: usize, same: usize) -> Vec<(f64, f64)> {
        [vec![(0.0, 1.0); better], vec![(1.0, 0.0); worse], vec![(1.0, 1.0); same]].concat()
    }

    /// Two-sided binomial probability of a split at least as uneven.
    fn mcnemar(better: usize, worse: usize) -> f64 {
        let n = better + worse;
        let choose = |k: usize| (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64);
        let far = |k: usize| k.abs_diff(n - k) >= better.abs_diff(worse);
        (0..=n).filter(|&k| far(k)).map(choose).sum::<f64>() / 2f64.powi(n as i32)
    }

    #[test]
    fn of_right_and_wrong_the_test_is_mcnemars() {
        for (better, worse) in [(0, 0), (1, 0), (5, 0), (6, 2), (9, 9), (14, 3)] {
            let comparison = PairedTest::of("set", &pairs(better, worse, 7)).unwrap();
            assert!(
                comparison.exact && (comparison.p - mcnemar(better, worse)).abs() < 1e-12,
                "{comparison:?}"
            );
            assert_eq!((comparison.better, comparison.worse), (better, worse));
        }
        let drawn = PairedTest::of("set", &pairs(40, 22, 7)).unwrap();
        assert!(!drawn.exact && (drawn.p - mcnemar(40, 22)).abs() < 0.003, "{drawn:?}");
    }

    #[test]
    fn shares_are_compared_by_their_size() {
        // One large difference against three small ones: of 16 assignments, 2 are as far from 0.
        let comparison =
            PairedTest::of("set", &[(0.0, 0.5), (0.25, 0.375), (0.0, 0.125), (0.5, 0.625)])
                .unwrap();
        assert_eq!((comparison.p, comparison.difference.value), (2.0 / 16.0, 0.21875));
        assert!(comparison.difference.low >= 0.125 - 1e-12 && comparison.difference.high <= 0.5);
        assert_eq!(PairedTest::of("set", &[]), None);
    }

    #[test]
    fn rounding_makes_no_difference() {
        let comparison =
            PairedTest::of("set", &[(0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1), (2e-9, 1e-9)]).unwrap();
        assert_ne!(0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1);
        assert_eq!((comparison.better, comparison.worse), (0, 1));
    }

    /// Policies that are alike differ at p < 0.05 about 5 times in 100.
    #[test]
    fn the_level_is_what_it_says() {
        let mut draws = Draws::of(7, Purpose::Bootstrap, 0, 0);
        let (trials, n) = (300, 16);
        let mut told = 0;
        for trial in 0..trials {
            let pairs: Vec<(f64, f64)> = (0..n)
                .map(|i| {
                    (draws.uniform(2 * (trial * n + i)), draws.uniform(2 * (trial * n + i) + 1))
                })
                .collect();
            told += usize::from(PairedTest::of("set", &pairs).unwrap().p < 0.05);
        }
        assert!((3..=33).contains(&told), "{told} of {trials}");
    }
}
