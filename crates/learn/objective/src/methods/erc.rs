//! ERC, entropy ratio clipping (arXiv:2512.05591).

use super::TokenMethod;
use crate::catalogue::{About, FREE, Kind};
use crate::treatment::{Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "ERC",
    kind: Kind::Weight,
    equation: "no policy term unless low < H / H_old < high",
    source: "arXiv:2512.05591; github.com/Kwai-Klear/ERC",
    setting: "objective.methods.erc",
    cost: FREE,
};
pub(super) const IS_IDLE_ON_POLICY: bool = true;

/// No policy term for a token unless low < H / H_old < high, H_old the entropy in its place when it
/// was sampled. The published code keeps the value of such a token's loss and not its gradient;
/// here neither counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Erc {
    /// Lower bound of the ratio, below 1; the published runs' is 0.95.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub low: f64,
    /// Upper bound of the ratio, above 1; the published runs' is 1.05.
    #[schemars(extend("exclusiveMinimum" = 1.0))]
    pub high: f64,
}

impl Default for Erc {
    fn default() -> Self {
        Self { low: 0.95, high: 1.05 }
    }
}

/// Added to both entropies, as in the published code.
const EPSILON: f64 = 1e-8;

impl TokenMethod for Erc {
    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment) {
        let entropies = tokens.entropies.iter().zip(tokens.old_entropies);
        for (weight, (now, old)) in treatment.weights.iter_mut().zip(entropies) {
            let ratio = (now + EPSILON) / (old + EPSILON);
            if ratio <= self.low || ratio >= self.high {
                *weight = 0.0;
            }
        }
    }
}
