//! QAE, quantile advantage estimation (arXiv:2509.22611).

use crate::catalogue::{About, FREE, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) const ABOUT: About = About {
    name: "QAE",
    kind: Kind::Advantage,
    equation: "A = (r - Q) / (std r + 1e-6) over the responses to a prompt, Q = inf {x: F(x) >= \
               quantile}, F(x) the share of rewards up to x",
    source: "arXiv:2509.22611",
    setting: "objective.advantage = \"qae\"",
    cost: FREE,
};

/// The baseline of the advantage `qae`. With rewards 0 and 1 and a share p of right responses, it
/// is 0 where p <= 1 - quantile, so that only right responses are learnt from, and 1 elsewhere, so
/// that only wrong ones are. (The published code interpolates between the two rewards that are next
/// to the quantile, where the paper takes the larger.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Qae {
    /// K, between 0 and 1: 0.4 in the published runs. The larger it is, the more prompts learn from
    /// wrong responses alone, which keeps more entropy.
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub quantile: f64,
}

impl Default for Qae {
    fn default() -> Self {
        Self { quantile: 0.4 }
    }
}

impl Qae {
    /// The least of the rewards that at least a share `quantile` of them does not exceed; 0 if
    /// there are none.
    pub(crate) fn baseline(&self, rewards: &[f64]) -> f64 {
        let mut ascending = rewards.to_vec();
        ascending.sort_unstable_by(f64::total_cmp);
        let count = ascending.len() as f64;
        // A quotient is rounded as the recipe's number is, so that 0.4 of 5 rewards are 2.
        let reaches = |&(index, _): &(usize, &f64)| (index + 1) as f64 / count >= self.quantile;
        ascending.iter().enumerate().find(reaches).map_or(0.0, |(_, &reward)| reward)
    }
}
