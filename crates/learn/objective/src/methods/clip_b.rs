//! Clip_B, filtering of tokens by their part in the change of entropy (arXiv:2602.03392).

use super::TokenMethod;
use crate::catalogue::{About, FREE, Kind};
use crate::treatment::{Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "Clip_B",
    kind: Kind::Weight,
    equation: "A < 0: no policy term where S - mean S < -mu std S; S = pi_old (H_old + log pi_old)",
    source: "arXiv:2602.03392; github.com/agentscope-ai/Trinity-RFT, examples/entropy",
    setting: "objective.methods.clip_b",
    cost: FREE,
};
pub(super) const IS_IDLE_ON_POLICY: bool = false;

/// No policy term for a token of a worse response whose S = pi_old (H_old + log pi_old) is more
/// than mu standard deviations below the mean over the minibatch: such tokens are unlikely in their
/// place, and entropy falls when they become less likely still.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClipB {
    /// Standard deviations below the mean; the published run's is 2.5.
    #[schemars(range(min = 0.0))]
    pub mu: f64,
}

impl Default for ClipB {
    fn default() -> Self {
        Self { mu: 2.5 }
    }
}

/// Below this standard deviation every token stays, as in the published code.
const LEAST_DEVIATION: f64 = 1e-12;

impl TokenMethod for ClipB {
    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment) {
        let share = |t: usize| {
            let logprob = tokens.old_logprob(t);
            libm::exp(logprob) * (tokens.old_entropies[t] + logprob)
        };
        let shares: Vec<f64> = (0..tokens.logprobs.len()).map(share).collect();
        let mean_of = |of: &dyn Fn(f64) -> f64| {
            shares.iter().map(|&share| of(share)).sum::<f64>() / shares.len() as f64
        };
        let mean = mean_of(&|share| share);
        let deviation = mean_of(&|share| (share - mean) * (share - mean)).sqrt();
        if deviation < LEAST_DEVIATION {
            return;
        }
        for (t, share) in shares.iter().enumerate() {
            if treatment.advantages[t] < 0.0 && share - mean < -self.mu * deviation {
                treatment.weights[t] = 0.0;
            }
        }
    }
}
