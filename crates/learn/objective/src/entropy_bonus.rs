//! The entropy bonus and its coefficient.

use crate::TargetEntropy;
use crate::error::{Result, refuse, require};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rate where none is set.
const RATE: f64 = 1e-3;

/// A term -coefficient * H per token in the loss, H the entropy (nats) of the whole policy in the
/// token's place, at the temperature of sampling; also where top-k, top-p or min-p drew from a part
/// of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EntropyBonus {
    /// Weight of the bonus; 0 switches it off. With a target, where the weight starts. Sensitive:
    /// arXiv:2505.22617 saw no effect at 1e-3 and an explosion of entropy at 1e-2.
    #[schemars(range(min = 0.0))]
    pub coefficient: f64,
    /// Entropy to hold, in nats: a number, a fraction of the entropy that the run begins with, or a
    /// schedule. The weight follows it by `rate` or by `delta`. Unset: the weight stays as it is.
    pub target: Option<TargetEntropy>,
    /// With a target: after each update the weight moves by rate * (target - entropy), which is
    /// measured as `policy/entropy` is, but on the responses of the update. Unset: 1e-3, unless
    /// `delta` is set.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub rate: Option<f64>,
    /// With a target, in place of `rate`: after each step the weight rises by this if the rollout's
    /// entropy is below the target, and falls by it if above. Above the target the bonus does not
    /// act (adaptive entropy control of Skywork-OR1, arXiv:2505.22312, section 3.2.5, which takes
    /// 5e-3, and 1e-4 in its scripts; also TRL's).
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub delta: Option<f64>,
    /// With a target, the largest weight; the smallest is 0.
    pub max: f64,
}

impl Default for EntropyBonus {
    fn default() -> Self {
        Self { coefficient: 0.0, target: None, rate: None, delta: None, max: 0.02 }
    }
}

impl EntropyBonus {
    pub(crate) fn check(&self) -> Result<()> {
        if let (Some(rate), Some(_)) = (self.rate, self.delta) {
            return refuse(
                "objective.entropy_bonus.rate",
                rate,
                "objective.entropy_bonus.delta is set too, and the weight follows the target by \
                 one rule; leave one of them out",
            );
        }
        let Some(target) = &self.target else {
            return match [("rate", self.rate), ("delta", self.delta)]
                .into_iter()
                .find(|(_, set)| set.is_some())
            {
                Some((key, set)) => refuse(
                    &format!("objective.entropy_bonus.{key}"),
                    set.unwrap_or_default(),
                    "it moves the weight towards a target, and there is none; set \
                     objective.entropy_bonus.target",
                ),
                None => Ok(()),
            };
        };
        target.check("objective.entropy_bonus.target")?;
        if let Some(delta) = self.delta.filter(|delta| *delta > self.max) {
            return refuse(
                "objective.entropy_bonus.delta",
                delta,
                &format!(
                    "it is how far the weight moves in a step, and must not be above \
                     objective.entropy_bonus.max ({}), the largest weight",
                    self.max
                ),
            );
        }
        require(
            self.max.is_finite() && self.max > 0.0 && self.max >= self.coefficient,
            "objective.entropy_bonus.max",
            self.max,
            "it must be above 0 and not below objective.entropy_bonus.coefficient",
        )
    }

    /// The rate, or its default if unset; None if the weight moves by `delta`.
    pub fn resolved_rate(&self) -> Option<f64> {
        match self.delta {
            Some(_) => None,
            None => Some(self.rate.unwrap_or(RATE)),
        }
    }

    /// The weight in the first update of a step, whose rollout has this entropy; the coefficient
    /// becomes that of the step after. `target` is the entropy to hold, if there is one. An entropy
    /// that is not finite moves nothing. A coefficient above `max`, which may have been larger
    /// before the run went on, comes down to it.
    pub fn begin_step(&self, coefficient: &mut f64, entropy: f64, target: Option<f64>) -> f64 {
        let Some(target) = target else { return *coefficient };
        *coefficient = coefficient.clamp(0.0, self.max);
        let weight = *coefficient;
        let Some(delta) = self.delta else { return weight };
        if entropy < target {
            *coefficient = (weight + delta).min(self.max);
        } else if entropy > target {
            *coefficient = (weight - delta).max(0.0);
        }
        if entropy <= target { weight } else { 0.0 }
    }

    /// The weight, and coefficient, after an update with this one, which saw this entropy (nats),
    /// where it moves with each update. An entropy that is not finite moves nothing.
    pub fn after_update(&self, coefficient: f64, entropy: f64, target: Option<f64>) -> Option<f64> {
        let (rate, distance) = (self.resolved_rate()?, target? - entropy);
        distance.is_finite().then(|| (coefficient + rate * distance).clamp(0.0, self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coefficient_seeks_the_target_within_its_limits() {
        let bonus = EntropyBonus { rate: Some(0.01), max: 0.02, ..Default::default() };
        let after = |coefficient, entropy| bonus.after_update(coefficient, entropy, Some(0.5));
        assert_eq!(after(0.001, 0.4), Some(0.001 + 0.01 * (0.5 - 0.4)));
        assert_eq!(after(0.001, 0.9), Some(0.0));
        assert_eq!(after(0.019, 0.1), Some(0.02));
        assert_eq!(after(0.003, f64::NAN), None);
        assert_eq!(bonus.after_update(0.005, 0.1, None), None, "without a target");
        let mut coefficient = 0.003;
        assert_eq!(
            (bonus.begin_step(&mut coefficient, 0.9, Some(0.5)), coefficient),
            (0.003, 0.003)
        );
    }

    /// By either rule, from the first update on; a fixed weight has no largest.
    #[test]
    fn a_coefficient_from_before_the_largest_was_lowered_comes_down_to_it() {
        let begun = |bonus: &EntropyBonus, target| {
            let mut coefficient = 0.75;
            (bonus.begin_step(&mut coefficient, 0.4, target), coefficient)
        };
        let by_rate = EntropyBonus { rate: Some(0.01), max: 0.5, ..Default::default() };
        let by_delta = EntropyBonus { delta: Some(0.25), max: 0.5, ..Default::default() };
        for bonus in [&by_rate, &by_delta] {
            assert_eq!(begun(bonus, Some(0.5)), (0.5, 0.5));
        }
        assert_eq!(begun(&by_rate, None), (0.75, 0.75));
    }

    /// arXiv:2505.22312, section 3.2.5: c_0 = 0; c_(k+1) = c_k + delta below the target, c_k -
    /// delta above; alpha_k = c_k at or below the target, else 0.
    #[test]
    fn a_fixed_step_moves_the_coefficient_and_acts_at_or_below_the_target_alone() {
        let bonus = EntropyBonus { delta: Some(0.25), max: 0.6, ..Default::default() };
        let mut coefficient = 0.0;
        let entropies = [0.4, 0.4, 0.4, 0.4, 0.5, 0.6, 0.4, f64::NAN, 0.6, 0.6, 0.6, 0.4];
        let acting =
            entropies.map(|entropy| bonus.begin_step(&mut coefficient, entropy, Some(0.5)));
        let expected = [0.0, 0.25, 0.5, 0.6, 0.6, 0.0, 0.35, 0.0, 0.0, 0.0, 0.0, 0.0];
        for (acting, expected) in acting.iter().zip(expected) {
            assert!((acting - expected).abs() < 1e-12, "{acting} {expected}");
        }
        assert_eq!(coefficient, 0.25);
        assert_eq!(bonus.after_update(0.3, 0.1, Some(0.5)), None, "no update moves it");
    }
}
