//! Estimators of the KL divergence from one log-ratio per token (Schulman 2020, "Approximating KL
//! divergence").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An estimate of KL(pi || other) in nats at a token drawn from pi, from d = log pi - log other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KlEstimator {
    /// |d|, the published KL-Cov code's. Not an estimate of the divergence, and without gradient
    /// where d = 0.
    Abs,
    /// d: unbiased, of either sign; its gradient does not depend on d, so it is an estimate and no
    /// penalty.
    K1,
    /// d^2 / 2: biased, small variance; its gradient estimates the divergence's.
    K2,
    /// exp(-d) + d - 1, at most 10: unbiased and never negative; GRPO's.
    K3,
}

/// Log-ratios are clamped to this distance from 0 before they are exponentiated, as in the
/// reference.
pub(crate) const MAX_LOG_RATIO: f64 = 20.0;
/// The largest value of k3, as in the reference.
const MAX_K3: f64 = 10.0;

impl KlEstimator {
    /// Every estimator.
    pub const ALL: [Self; 4] = [Self::Abs, Self::K1, Self::K2, Self::K3];

    /// The estimate and its derivative by log pi. At d = 0 the derivative of `abs` is exactly 0.
    pub(crate) fn value_and_slope(self, d: f64) -> (f64, f64) {
        match self {
            Self::Abs => (d.abs(), if d == 0.0 { 0.0 } else { d.signum() }),
            Self::K1 => (d, 1.0),
            Self::K2 => (0.5 * d * d, d),
            Self::K3 => {
                let clamped = d.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO);
                let inverse = libm::exp(-clamped);
                let value = inverse + clamped - 1.0;
                if value > MAX_K3 { (MAX_K3, 0.0) } else { (value, 1.0 - inverse) }
            }
        }
    }

    /// Whether the derivative vanishes where both policies agree.
    pub fn is_flat_at_zero(self) -> bool {
        self.value_and_slope(0.0).1 == 0.0
    }
}

/// A penalty on the divergence from the reference model, the one that training started from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReferenceKl {
    /// Weight of the penalty in the loss; 0 switches it off, and then no reference model is loaded.
    /// It holds entropy but costs accuracy (arXiv:2505.22617); GRPO's first paper took 0.04.
    #[schemars(range(min = 0.0))]
    pub coefficient: f64,
    /// Estimator of the divergence, from d = log pi - log pi of the reference; k3 is GRPO's. Not k1
    /// where `rollout.top_k`, `top_p` or `min_p` truncates sampling: it would drain the tokens that
    /// can be drawn.
    pub estimator: KlEstimator,
}

impl Default for ReferenceKl {
    fn default() -> Self {
        Self { coefficient: 0.0, estimator: KlEstimator::K3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overflows_and_agreement_is_flat_except_for_k1() {
        for estimator in KlEstimator::ALL {
            for d in [-1e9, 1e9, -745.0] {
                let (value, slope) = estimator.value_and_slope(d);
                assert!(value.is_finite() && slope.is_finite());
            }
            assert_eq!(estimator.value_and_slope(0.0).0, 0.0);
            assert_eq!(estimator.is_flat_at_zero(), estimator != KlEstimator::K1);
        }
        assert_eq!(KlEstimator::K3.value_and_slope(-50.0), (10.0, 0.0));
    }
}
