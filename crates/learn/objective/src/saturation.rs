//! Notices when the controller can do no more: the steered value is at a bound, and the entropy is
//! not at the target.

use crate::controller::{Steer, least_share};
use crate::descent::TOLERANCE;
use crate::{Covariance, Method, Statistics, Strength};
use serde::{Deserialize, Serialize};

/// Rollout steps in a row before an alarm.
const PATIENCE: u32 = 10;

/// Watches whether the controller can hold the target. Part of a run's saved state, so that a
/// resumed run gives the same alarms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saturation {
    /// Steps in a row in which the controller could not raise entropy to the target.
    too_low: u32,
    /// Steps in a row in which the controller could not lower entropy to the target.
    too_high: u32,
}

/// A step of a controlled run.
#[derive(Clone, Copy, Debug)]
pub struct ControlledStep<'a> {
    /// The strength in its updates.
    pub strength: Strength,
    /// The smoothed entropy on which the controller acted, in nats; single rollouts are too noisy.
    pub entropy: f64,
    /// The entropy to hold, nats.
    pub target: f64,
    /// Whether entropy has been at the target; before that it is still falling towards it.
    pub has_arrived: bool,
    /// The measurements of its updates.
    pub updates: &'a [Statistics],
}

impl Saturation {
    /// Adds a step. Returns a sentence with cause and remedy if the controller could not hold the
    /// target for ten steps in a row: once, until it can again. Steps without a token in Clip-Cov's
    /// band do not count here; [`Alarms`](crate::Alarms) reports them.
    pub fn after_step(
        &mut self,
        settings: &Covariance,
        step: &ControlledStep<'_>,
    ) -> Option<String> {
        let ControlledStep { strength, entropy, target, has_arrived, updates } = *step;
        let clips = settings.method == Method::ClipCov && !updates.is_empty();
        let eligible: usize = updates.iter().map(|update| update.cov_eligible).sum();
        if clips && eligible == 0 {
            return None;
        }
        let (min, max) = settings.controller.bounds();
        let steer = settings.controller.steer;
        let (key, value) = (steer.key(), strength.steered(steer));
        let exhausted =
            clips && updates.iter().all(|update| update.cov_selected == update.cov_eligible);
        let count = |count: u32, holds: bool| if holds { count.saturating_add(1) } else { 0 };
        let is_low = entropy < target * (1.0 - TOLERANCE);
        self.too_low = count(self.too_low, is_low && (value >= max || exhausted));
        let is_high = entropy > target * (1.0 + TOLERANCE);
        // Below this fraction, one token of each minibatch is picked all the same.
        let least = if steer == Steer::Fraction { least_share(updates) } else { 0.0 };
        self.too_high = count(self.too_high, has_arrived && is_high && value <= min.max(least));
        let begin = format!(
            "the entropy {entropy:.4} cannot be held at objective.covariance.target_entropy, \
             {target:.4}"
        );
        if self.too_low == PATIENCE {
            let remedy = if exhausted {
                format!(
                    "Clip-Cov takes every token of its band from {} to {}, {eligible} in the last \
                     step. Lower objective.covariance.low to widen it, lower \
                     optimizer.learning_rate, or hold a lower entropy",
                    settings.low, settings.high
                )
            } else {
                let method = match settings.method {
                    Method::KlCov => {
                        "KL-Cov can hold entropy, not raise it: make more and smaller updates per \
                         rollout (update.prompts, update.epochs), take objective.covariance.method \
                         = \"clip-cov\""
                    }
                    _ => "lower objective.covariance.low to widen its band",
                };
                format!(
                    "the {key} has been at its upper bound {max}. Raise \
                     objective.covariance.controller.max, lower optimizer.learning_rate; {method}, \
                     or hold a lower entropy"
                )
            };
            return Some(format!("{begin}, for {PATIENCE} steps in a row: {remedy}."));
        }
        (self.too_high == PATIENCE).then(|| {
            let bound = if value <= min {
                format!("at its lower bound {min}")
            } else {
                "so low that one token of each minibatch is picked, the least there is".to_owned()
            };
            format!(
                "{begin}, for {PATIENCE} steps in a row: the {key} has been {bound}, where next to \
                 nothing keeps entropy up, and entropy is above the target all the same: \
                 covariance methods cannot lower it. Hold a higher entropy, or look at what else \
                 raises it (objective.clip_high, objective.entropy_bonus, a learning rate that \
                 destroys the policy)."
            )
        })
    }
}
