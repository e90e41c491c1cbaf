//! EntroPIC, entropy stabilization by proportional-integral control (arXiv:2511.15248).

use super::TokenMethod;
use crate::catalogue::{About, FREE, Kind};
use crate::treatment::{Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "EntroPIC",
    kind: Kind::Controller,
    equation: "- alpha (mean of rho |A| over tokens with pi > high_prob, under token-mean), \
               alpha = k_p e + k_i E within -1 and 1, e = mean H - target, E = sum of e over the \
               updates before",
    source: "arXiv:2511.15248; github.com/yk7333/EntroPIC",
    setting: "objective.methods.entropic",
    cost: FREE,
};
pub(super) const IS_IDLE_ON_POLICY: bool = false;

/// A term -alpha rho |A| on likely tokens, which makes better responses weigh more there and worse
/// ones less where entropy is above the target, and the other way round below. alpha = k_p e + k_i
/// E within -1 and 1; e is the mean entropy of the minibatch's tokens less the target, in nats, and
/// E the sum of e over the run's updates before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Entropic {
    /// The entropy to hold, in nats; 0.1 in the published script.
    #[schemars(range(min = 0.0, max = 20.0))]
    pub target: f64,
    /// Change of alpha per nat of the distance from the target.
    #[schemars(range(min = 0.0))]
    pub k_p: f64,
    /// Change of alpha per nat of the sum of distances.
    #[schemars(range(min = 0.0))]
    pub k_i: f64,
    /// The term is on tokens of greater probability than this.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub high_prob: f64,
}

impl Default for Entropic {
    fn default() -> Self {
        Self { target: 0.1, k_p: 1.0, k_i: 0.01, high_prob: 0.95 }
    }
}

impl Entropic {
    /// The distance from the target of an update's mean entropy, in nats. An entropy that is not
    /// finite has none.
    pub fn error(&self, mean_entropy: f64) -> f64 {
        let error = mean_entropy - self.target;
        if error.is_finite() { error } else { 0.0 }
    }
}

impl TokenMethod for Entropic {
    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment) {
        let mean = tokens.entropies.iter().sum::<f64>() / tokens.entropies.len() as f64;
        let alpha = self.k_p * self.error(mean) + self.k_i * tokens.run.entropy_error;
        let alpha = alpha.clamp(-1.0, 1.0);
        treatment.measured.push(("method/entropic/alpha", alpha));
        let least = libm::log(self.high_prob);
        let is_likely = |&t: &usize| tokens.acting_logprobs[t] > least;
        let likely: Vec<usize> = (0..tokens.logprobs.len()).filter(is_likely).collect();
        // With the weights of token-mean, the loss is a mean over all tokens, and this term is one
        // over the likely ones.
        let share = likely.len() as f64 / tokens.logprobs.len() as f64;
        for t in likely {
            treatment.added[t] += alpha * treatment.advantages[t].abs() / share;
        }
    }
}
