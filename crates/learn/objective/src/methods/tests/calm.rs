//! No policy term where the policy is sure of itself.

use super::TokenMethod;
use crate::catalogue::{About, FREE, Kind};
use crate::treatment::{Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "Calm",
    kind: Kind::Weight,
    equation: "no policy term where H < least",
    source: "arXiv:0000.00000",
    setting: "objective.methods.calm",
    cost: FREE,
};
pub(super) const IS_IDLE_ON_POLICY: bool = false;

/// No policy term where H < least.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calm {
    /// Least entropy, in nats.
    #[schemars(range(min = 0.0))]
    pub least: f64,
}

impl TokenMethod for Calm {
    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment) {
        for (weight, &entropy) in treatment.weights.iter_mut().zip(tokens.entropies) {
            if entropy < self.least {
                *weight = 0.0;
            }
        }
    }
}
