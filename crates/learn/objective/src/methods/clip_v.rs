//! Clip_V, filtering of tokens by their exact part in the change of entropy (arXiv:2602.03392).

use super::TokenMethod;
use crate::catalogue::{About, Kind};
use crate::treatment::{Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "Clip_V",
    kind: Kind::Weight,
    equation: "A < 0: no policy term where D > mu std D, the largest D first and at most \
               max_fraction of the tokens; D = N - S, S = pi (H + log pi), N = sum over the \
               vocabulary of pi S, before the step's first update",
    source: "arXiv:2602.03392; github.com/pan-x-c/Trinity-RFT, examples/entropy",
    setting: "objective.methods.clip_v",
    cost: "one forward pass a step",
};
pub(super) const IS_IDLE_ON_POLICY: bool = false;

/// No policy term for a token of a worse response whose D = N - S is more than mu standard
/// deviations above 0: S = pi (H + log pi) of the token, N the sum over the vocabulary of pi S. D
/// is the slope of the entropy in the token's place along the gradient of its log-prob, so that
/// entropy falls by it when the token becomes less likely. It is computed before the first update
/// of a step, and the deviation is over the minibatch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClipV {
    /// Standard deviations above 0; the published run's is 8.5.
    #[schemars(range(min = 0.0))]
    pub mu: f64,
    /// At most this fraction of the minibatch's tokens is dropped, one token at least; the
    /// published code's is 1e-4.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_fraction: f64,
}

impl Default for ClipV {
    fn default() -> Self {
        Self { mu: 8.5, max_fraction: 1e-4 }
    }
}

/// Below this standard deviation every token stays, as in the published code.
const LEAST_DEVIATION: f64 = 1e-12;

impl TokenMethod for ClipV {
    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment) {
        let slopes = tokens.entropy_slopes;
        let count = slopes.len() as f64;
        let mean = slopes.iter().sum::<f64>() / count;
        let squares: f64 = slopes.iter().map(|slope| (slope - mean) * (slope - mean)).sum();
        let deviation = (squares / count).sqrt();
        if deviation < LEAST_DEVIATION {
            return;
        }
        let is_dropped =
            |&t: &usize| treatment.advantages[t] < 0.0 && slopes[t] > self.mu * deviation;
        let mut dropped: Vec<usize> = (0..slopes.len()).filter(is_dropped).collect();
        dropped.sort_by(|&a, &b| slopes[b].total_cmp(&slopes[a]));
        dropped.truncate(((self.max_fraction * count) as usize).max(1));
        for t in dropped {
            treatment.weights[t] = 0.0;
        }
    }
}
