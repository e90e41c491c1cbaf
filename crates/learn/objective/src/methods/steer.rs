//! STEER, stabilizing token-level entropy change via reweighting (arXiv:2510.10150).

use super::TokenMethod;
use crate::catalogue::{About, FREE, Kind};
use crate::treatment::{Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "STEER",
    kind: Kind::Weight,
    equation: "w = exp(-k |Omega|), Omega = (A / pi_old) pi (1 - pi) (log pi + H), \
               k = -ln(weight_min) / max(max |Omega|, 0.02)",
    source: "arXiv:2510.10150; github.com/zz-haooo/STEER",
    setting: "objective.methods.steer",
    cost: FREE,
};
pub(super) const IS_IDLE_ON_POLICY: bool = false;

/// Weights exp(-k |Omega|) from 1 down to `weight_min`, which the token of the minibatch that would
/// change entropy most has. Omega = (A / pi_old) pi (1 - pi) (log pi + H) estimates the change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SteerWeights {
    /// The least weight, lambda_min; the published runs' is 0.8. Below 1.
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub weight_min: f64,
}

impl Default for SteerWeights {
    fn default() -> Self {
        Self { weight_min: 0.8 }
    }
}

/// Probabilities stay this far from 0 and 1, as in the published code.
const MARGIN: f64 = 1e-8;
/// The largest |Omega| counts as this at least, as in the published code.
const LEAST_LARGEST: f64 = 0.02;

impl TokenMethod for SteerWeights {
    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment) {
        let change = |t: usize| {
            let old = libm::exp(tokens.old_logprob(t)).clamp(MARGIN, 1.0);
            let pi = libm::exp(tokens.acting_logprobs[t]).clamp(MARGIN, 1.0 - MARGIN);
            let to_entropy = pi * (1.0 - pi) * (libm::log(pi) + tokens.entropies[t]);
            (treatment.advantages[t] / old * to_entropy).abs()
        };
        let changes: Vec<f64> = (0..tokens.logprobs.len()).map(change).collect();
        let largest = changes.iter().copied().fold(LEAST_LARGEST, f64::max);
        let rate = -libm::log(self.weight_min) / largest;
        for (weight, change) in treatment.weights.iter_mut().zip(changes) {
            *weight *= libm::exp(-rate * change).clamp(self.weight_min, 1.0);
        }
    }
}
