//! Covariances of tokens, and the tokens that Clip-Cov and KL-Cov pick by them (arXiv:2505.22617,
//! section 4).

use crate::covariance::{Covariance, Method, Pick};
use crate::objective::Minibatch;
use isentrope_random::{Draws, Purpose};
use std::ops::Range;

/// The coordinates of random draws of tokens: equal coordinates draw equal tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawKey {
    /// The run's seed.
    pub seed: u64,
    /// The rollout step.
    pub step: u64,
    /// The optimizer update within the step; below 2^32.
    pub update: u64,
}

impl DrawKey {
    /// The update's number is the upper half of the coordinate, and the part's the lower half.
    /// Another layout would change the draws of existing recipes.
    fn draws(self, part: usize) -> Draws {
        Draws::of(self.seed, Purpose::ClipCov, self.step, (self.update << 32) + part as u64)
    }
}

/// Covariances, and their two factors, each `[tokens]`.
pub(crate) struct Covariances {
    pub values: Vec<f64>,
    pub centred_logprobs: Vec<f64>,
    pub centred_advantages: Vec<f64>,
    pub mean_logprob: f64,
    pub mean_advantage: f64,
}

impl Covariances {
    /// Covariances centred over all tokens of one optimizer minibatch, whatever passes it was
    /// computed in. The mean of equal numbers need not be that number to the last bit, so that
    /// covariances of equal advantages may be of the size of rounding.
    pub fn of(logprobs: &[f64], advantages: &[f64]) -> Self {
        let centred = |values: &[f64]| -> (Vec<f64>, f64) {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (values.iter().map(|v| v - mean).collect(), mean)
        };
        let (centred_logprobs, mean_logprob) = centred(logprobs);
        let (centred_advantages, mean_advantage) = centred(advantages);
        let values = centred_logprobs.iter().zip(&centred_advantages).map(|(l, a)| l * a).collect();
        Self { values, centred_logprobs, centred_advantages, mean_logprob, mean_advantage }
    }
}

/// The tokens that a method picked.
#[derive(Default)]
pub(crate) struct Selection {
    /// In ascending order.
    pub tokens: Vec<usize>,
    /// The number of tokens that could be picked.
    pub eligible: usize,
}

impl Selection {
    /// Picks a fraction of the tokens by their covariances, in each part that the scope makes of
    /// the responses. Silenced tokens have no policy gradient that Clip-Cov could remove.
    pub fn of(
        settings: &Covariance,
        fraction: f64,
        batch: &Minibatch,
        all: &Covariances,
        silenced: &[bool],
    ) -> Self {
        let mut selection = Self::default();
        if settings.method == Method::None {
            return selection;
        }
        for (number, part) in parts(settings.scope_responses, batch.lengths).into_iter().enumerate()
        {
            let own = settings.scope_responses.map(|_| {
                Covariances::of(&batch.logprobs[part.clone()], &batch.advantages[part.clone()])
            });
            let scores = own.as_ref().unwrap_or(all);
            let draws = batch.terms.key.draws(number);
            let (eligible, tokens) =
                pick(settings, fraction, scores, &silenced[part.clone()], draws);
            selection.eligible += eligible;
            selection.tokens.extend(tokens.into_iter().map(|token| part.start + token));
        }
        selection.tokens.sort_unstable();
        selection
    }
}

/// The tokens of each part of the minibatch. A part has `responses` responses, or all if that is
/// unset; parts without tokens are left out.
fn parts(responses: Option<usize>, lengths: &[usize]) -> Vec<Range<usize>> {
    let parts = lengths.chunks(responses.unwrap_or(lengths.len()).max(1)).scan(0, |end, part| {
        let start = *end;
        *end += part.iter().sum::<usize>();
        Some(start..*end)
    });
    parts.filter(|tokens| !tokens.is_empty()).collect()
}

