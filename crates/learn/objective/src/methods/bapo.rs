//! BAPO, balanced policy optimization with adaptive clipping (arXiv:2510.18927).

use super::TokenMethod;
use crate::catalogue::{About, Kind};
use crate::error::{Result, require};
use crate::policy_loss::ratio;
use crate::treatment::{ClipRange, Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "BAPO",
    kind: Kind::ClipRange,
    equation: "rho within c_low and c_high, raised by steps, c_low first, until P / N >= target; \
               P = sum of min(rho, c_high) A over A > 0, N = sum of max(rho, c_low) |A| over A < 0",
    source: "arXiv:2510.18927; github.com/WooooDyy/BAPO",
    setting: "objective.methods.bapo",
    cost: "at most one pass over the minibatch's numbers per step of a bound",
};
pub(super) const IS_IDLE_ON_POLICY: bool = true;

/// The bounds of the ratio, in place of `clip_low` and `clip_high`, are found anew for each
/// minibatch: both start low, and rise step by step, first the lower one and then the upper, until
/// P / N reaches the target or both are at their largest. P is the sum of min(rho, c_high) A over
/// A > 0, N that of max(rho, c_low) |A| over A < 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Bapo {
    /// The P / N to reach, the published code's `adv_ratio_target`: 1 in its configuration, 0.5 in
    /// its example. A share s as in the paper is about s / (1 - s) here.
    #[schemars(range(min = 0.0))]
    pub target: f64,
    /// The lower bound of the ratio at the start.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub lower_start: f64,
    /// The largest lower bound.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub lower_max: f64,
    /// Steps of the lower bound.
    #[schemars(range(min = 1e-4))]
    pub lower_step: f64,
    /// The upper bound of the ratio at the start.
    #[schemars(range(min = 1.0))]
    pub upper_start: f64,
    /// The largest upper bound.
    #[schemars(range(min = 1.0, max = 100.0))]
    pub upper_max: f64,
    /// Steps of the upper bound.
    #[schemars(range(min = 1e-4))]
    pub upper_step: f64,
}

impl Default for Bapo {
    fn default() -> Self {
        Self {
            target: 1.0,
            lower_start: 0.6,
            lower_max: 0.8,
            lower_step: 0.05,
            upper_start: 1.2,
            upper_max: 2.0,
            upper_step: 0.05,
        }
    }
}

/// Added to N, as in the published code.
const EPSILON: f64 = 1e-8;

/// P / N at these bounds of the ratio; infinite without worse responses.
fn balance(ratios: &[f64], advantages: &[f64], [low, high]: [f64; 2]) -> f64 {
    let (mut better, mut worse) = (0.0, 0.0);
    for (&ratio, &advantage) in ratios.iter().zip(advantages) {
        if advantage > 0.0 {
            better += ratio.min(high) * advantage;
        } else {
            worse -= ratio.max(low) * advantage;
        }
    }
    if worse > 0.0 { better / (worse + EPSILON) } else { f64::INFINITY }
}

impl TokenMethod for Bapo {
    fn check(&self, table: &str) -> Result<()> {
        for (bound, start, max) in [
            ("lower", self.lower_start, self.lower_max),
            ("upper", self.upper_start, self.upper_max),
        ] {
            let expected = format!("it must not be above {table}.{bound}_max ({max})");
            require(start <= max, &format!("{table}.{bound}_start"), start, &expected)?;
        }
        Ok(())
    }

    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment) {
        let ratios: Vec<f64> =
            tokens.log_ratios.iter().map(|&log_ratio| ratio(log_ratio)).collect();
        let (mut low, mut high) = (self.lower_start, self.upper_start);
        let is_short = |bounds| balance(&ratios, &treatment.advantages, bounds) < self.target;
        while low < self.lower_max && is_short([low, high]) {
            low = (low + self.lower_step).min(self.lower_max);
        }
        while high < self.upper_max && is_short([low, high]) {
            high = (high + self.upper_step).min(self.upper_max);
        }
        treatment.measured.push(("method/bapo/lower", low));
        treatment.measured.push(("method/bapo/upper", high));
        treatment.clip.fill(ClipRange { low: 1.0 - low, high: high - 1.0 });
    }
}
