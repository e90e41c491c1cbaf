//! Covariances of tokens, and the tokens that Clip-Cov and KL-Cov pick by them (arXiv:2505.22617, section 4).

use crate::controller::{ControllerSettings, Steer};
use crate::error::{Result, refuse, require};
use crate::{KlEstimator, TargetEntropy};
use isentrope_random::{Draws, Purpose};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is done about tokens of large covariance
/// Cov_t = (log pi_t - mean log pi) (A_t - mean A), means over the tokens of the minibatch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Covariance {
    /// What is done about tokens of large covariance; statistics of it are reported in any case.
    pub method: Method,
    /// Tokens picked, as a fraction of all tokens, above 0 and at most 1 (not a percentage); rounded down, but one token
    /// at least. Unset: the paper's, 2e-4 for clip-cov and 2e-3 for kl-cov (that is for 7B models; for 32B it is 2e-4).
    pub fraction: Option<f64>,
    /// Clip-Cov draws among tokens whose covariance is above this, in nats; the paper's is 1.
    pub low: f64,
    /// Clip-Cov draws among tokens whose covariance is below this, in nats; the paper's is 5.
    pub high: f64,
    /// KL-Cov's penalty, from d = log pi - log pi_old. All but k1 have no gradient while the policy is the one that
    /// sampled, so KL-Cov needs several updates per rollout.
    pub kl: KlEstimator,
    /// Weight of KL-Cov's penalty, above 0; the paper's is 1.
    pub coefficient: f64,
    /// Entropy to hold, in nats, by steering `fraction` (or `coefficient`) from step to step (docs/autopilot.md): a number, a
    /// fraction of the entropy that the run begins with, or a schedule. Unset: nothing is steered.
    pub target_entropy: Option<TargetEntropy>,
    /// How `target_entropy` is held: a proportional-integral controller on logarithms.
    pub controller: ControllerSettings,
}

impl Default for Covariance {
    fn default() -> Self {
        Self {
            method: Method::None,
            fraction: None,
            low: 1.0,
            high: 5.0,
            kl: KlEstimator::Abs,
            coefficient: 1.0,
            target_entropy: None,
            controller: ControllerSettings::default(),
        }
    }
}

/// What is done about tokens of large covariance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Nothing.
    #[default]
    None,
    /// A fraction of the tokens, drawn uniformly from those within a band of covariances that ratio clipping has left
    /// a gradient, loses its policy-gradient term. The published runs widen ratio clipping to 1 and 1 beside it.
    ClipCov,
    /// The tokens of largest covariance are penalised for moving away from the policy that sampled them. The
    /// published runs have no ratio clipping beside it: loss = "importance".
    KlCov,
}

impl Covariance {
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(fraction) = self.fraction {
            require(
                fraction > 0.0 && fraction <= 1.0,
                "objective.covariance.fraction",
                fraction,
                "it must be a fraction of the tokens above 0 and at most 1 (0.2 % is 0.002); to switch the term off \
                 set objective.covariance.method to \"none\"",
            )?;
        }
        let finite = |key, value: f64| require(value.is_finite(), key, value, "it must be a finite number");
        finite("objective.covariance.low", self.low)?;
        finite("objective.covariance.high", self.high)?;
        require(
            self.low < self.high,
            "objective.covariance.low",
            self.low,
            "it must be below objective.covariance.high",
        )?;
        require(
            self.coefficient.is_finite() && self.coefficient > 0.0,
            "objective.covariance.coefficient",
            self.coefficient,
            "it must be above 0; to switch the term off set objective.covariance.method to \"none\"",
        )?;
        self.check_target()
    }

    fn check_target(&self) -> Result<()> {
        let key = "objective.covariance.target_entropy";
        let Some(target) = &self.target_entropy else { return Ok(()) };
        target.check(key)?;
        if self.method == Method::None {
            return refuse(
                key,
                target,
                "it is held through a covariance method, and objective.covariance.method is \"none\"; set it to \"clip-cov\" or \
                 \"kl-cov\", or set objective.entropy_bonus.target instead",
            );
        }
        self.controller.check(self)
    }

    /// How strongly the method acts as the settings say.
    pub fn strength(&self) -> Strength {
        Strength { fraction: self.resolved_fraction().unwrap_or(0.0), coefficient: self.coefficient }
    }

    /// The fraction, or the method's default where none is set; nothing without a method.
    pub fn resolved_fraction(&self) -> Option<f64> {
        match self.method {
            Method::None => None,
            Method::ClipCov => Some(self.fraction.unwrap_or(2e-4)),
            Method::KlCov => Some(self.fraction.unwrap_or(2e-3)),
        }
    }
}