/// The number of tokens that may be picked by these covariances, and the picked ones, in no
/// particular order.
fn pick(
    settings: &Covariance,
    fraction: f64,
    scores: &Covariances,
    silenced: &[bool],
    mut draws: Draws,
) -> (usize, Vec<usize>) {
    let covariances = &scores.values;
    let count = count(fraction, covariances.len());
    let all = 0..covariances.len();
    if settings.method == Method::ClipCov {
        let in_band = |&t: &usize| covariances[t] > settings.low && covariances[t] < settings.high;
        let eligible: Vec<usize> = all.filter(in_band).filter(|&t| !silenced[t]).collect();
        let drawn = draws.choose(eligible.len(), count);
        (eligible.len(), drawn.into_iter().map(|i| eligible[i]).collect())
    } else if settings.pick == Pick::Random {
        (all.len(), draws.choose(all.len(), count))
    } else {
        // A positive covariance has log pi and A on one side of their means.
        let is_of =
            |side: f64, t: usize| covariances[t] > 0.0 && side * scores.centred_advantages[t] > 0.0;
        let side = settings.pick.side();
        let eligible: Vec<usize> =
            all.filter(|&t| side.is_none_or(|side| is_of(side, t))).collect();
        (eligible.len(), largest(covariances, eligible, count))
    }
}

/// The number of tokens in a fraction of n: rounded down, at least one, at most all.
pub(crate) fn count(fraction: f64, n: usize) -> usize {
    ((fraction * n as f64) as usize).max(1).min(n)
}

