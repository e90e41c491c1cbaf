//! The numbers that a policy loss takes of each token, and the numbers that methods may read.

use crate::{ObjectiveSettings, RunState, entropy_mask};

/// The tokens of a minibatch as losses and methods read them, each array `[tokens]`. Log-probs,
/// log-ratios and entropies are in nats.
#[derive(Clone, Copy)]
pub(crate) struct Tokens<'a> {
    /// Tokens of each response, `[responses]`.
    pub lengths: &'a [usize],
    /// log pi of the whole policy in training.
    pub logprobs: &'a [f64],
    /// log pi of the policy that acts: among the kept tokens, if sampling was truncated.
    pub acting_logprobs: &'a [f64],
    /// log pi - log pi_old of the policies that act.
    pub log_ratios: &'a [f64],
    /// Entropy of the whole policy in training.
    pub entropies: &'a [f64],
    /// Entropy of the whole policy that sampled.
    pub old_entropies: &'a [f64],
    /// [`LossTerms::entropy_slopes`](crate::LossTerms::entropy_slopes); empty where nothing needs
    /// them.
    pub entropy_slopes: &'a [f64],
    /// [`LossTerms::run`](crate::LossTerms::run).
    pub run: RunState,
}

impl Tokens<'_> {
    /// log pi_old of the policy that acted.
    pub fn old_logprob(&self, token: usize) -> f64 {
        self.acting_logprobs[token] - self.log_ratios[token]
    }
}

/// How far a ratio may go from 1 on either side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClipRange {
    /// Ratios are clipped at 1 - low.
    pub low: f64,
    /// Ratios are clipped at 1 + high.
    pub high: f64,
}

/// The policy loss's treatment of each token, each array `[tokens]`. Methods change it before the
/// loss is computed; the loss holds it constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Treatment {
    /// A.
    pub advantages: Vec<f64>,
    /// Weight of the policy term; 0 takes the term away.
    pub weights: Vec<f64>,
    pub clip: Vec<ClipRange>,
    /// Weight of the KL term to the reference model, beside its coefficient.
    pub reference_weights: Vec<f64>,
    /// A term -rho times this is added to the policy term, unclipped and unweighted.
    pub added: Vec<f64>,
    /// Metrics of the mask and the methods, besides the share of tokens that each method touched.
    pub measured: Vec<(&'static str, f64)>,
}

impl Treatment {
    /// The treatment without methods: the recipe's clip range, and the entropy mask.
    pub fn plain(settings: &ObjectiveSettings, tokens: &Tokens, advantages: &[f64]) -> Self {
        let count = advantages.len();
        let (mut weights, mut measured) = (vec![1.0; count], Vec::new());
        if let Some(fraction) = settings.entropy_mask_fraction {
            weights = entropy_mask::weights(tokens.entropies, fraction);
            let masked = weights.iter().filter(|&&weight| weight == 0.0).count();
            measured.push((entropy_mask::METRIC, masked as f64 / count.max(1) as f64));
        }
        let range = ClipRange { low: settings.clip_low, high: settings.clip_high };
        Self {
            advantages: advantages.to_vec(),
            weights,
            clip: vec![range; count],
            reference_weights: vec![1.0; count],
            added: vec![0.0; count],
            measured,
        }
    }

    /// How many tokens are treated otherwise than by this other treatment.
    pub fn differences(&self, other: &Self) -> usize {
        let differs = |&t: &usize| {
            self.advantages[t] != other.advantages[t]
                || self.weights[t] != other.weights[t]
                || self.clip[t] != other.clip[t]
                || self.reference_weights[t] != other.reference_weights[t]
                || self.added[t] != other.added[t]
        };
        (0..self.advantages.len()).filter(differs).count()
    }
}
