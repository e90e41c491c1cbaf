//! The entropy bonus and its coefficient.

use crate::error::{Result, require};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A term -coefficient * H per token in the loss, H the entropy of the distribution the token was drawn from (nats).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EntropyBonus {
    /// Weight of the bonus; 0 switches it off. With a target, where the weight starts. Sensitive: arXiv:2505.22617
    /// saw no effect at 1e-3 and an explosion of entropy at 1e-2.
    #[schemars(range(min = 0.0))]
    pub coefficient: f64,
    /// Entropy to hold, in nats, above 0: after each update the weight moves by rate * (target - entropy). Unset: the
    /// weight stays as it is.
    pub target: Option<f64>,
    /// How fast the weight follows the entropy's distance from the target, per nat and update.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub rate: f64,
    /// With a target, the largest weight; the smallest is 0.
    pub max: f64,
}

impl Default for EntropyBonus {
    fn default() -> Self {
        Self { coefficient: 0.0, target: None, rate: 1e-3, max: 0.02 }
    }
}

impl EntropyBonus {
    pub(crate) fn check(&self) -> Result<()> {
        let Some(target) = self.target else { return Ok(()) };
        require(
            target.is_finite() && target > 0.0,
            "objective.entropy_bonus.target",
            target,
            "it must be an entropy above 0, in nats; leave the key out for a fixed coefficient",
        )?;
        require(
            self.max.is_finite() && self.max > 0.0 && self.max >= self.coefficient,
            "objective.entropy_bonus.max",
            self.max,
            "it must be above 0 and not below objective.entropy_bonus.coefficient",
        )
    }

    /// The coefficient after an update with this one, which saw this mean entropy (nats). An entropy that is not
    /// finite moves nothing.
    pub fn next_coefficient(&self, coefficient: f64, entropy: f64) -> f64 {
        match self.target {
            Some(target) if entropy.is_finite() => {
                (coefficient + self.rate * (target - entropy)).clamp(0.0, self.max)
            }
            Some(_) => coefficient,
            None => self.coefficient,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coefficient_seeks_the_target_within_its_limits() {
        let bonus = EntropyBonus { target: Some(0.5), rate: 0.01, max: 0.02, ..Default::default() };
        assert_eq!(bonus.next_coefficient(0.001, 0.4), 0.001 + 0.01 * (0.5 - 0.4));
        assert_eq!(bonus.next_coefficient(0.001, 0.9), 0.0);
        assert_eq!(bonus.next_coefficient(0.019, 0.1), 0.02);
        assert_eq!(bonus.next_coefficient(0.003, f64::NAN), 0.003);
        let fixed = EntropyBonus { coefficient: 0.005, ..Default::default() };
        assert_eq!(fixed.next_coefficient(0.005, 0.1), 0.005);
    }

    #[test]
    fn a_system_that_answers_the_bonus_settles_at_the_target() {
        let bonus = EntropyBonus { target: Some(0.5), rate: 0.01, max: 1.0, ..Default::default() };
        let (mut coefficient, mut entropy) = (0.0, 0.2);
        for _ in 0..5000 {
            // Entropy decays by itself and is raised by the bonus.
            entropy += 0.5 * coefficient - 0.05 * entropy;
            coefficient = bonus.next_coefficient(coefficient, entropy);
        }
        assert!((entropy - 0.5).abs() < 1e-6 && (coefficient - 0.05).abs() < 1e-6, "{entropy} {coefficient}");
    }
}
