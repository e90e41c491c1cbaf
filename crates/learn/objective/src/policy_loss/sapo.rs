//! SAPO, soft adaptive policy optimization (arXiv:2511.20347).

use super::{Ratio, Term};
use crate::catalogue::{About, FREE, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "SAPO",
    kind: Kind::Loss,
    equation: "-(4 / tau) sigmoid(tau (rho - 1)) A, tau = tau_pos if A > 0, else tau_neg",
    source: "arXiv:2511.20347",
    setting: "objective.loss = \"sapo\"",
    cost: FREE,
};

/// The loss `sapo`: -(4 / tau) sigmoid(tau (rho - 1)) A. Its gradient is the unclipped one where
/// rho = 1, and fades with the distance of rho from 1, the faster the larger tau.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sapo {
    /// tau of tokens with A > 0; the paper's is 1.
    #[schemars(extend("exclusiveMinimum" = 0.0), range(max = 1e6))]
    pub tau_pos: f64,
    /// tau of the others. The paper's is 1.05: the gradients of worse responses, which spread over
    /// the vocabulary, fade a little faster.
    #[schemars(extend("exclusiveMinimum" = 0.0), range(max = 1e6))]
    pub tau_neg: f64,
}

impl Default for Sapo {
    fn default() -> Self {
        Self { tau_pos: 1.0, tau_neg: 1.05 }
    }
}

impl Sapo {
    pub(super) fn term(&self, ratio: Ratio, advantage: f64) -> Term {
        let tau = if advantage > 0.0 { self.tau_pos } else { self.tau_neg };
        let gate = 1.0 / (1.0 + libm::exp(-tau * (ratio.value - 1.0)));
        let slope = -advantage * 4.0 * gate * (1.0 - gate) * ratio.value;
        Term {
            value: -advantage * gate * 4.0 / tau,
            slope: if ratio.is_limited { 0.0 } else { slope },
            clipped: None,
        }
    }
}
