//! Weighted REINFORCE (arXiv:2506.01347).

use super::TokenMethod;
use crate::catalogue::{About, FREE, Kind};
use crate::treatment::{Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "W-REINFORCE, NSR",
    kind: Kind::Advantage,
    equation: "A > 0: lambda A",
    source: "arXiv:2506.01347; github.com/TianHongZXY/RLVR-Decomposed",
    setting: "objective.methods.w_reinforce",
    cost: FREE,
};
pub(super) const IS_IDLE_ON_POLICY: bool = false;

/// A > 0: lambda A. The paper's advantages are 1 and -1 without a baseline; here they are whatever
/// `objective.advantage` makes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WReinforce {
    /// Weight of better responses: 0.1 in the paper, and 0 for negative sample reinforcement (NSR)
    /// alone.
    #[schemars(range(min = 0.0))]
    pub lambda: f64,
}

impl Default for WReinforce {
    fn default() -> Self {
        Self { lambda: 0.1 }
    }
}

impl TokenMethod for WReinforce {
    fn apply(&self, _: &Tokens, treatment: &mut Treatment) {
        for advantage in treatment.advantages.iter_mut().filter(|advantage| **advantage > 0.0) {
            *advantage *= self.lambda;
        }
    }
}