/// The `count` tokens of largest covariance, in no particular order; of equal ones the earlier.
fn largest(covariances: &[f64], mut tokens: Vec<usize>, count: usize) -> Vec<usize> {
    if count < tokens.len() {
        tokens.select_nth_unstable_by(count, |&a, &b| {
            covariances[b].total_cmp(&covariances[a]).then(a.cmp(&b))
        });
        tokens.truncate(count);
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scores(values: &[f64]) -> Covariances {
        let none = Vec::new;
        Covariances {
            values: values.to_vec(),
            centred_logprobs: none(),
            centred_advantages: none(),
            mean_logprob: 0.0,
            mean_advantage: 0.0,
        }
    }

    proptest! {
        #[test]
        fn the_largest_are_those_of_a_stable_sort(
            // Few different values, so that there are ties.
            values in prop::collection::vec((-4i32..4).prop_map(f64::from), 1..60),
            fraction in 0.0f64..1.0,
        ) {
            let count = count(fraction, values.len());
            let mut chosen = largest(&values, (0..values.len()).collect(), count);
            chosen.sort_unstable();
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
            order.truncate(count);
            order.sort_unstable();
            prop_assert_eq!(chosen, order);
        }

        #[test]
        fn clip_cov_draws_within_the_band_and_never_silenced_tokens(
            values in prop::collection::vec(-3.0f64..9.0, 1..80),
            silent in prop::collection::vec(any::<bool>(), 80),
            fraction in 0.001f64..1.0,
            seed in any::<u64>(),
        ) {
            let settings = Covariance { method: Method::ClipCov, ..Default::default() };
            let key = DrawKey { seed, step: 3, update: 1 };
            let n = values.len();
            let scores = scores(&values);
            let (count, mut tokens) = pick(&settings, fraction, &scores, &silent[..n], key.draws(0));
            tokens.sort_unstable();
            let eligible = (0..n).filter(|&t| values[t] > 1.0 && values[t] < 5.0 && !silent[t]).count();
            prop_assert_eq!(count, eligible);
            prop_assert_eq!(tokens.len(), eligible.min(((fraction * n as f64).floor() as usize).max(1)));
            prop_assert!(tokens.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(tokens.iter().all(|&t| values[t] > 1.0 && values[t] < 5.0 && !silent[t]));
        }
    }

    /// In a micro-batch of one response the choice means nothing (docs/concepts/entropy.md).
    #[test]
    fn of_equal_advantages_rounding_decides() {
        let picked = |advantage: f64| {
            let scores = Covariances::of(&[-1.0, -0.5, -3.0], &[advantage; 3]);
            largest(&scores.values, vec![0, 1, 2], 1)
        };
        assert_eq!(picked(0.1), [2], "their mean is above them in the last bit: the least likely");
        assert_eq!(picked(1.0), [0], "all are 0: the first that is likelier than the mean");
    }

    #[test]
    fn clip_cov_draws_every_eligible_token_as_often_and_by_its_key() {
        let settings = Covariance { method: Method::ClipCov, ..Default::default() };
        let values = [2.0, 0.0, 3.0, 4.0, 9.0, 2.0, -2.0, 3.0, 0.5, 1.5];
        let mut counts = [0u32; 10];
        for step in 0..6000 {
            let key = DrawKey { seed: 5, step, update: 0 };
            for t in pick(&settings, 0.2, &scores(&values), &[false; 10], key.draws(0)).1 {
                counts[t] += 1;
            }
        }
        // Two of six eligible tokens each time: 2000 +- 5 standard deviations of 37.
        for (t, &n) in counts.iter().enumerate() {
            let eligible = values[t] > 1.0 && values[t] < 5.0;
            assert!(if eligible { (1815..2185).contains(&n) } else { n == 0 }, "{counts:?}");
        }
    }

    #[test]
    fn at_random_covariance_has_no_part() {
        let settings =
            Covariance { method: Method::KlCov, pick: Pick::Random, ..Default::default() };
        let mut counts = [0u32; 4];
        for step in 0..6000 {
            let key = DrawKey { seed: 5, step, update: 0 };
            let (eligible, tokens) =
                pick(&settings, 0.5, &scores(&[9.0, 0.0, 3.0, -4.0]), &[true; 4], key.draws(0));
            assert_eq!((eligible, tokens.len()), (4, 2));
            tokens.into_iter().for_each(|t| counts[t] += 1);
        }
        // Two of four each time: 3000 +- 5 standard deviations of 39.
        assert!(counts.iter().all(|n| n.abs_diff(3000) < 195), "{counts:?}");
    }

    #[test]
    fn each_side_has_its_own_largest_of_positive_covariance() {
        // Likely and unlikely tokens of a better response, then of a worse one.
        let scores = Covariances::of(
            &[-0.5, -0.1, -4.0, -0.2, -3.0, -6.0],
            &[2.0, 2.0, 2.0, -1.0, -1.0, -1.0],
        );
        let picked = |pick_of: Pick, fraction: f64| {
            let settings =
                Covariance { method: Method::KlCov, pick: pick_of, ..Default::default() };
            let (eligible, mut tokens) =
                pick(&settings, fraction, &scores, &[false; 6], DrawKey::default().draws(0));
            tokens.sort_unstable();
            (eligible, tokens)
        };
        assert_eq!(picked(Pick::Better, 0.2), (2, vec![1]));
        assert_eq!(picked(Pick::Better, 1.0), (2, vec![0, 1]), "no more than there are");
        assert_eq!(picked(Pick::Worse, 0.2), (2, vec![5]));
        assert_eq!(picked(Pick::Worse, 1.0), (2, vec![4, 5]));
        assert_eq!(picked(Pick::Largest, 0.5), (6, vec![0, 1, 5]));
    }

    #[test]
    fn updates_and_parts_draw_apart() {
        let key = DrawKey { seed: 1, step: 2, update: 3 };
        let permutation = |key: DrawKey, part| key.draws(part).permutation(50);
        assert_eq!(permutation(key, 0), permutation(key, 0));
        for next in
            [DrawKey { seed: 2, ..key }, DrawKey { step: 3, ..key }, DrawKey { update: 4, ..key }]
        {
            assert_ne!(permutation(key, 0), permutation(next, 0));
        }
        assert_ne!(permutation(key, 0), permutation(key, 1));
    }

    #[test]
    fn parts_are_of_whole_responses_and_all_of_them() {
        let lengths = [3, 0, 2, 4, 1];
        let ends = |responses, lengths| -> Vec<(usize, usize)> {
            parts(responses, lengths).into_iter().map(|tokens| (tokens.start, tokens.end)).collect()
        };
        assert_eq!(ends(None, &lengths[..]), [(0, 10)]);
        assert_eq!(ends(Some(2), &lengths), [(0, 3), (3, 9), (9, 10)]);
        assert_eq!(
            ends(Some(1), &lengths),
            [(0, 3), (3, 5), (5, 9), (9, 10)],
            "of no tokens none are picked"
        );
        assert_eq!(ends(Some(9), &lengths), [(0, 10)]);
        assert_eq!(ends(None, &[]), []);
    }

    #[test]
    fn counts_round_down_to_one_at_least() {
        assert_eq!(
            [count(2e-4, 8192), count(2e-4, 20), count(0.2, 13), count(1.0, 7)],
            [1, 1, 2, 7]
        );
        assert_eq!(count(0.5, 0), 0);
    }
}
