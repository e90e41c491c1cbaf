//! Entropy-based advantage shaping (arXiv:2506.14758).

use super::TokenMethod;
use crate::catalogue::{About, FREE, Kind};
use crate::treatment::{Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "Entropy-based advantage",
    kind: Kind::Advantage,
    equation: "A + min(alpha H, |A| / kappa)",
    source: "arXiv:2506.14758, equation 5",
    setting: "objective.methods.entropy_advantage",
    cost: FREE,
};
pub(super) const IS_IDLE_ON_POLICY: bool = false;

/// A + min(alpha H, |A| / kappa), H held constant. The bound leaves each advantage its sign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntropyAdvantage {
    /// Advantage per nat of entropy.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub alpha: f64,
    /// An advantage grows or shrinks by at most its kappa-th part; above 1.
    #[schemars(extend("exclusiveMinimum" = 1.0))]
    pub kappa: f64,
}

impl TokenMethod for EntropyAdvantage {
    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment) {
        for (advantage, entropy) in treatment.advantages.iter_mut().zip(tokens.entropies) {
            *advantage += (self.alpha * entropy).min(advantage.abs() / self.kappa);
        }
    }
}
