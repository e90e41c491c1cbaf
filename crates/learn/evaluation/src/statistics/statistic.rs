//! The numbers of a set of problems: mean@k, pass@k, maj@k and their like.

use super::outcome::{Outcome, accuracy};
use super::votes;

/// The k of pass@k: every power of two up to the number of responses, and that number.
pub fn ks(samples: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |k| Some(2 * k)).take_while(|&k| k < samples);
    powers.chain([samples]).collect()
}

/// A number about a set: a sum over problems divided by another sum over problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// mean@k: mean over problems of the share of correct responses.
    Mean,
    /// pass@k.
    Pass(usize),
    /// maj@k: share of problems whose most frequent answer is correct.
    Majority,
    /// Mean score of the responses that could be judged.
    Score,
    /// Share of responses that were cut off.
    Truncated,
    /// Mean length of responses, in tokens.
    Length,
    /// Mean over responses of the mean entropy of their tokens, in nats. A response without tokens
    /// has none.
    Entropy,
    /// Share of responses that could not be judged.
    Faults,
    /// Share of responses at which the verifier or the environment failed. They count as wrong.
    Failed,
}

impl Statistic {
    /// A problem's contribution to both sums. Responses that could not be judged add nothing to the
    /// first four.
    pub fn of(self, responses: &[Outcome]) -> (f64, f64) {
        let over_responses = |value: &dyn Fn(&Outcome) -> f64| {
            (responses.iter().map(value).sum::<f64>(), responses.len() as f64)
        };
        let share = |yes: bool| f64::from(u8::from(yes));
        let of_problem = |value: Option<f64>| value.map_or((0.0, 0.0), |value| (value, 1.0));
        match self {
            Self::Mean => of_problem(accuracy(responses)),
            Self::Pass(k) => {
                let counted = responses.iter().filter(|r| r.is_scored()).count();
                let right = responses.iter().filter(|r| r.is_correct()).count();
                of_problem((k <= counted).then(|| pass_at(counted, right, k)))
            }
            Self::Majority => {
                let counted: Vec<&Outcome> = responses.iter().filter(|r| r.is_scored()).collect();
                let right = votes::winner(&counted).is_some_and(Outcome::is_correct);
                of_problem((!counted.is_empty()).then(|| share(right)))
            }
            Self::Score => {
                let counted: Vec<f64> =
                    responses.iter().filter(|r| r.is_scored()).map(|r| r.score).collect();
                (counted.iter().sum(), counted.len() as f64)
            }
            Self::Truncated => over_responses(&|r| share(r.truncated)),
            Self::Length => over_responses(&|r| r.tokens as f64),
            Self::Entropy => {
                let sampled = || responses.iter().filter(|r| r.tokens > 0);
                (sampled().map(|r| r.entropy).sum(), sampled().count() as f64)
            }
            Self::Faults => over_responses(&|r| share(!r.is_scored())),
            Self::Failed => over_responses(&|r| share(r.is_scored() && r.failed)),
        }
    }

    /// The number; none if the divisor is 0.
    pub fn value(self, problems: &[Vec<Outcome>]) -> Option<f64> {
        if self == Self::Majority && !votes::has_answers(problems.iter().flatten()) {
            return None;
        }
        // Entropies are added one by one and not by problem, since the order of additions decides
        // the last bits and metrics of earlier runs were added so.
        let piece = if self == Self::Entropy { 1 } else { usize::MAX };
        let pieces = problems.iter().flat_map(|responses| responses.chunks(piece));
        let (sum, count) =
            pieces.map(|p| self.of(p)).fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
        (count > 0.0).then(|| sum / count)
    }
}

/// Probability that of k responses drawn without replacement from n, c of them correct, one is
/// correct: the unbiased estimate of pass@k (Chen et al., arXiv:2107.03374, equation 1).
pub fn pass_at(n: usize, c: usize, k: usize) -> f64 {
    if n - c < k {
        return 1.0;
    }
    1.0 - (n - c + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the subsets of k responses that hold a correct one.
    #[test]
    fn pass_at_k_is_the_share_of_subsets_with_a_correct_response() {
        for n in 1..=9usize {
            for c in 0..=n {
                for k in 1..=n {
                    let subsets = (0u32..1 << n).filter(|s| s.count_ones() as usize == k);
                    let (mut all, mut good) = (0, 0);
                    for subset in subsets {
                        all += 1;
                        good += usize::from(subset & ((1 << c) - 1) != 0);
                    }
                    let expected = f64::from(good as u32) / f64::from(all);
                    assert!((pass_at(n, c, k) - expected).abs() < 1e-12, "{n} {c} {k}");
                }
            }
        }
    }

    #[test]
    fn k_takes_powers_of_two_and_the_number_of_responses() {
        assert_eq!(
            [ks(1), ks(2), ks(6), ks(8)],
            [vec![1], vec![1, 2], vec![1, 2, 4, 6], vec![1, 2, 4, 8]]
        );
    }
}
