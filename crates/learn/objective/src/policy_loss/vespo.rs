//! VESPO, variational sequence-level soft policy optimization (arXiv:2602.10693).

use super::{Term, ratio};
use crate::catalogue::{About, FREE, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "VESPO",
    kind: Kind::Loss,
    equation: "-sg(w^k exp(lambda (1 - w))) A log pi, w = exp(sum of log rho over the response); \
               k and lambda by the sign of A",
    source: "arXiv:2602.10693; github.com/FloyedShen/VESPO",
    setting: "objective.loss = \"vespo\"",
    cost: FREE,
};

/// The loss `vespo`: -phi(w) A log pi with phi(w) = w^k exp(lambda (1 - w)) held constant; w is the
/// ratio of the whole response. phi(1) = 1, and phi is largest where w = k / lambda.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Vespo {
    /// Power of w where A >= 0; 2 in the authors' scripts and TRL.
    #[schemars(range(min = 0.0))]
    pub k_pos: f64,
    /// Decay by w where A >= 0; 3 in the authors' scripts and TRL.
    #[schemars(range(min = 1e-4))]
    pub lambda_pos: f64,
    /// Power of w where A < 0; 3 in the authors' scripts and TRL.
    #[schemars(range(min = 0.0))]
    pub k_neg: f64,
    /// Decay by w where A < 0; 2 in the authors' scripts and TRL.
    #[schemars(range(min = 1e-4))]
    pub lambda_neg: f64,
}

impl Default for Vespo {
    fn default() -> Self {
        Self { k_pos: 2.0, lambda_pos: 3.0, k_neg: 3.0, lambda_neg: 2.0 }
    }
}

/// The response's ratio stays within this and e^20, as in TRL.
const LEAST_RATIO: f64 = 1e-8;
/// Largest logarithm of the response's ratio, and of a token's in its sum, as in TRL.
const MAX_LOG_RATIO: f64 = 20.0;

impl Vespo {
    /// The terms of a response's tokens, from their log-ratios, log-probs and advantages.
    pub(super) fn terms(
        &self,
        log_ratios: &[f64],
        logprobs: &[f64],
        advantages: &[f64],
    ) -> Vec<Term> {
        let sum: f64 = log_ratios.iter().map(|d| d.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)).sum();
        let log_ratio = sum.clamp(libm::log(LEAST_RATIO), MAX_LOG_RATIO);
        let phi =
            |k: f64, lambda: f64| libm::exp(k * log_ratio + lambda * (1.0 - ratio(log_ratio)));
        let (better, worse) = (phi(self.k_pos, self.lambda_pos), phi(self.k_neg, self.lambda_neg));
        let term = |(&logprob, &advantage): (&f64, &f64)| {
            let slope = -advantage * if advantage >= 0.0 { better } else { worse };
            Term { value: slope * logprob, slope, clipped: None }
        };
        logprobs.iter().zip(advantages).map(term).collect()
    }
}
