//! Flexible entropy control by clip thresholds that depend on a token's probability and on the
//! run's progress (arXiv:2602.09782).

use super::TokenMethod;
use crate::catalogue::{About, FREE, Kind};
use crate::error::{Result, refuse};
use crate::treatment::{ClipRange, Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "Flexible entropy control",
    kind: Kind::ClipRange,
    equation: "increase-then-decrease, at the share x of the run's steps: clip_high = w h(pi) + \
               (1 - w) clip_high, w = 1 - 2 x, in the first half; clip_low = v l(pi) + (1 - v) \
               clip_low, v = 2 - 2 x, in the second; h and l fall linearly in pi",
    source: "arXiv:2602.09782",
    setting: "objective.methods.flexible_clip",
    cost: FREE,
};
pub(super) const IS_IDLE_ON_POLICY: bool = true;

/// Clip thresholds that move entropy up or down, by a schedule over the run's steps. The threshold
/// h(pi) = `upper_slope` pi + `upper_intercept` in place of `clip_high` lets unlikely tokens of
/// better responses rise farther than likely ones, which raises entropy. The threshold l(pi) =
/// `lower_slope` pi + `lower_intercept` in place of `clip_low` lets unlikely tokens of worse
/// responses fall farther, which lowers it. pi is the token's probability under the policy in
/// training, held constant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlexibleClip {
    /// When which threshold acts, by the share x of `run.steps` that is done: a run that goes on
    /// with another `run.steps` has the thresholds of that number of steps from there on.
    pub schedule: ClipSchedule,
    /// Change of the upper threshold from a token of probability 0 to one of probability 1. This
    /// default and the next three stand in github.com/Tencent/IterSynth; the paper's numbers could
    /// not be read.
    #[schemars(range(min = -10.0, max = 10.0))]
    pub upper_slope: f64,
    /// The upper threshold at probability 0.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub upper_intercept: f64,
    /// Change of the lower threshold from probability 0 to 1.
    #[schemars(range(min = -10.0, max = 10.0))]
    pub lower_slope: f64,
    /// The lower threshold at probability 0.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub lower_intercept: f64,
}

/// When thresholds act. x is the share of the run's steps before this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClipSchedule {
    /// In the first half the upper threshold goes from h to `clip_high`, as 1 - 2 x does from 1 to
    /// 0. In the second half the lower one goes from l to `clip_low`.
    #[default]
    IncreaseThenDecrease,
    /// In the first half the upper threshold goes from `clip_high` to h, and stays there. In the
    /// second half the lower one goes from l to `clip_low`.
    DecreaseIncreaseDecrease,
    /// The upper threshold is h while entropy is raised, the lower one l while it is lowered, as it
    /// is at first. Raising begins when the rollout's entropy is at most a fifth of the run's
    /// first, and ends when it is above a bound that falls in a straight line from the first
    /// entropy to a fifth of it.
    OscillatoryDecay,
}

impl Default for FlexibleClip {
    fn default() -> Self {
        Self {
            schedule: ClipSchedule::default(),
            upper_slope: -0.25,
            upper_intercept: 0.5,
            lower_slope: -0.13,
            lower_intercept: 0.3,
        }
    }
}

/// The least entropy of the oscillatory decay, as a share of the run's first.
const LEAST_ENTROPY: f64 = 0.2;

impl FlexibleClip {
    /// Whether entropy is to be raised in a step of the oscillatory decay, given whether it was in
    /// the step before, the entropy of the step's rollout and of the run's first, in nats, and the
    /// share of the run's steps before this one.
    pub fn raises_entropy(&self, before: bool, entropy: f64, initial: f64, progress: f64) -> bool {
        let least = LEAST_ENTROPY * initial;
        if entropy <= least {
            true
        } else if entropy > least + (initial - least) * (1.0 - progress) {
            false
        } else {
            before
        }
    }

    /// How much of h and of l is in the upper and the lower threshold; the recipe's clip range is
    /// the rest.
    fn weights(&self, progress: f64, raises_entropy: bool) -> [f64; 2] {
        let is_late = progress > 0.5;
        let lower = if is_late { 2.0 - 2.0 * progress } else { 0.0 };
        match self.schedule {
            ClipSchedule::IncreaseThenDecrease => [(1.0 - 2.0 * progress).max(0.0), lower],
            ClipSchedule::DecreaseIncreaseDecrease => [(2.0 * progress).min(1.0), lower],
            ClipSchedule::OscillatoryDecay if raises_entropy => [1.0, 0.0],
            ClipSchedule::OscillatoryDecay => [0.0, 1.0],
        }
    }
}

impl TokenMethod for FlexibleClip {
    fn check(&self, table: &str) -> Result<()> {
        for (bound, slope, intercept) in [
            ("upper", self.upper_slope, self.upper_intercept),
            ("lower", self.lower_slope, self.lower_intercept),
        ] {
            if slope + intercept < 0.0 {
                let expected = format!(
                    "with {table}.{bound}_intercept ({intercept}) the threshold of a token of \
                     probability 1 is below 0; the sum of both must not be"
                );
                return refuse(&format!("{table}.{bound}_slope"), slope, &expected);
            }
        }
        Ok(())
    }

    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment) {
        let [upper, lower] = self.weights(tokens.run.progress, tokens.run.raises_entropy);
        let mix =
            |weight: f64, threshold: f64, usual: f64| weight * threshold + (1.0 - weight) * usual;
        let (mut low_sum, mut high_sum) = (0.0, 0.0);
        for (range, &logprob) in treatment.clip.iter_mut().zip(tokens.acting_logprobs) {
            let pi = libm::exp(logprob);
            let high = self.upper_slope * pi + self.upper_intercept;
            let low = self.lower_slope * pi + self.lower_intercept;
            *range =
                ClipRange { low: mix(lower, low, range.low), high: mix(upper, high, range.high) };
            low_sum += range.low;
            high_sum += range.high;
        }
        let count = treatment.clip.len().max(1) as f64;
        treatment.measured.push(("method/flexible_clip/low", low_sum / count));
        treatment.measured.push(("method/flexible_clip/high", high_sum / count));
    }
}