/// How strongly a covariance method acts in an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strength {
    /// Tokens picked, as a fraction of all tokens; without a method, none are.
    pub fraction: f64,
    /// Weight of KL-Cov's penalty.
    pub coefficient: f64,
}

impl Strength {
    /// What a controller steers of it.
    pub fn steered(&self, steer: Steer) -> f64 {
        match steer {
            Steer::Fraction => self.fraction,
            Steer::Coefficient => self.coefficient,
        }
    }

    /// As [`steered`](Self::steered), to be moved.
    pub fn steered_mut(&mut self, steer: Steer) -> &mut f64 {
        match steer {
            Steer::Fraction => &mut self.fraction,
            Steer::Coefficient => &mut self.coefficient,
        }
    }
}

/// The coordinates of Clip-Cov's random draws: equal coordinates draw equal tokens.
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
    /// The update takes the upper half of its coordinate: anywhere else, the same recipe would draw other tokens.
    fn draws(self) -> Draws {
        Draws::of(self.seed, Purpose::ClipCov, self.step, self.update << 32)
    }
}

/// Covariances, and what they are products of, each `[tokens]`.
pub(crate) struct Scores {
    pub values: Vec<f64>,
    pub centred_logprobs: Vec<f64>,
    pub centred_advantages: Vec<f64>,
    pub mean_logprob: f64,
    pub mean_advantage: f64,
}

impl Scores {
    /// Covariances centred over all tokens: those of one optimizer minibatch, whatever passes it was computed in.
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
    /// How many tokens they were picked from.
    pub eligible: usize,
}

impl Selection {
    /// Picks a fraction of the tokens by their covariances. Silenced tokens have no policy gradient that Clip-Cov could take.
    pub fn of(
        settings: &Covariance,
        fraction: f64,
        covariances: &[f64],
        silenced: &[bool],
        key: DrawKey,
    ) -> Self {
        if settings.method == Method::None {
            return Self::default();
        }
        let count = count(fraction, covariances.len());
        let all = 0..covariances.len();
        let (eligible, mut tokens) = if settings.method == Method::ClipCov {
            let in_band = |&t: &usize| covariances[t] > settings.low && covariances[t] < settings.high;
            let eligible: Vec<usize> = all.filter(in_band).filter(|&t| !silenced[t]).collect();
            let drawn = key.draws().choose(eligible.len(), count);
            (eligible.len(), drawn.into_iter().map(|i| eligible[i]).collect())
        } else {
            (all.len(), largest(covariances, all.collect(), count))
        };
        tokens.sort_unstable();
        Self { tokens, eligible }
    }
}

/// Tokens that a fraction of n amounts to: rounded down, one at least, all at most.
pub(crate) fn count(fraction: f64, n: usize) -> usize {
    ((fraction * n as f64) as usize).max(1).min(n)
}

/// The `count` tokens of largest covariance, in no particular order; among equals those that come first.
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
            let selection = Selection::of(&settings, fraction, &values, &silent[..n], key);
            let eligible = (0..n).filter(|&t| values[t] > 1.0 && values[t] < 5.0 && !silent[t]).count();
            prop_assert_eq!(selection.eligible, eligible);
            prop_assert_eq!(selection.tokens.len(), eligible.min(((fraction * n as f64).floor() as usize).max(1)));
            prop_assert!(selection.tokens.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(selection.tokens.iter().all(|&t| values[t] > 1.0 && values[t] < 5.0 && !silent[t]));
        }
    }

    #[test]
    fn clip_cov_draws_every_eligible_token_as_often_and_by_its_key() {
        let settings = Covariance { method: Method::ClipCov, ..Default::default() };
        let values = [2.0, 0.0, 3.0, 4.0, 9.0, 2.0, -2.0, 3.0, 0.5, 1.5];
        let mut counts = [0u32; 10];
        for step in 0..6000 {
            let key = DrawKey { seed: 5, step, update: 0 };
            for t in Selection::of(&settings, 0.2, &values, &[false; 10], key).tokens {
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
    fn updates_draw_apart() {
        let key = DrawKey { seed: 1, step: 2, update: 3 };
        let next = DrawKey { update: 4, ..key };
        let permutation = |key: DrawKey| key.draws().permutation(50);
        assert_eq!(permutation(key), permutation(key));
        assert_ne!(permutation(key), permutation(next));
    }

    #[test]
    fn counts_round_down_to_one_at_least() {
        assert_eq!([count(2e-4, 8192), count(2e-4, 20), count(0.2, 13), count(1.0, 7)], [1, 1, 2, 7]);
        assert_eq!(count(0.5, 0), 0);
    }
}
