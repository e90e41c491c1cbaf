//! REPO-R, entropy-preserving advantages (arXiv:2603.11682).

use super::TokenMethod;
use crate::catalogue::{About, FREE, Kind};
use crate::treatment::{Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "REPO-R",
    kind: Kind::Advantage,
    equation: "A > 0: max(0, A (1 - zeta log pi)); A < 0: min(0, A (1 + zeta log pi))",
    source: "arXiv:2603.11682, appendix D.2; github.com/NovaSky-AI/SkyRL/pull/1896",
    setting: "objective.methods.repo_r",
    cost: FREE,
};
pub(super) const IS_IDLE_ON_POLICY: bool = false;

/// A > 0: max(0, A (1 - zeta log pi)); A < 0: min(0, A (1 + zeta log pi)), log pi held constant.
/// The log-prob stands for its distance from the mean over the vocabulary, as in the paper's
/// practical form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RepoR {
    /// How much log pi rescales advantages. Above 0 it keeps entropy up, below 0 it lowers it. The
    /// default is that of SkyRL's pull request.
    #[schemars(range(min = -1e3, max = 1e3))]
    pub zeta: f64,
}

impl Default for RepoR {
    fn default() -> Self {
        Self { zeta: 0.01 }
    }
}

impl TokenMethod for RepoR {
    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment) {
        for (advantage, logprob) in treatment.advantages.iter_mut().zip(tokens.logprobs) {
            let a = *advantage;
            if a > 0.0 {
                *advantage = (a * (1.0 - self.zeta * logprob)).max(0.0);
            } else if a < 0.0 {
                *advantage = (a * (1.0 + self.zeta * logprob)).min(0.0);
            }
        }
    }
}
