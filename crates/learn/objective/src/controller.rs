//! The autopilot: steers how strongly Clip-Cov or KL-Cov acts, so that the policy's entropy stays
//! at a target.

use crate::Statistics;
use crate::covariance::{Covariance, Method, Strength};
use crate::descent::Descent;
use crate::error::{Result, refuse, require};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How `target_entropy` is held. In step k, with the entropy H of its rollout and the target H*,
/// the steered value is
///
/// ```text
/// h_k = (h_(k-1) + ln H_k) / 2
/// e_k = ln H*_k - h_k
/// I_k = I_(k-1) + gain e_k / integral_steps
/// value = start exp(gain e_k + I_k), kept within min and max
/// ```
///
/// in all updates of the step; `start` is what the recipe sets (`fraction`, or `coefficient`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerSettings {
    /// The setting that is steered.
    pub steer: Steer,
    /// At each step the steered value is its value at the target times (target / entropy)^gain:
    /// with 20, about 8 times as much at an entropy 10 % below the target. Take less where rollouts
    /// are few and their entropy is noisy.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub gain: f64,
    /// How slowly the controller learns which value holds the entropy: after this many steps at one
    /// distance from the target, the integral has moved the value as far as `gain` does at once.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub integral_steps: f64,
    /// Least steered value. Unset: 1e-5 of the tokens, or a coefficient of 0.01. One token at least
    /// is picked of each minibatch, whatever the fraction.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub min: Option<f64>,
    /// Largest steered value. Unset: 0.5 of the tokens, or a coefficient of 100.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub max: Option<f64>,
}

/// The setting that the controller steers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Steer {
    /// `fraction`: how many tokens are picked.
    #[default]
    Fraction,
    /// `coefficient`: how much KL-Cov's penalty weighs.
    Coefficient,
}

impl Steer {
    /// The key of the setting that the controller starts from.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Fraction => "fraction",
            Self::Coefficient => "coefficient",
        }
    }
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self { steer: Steer::Fraction, gain: 20.0, integral_steps: 50.0, min: None, max: None }
    }
}

impl ControllerSettings {
    /// Least and largest steered value, with defaults for unset ones.
    pub fn bounds(&self) -> (f64, f64) {
        let (min, max) = match self.steer {
            Steer::Fraction => (1e-5, 0.5),
            Steer::Coefficient => (0.01, 100.0),
        };
        (self.min.unwrap_or(min), self.max.unwrap_or(max))
    }

    /// Checks the controller's settings for a run with this target.
    pub(crate) fn check(&self, covariance: &Covariance) -> Result<()> {
        if self.steer == Steer::Coefficient && covariance.method == Method::ClipCov {
            return refuse(
                "objective.covariance.controller.steer",
                "coefficient",
                "only kl-cov has a coefficient; steer \"fraction\", or set \
                 objective.covariance.method to \"kl-cov\"",
            );
        }
        let (min, max) = self.bounds();
        let most = if self.steer == Steer::Fraction { 1.0 } else { f64::MAX };
        require(
            max > 0.0 && max <= most,
            "objective.covariance.controller.max",
            max,
            "it must be a fraction of the tokens above 0 and at most 1 (or a finite coefficient \
             above 0)",
        )?;
        require(
            min > 0.0 && min < max,
            "objective.covariance.controller.min",
            min,
            "it must be above 0 and below objective.covariance.controller.max",
        )?;
        let key = format!("objective.covariance.{}", self.steer.key());
        let start = covariance.strength().steered(self.steer);
        let expected = format!(
            "the controller begins with it, so it must be within \
             objective.covariance.controller.min ({min}) and max ({max})"
        );
        require((min..=max).contains(&start), &key, start, &expected)
    }
}

fn tokens(updates: &[Statistics]) -> usize {
    updates.iter().map(|update| update.tokens).sum()
}

/// The least share of the tokens that updates can pick: one token of each minibatch. 0 without
/// tokens.
pub(crate) fn least_share(updates: &[Statistics]) -> f64 {
    let least = updates.iter().filter(|update| update.tokens > 0).count();
    least as f64 / tokens(updates).max(1) as f64
}

/// Share of the newest measurement in the smoothed logarithm of entropy.
const NEWEST: f64 = 0.5;
/// Share by which an integral beyond its bounds returns in a step.
const RETURN: f64 = 0.1;

/// A proportional-integral controller on logarithms. Part of a run's saved state.
///
/// Why logarithms: a step changes entropy by a share of itself, and what acts on it is spread over
/// decades. How it behaves is then the same at 1 nat and at 0.1. With entropy answering as ln H' =
/// -r + a ln(value), the loop's damping is sqrt(a gain integral_steps) / 2: with the defaults 0.8
/// for a = 0.0025, a slow task, and overdamped for a = 0.03, a fast one. It is stable for a gain (1
/// + 1 / integral_steps) below 6; without the smoothing, below 2.
///
/// **Entropy is smoothed**, over about two steps: a rollout's entropy depends on which prompts it
/// drew, and the gain would make the value jump with it. More smoothing would see a fast task's
/// fall too late.
///
/// **The proportional part sees the error, target included**, and not the entropy alone. A schedule
/// of straight lines moves the target by little in each step, so nothing is kicked, and the entropy
/// follows a line without lagging behind it: a controller whose integral alone knows the target
/// would lag by integral_steps times the line's slope. Where the target does jump, there is no
/// reason to act but the new error.
///
/// **The value is a function of the error and the integral** (the position form), not a sum of
/// increments that is clamped (the velocity form). Both are alike as long as no bound is met. But a
/// clamped sum forgets what the bound cut off: after a jump to half of the entropy it stands at the
/// lower bound, and as entropy falls, it adds up the whole way back and stands at the upper bound
/// long before the target. A run whose entropy begins at twice its target would be braked all the
/// way down.
///
/// **On the way down to the target nothing is unlearnt** (`descent.rs`): there the proportional
/// part alone lets go. So what the recipe sets, or what was learnt before the target fell, is in
/// force when entropy gets there. Not merely far above the target: an entropy that stays above it
/// because the value is too strong stops falling, and then the integral goes on.
///
/// **Anti-windup**: the integral stands still while the value is beyond what can act and the error
/// pushes it further. The range that can act is within the recipe's bounds, and within what the
/// updates of the step before could pick: one token of each minibatch at least, those that are
/// eligible at most (Clip-Cov's band is used up long before the upper bound). The integral never
/// leaves the recipe's bounds; beyond what can act, which changes from step to step, it comes back
/// by a tenth of the way in each, so that one odd step does not cost what many have taught.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Controller {
    /// I, the logarithm of the factor that the controller has learnt.
    integral: f64,
    /// The setting that the integral was learnt for.
    learnt_for: Option<SteeredSetting>,
    /// The value of the last step, which is kept if an entropy cannot be used.
    value: Option<f64>,
    /// The smoothed logarithm of entropy.
    log_entropy: Option<f64>,
    descent: Descent,
    reach: Option<Reach>,
}

/// The setting that an integral belongs to: with another start it stands for another value, and for
/// another method it means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct SteeredSetting {
    method: Method,
    steer: Steer,
    start: f64,
}

/// The shares of the tokens that the updates of a step could pick.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Reach {
    least: f64,
    most: f64,
}

impl Controller {
    /// How strongly the covariance method acts in the updates of a step, given its rollout's
    /// entropy and the target, in nats. If either is not above 0 and finite, the value of the step
    /// before holds.
    pub fn step(&mut self, covariance: &Covariance, entropy: f64, target: f64) -> Strength {
        let mut strength = covariance.strength();
        let settings = &covariance.controller;
        let steered = strength.steered_mut(settings.steer);
        let start = *steered;
        self.relearn(SteeredSetting { method: covariance.method, steer: settings.steer, start });
        let is_entropy = |nats: f64| nats.is_finite() && nats > 0.0;
        let (min, max) = settings.bounds();
        *steered = if is_entropy(entropy) && is_entropy(target) {
            let newest = libm::log(entropy);
            let smoothed = self.log_entropy.map_or(newest, |last| last + NEWEST * (newest - last));
            self.log_entropy = Some(smoothed);
            self.descent.step(libm::exp(smoothed), target);
            self.moved(settings, start, libm::log(target) - smoothed)
        } else {
            self.value.unwrap_or(start).clamp(min, max)
        };
        self.value = Some(*steered);
        strength
    }

    /// Updates the state with the measurements of the step's updates.
    pub fn after_step(&mut self, covariance: &Covariance, updates: &[Statistics]) {
        let eligible: usize = updates.iter().map(|update| update.cov_eligible).sum();
        // A rollout without tokens to pick from does not predict the next.
        if covariance.controller.steer == Steer::Fraction && eligible > 0 && tokens(updates) > 0 {
            let (least, most) = (least_share(updates), eligible as f64 / tokens(updates) as f64);
            self.reach = Some(Reach { least, most: most.max(least) });
        }
    }

    /// The smoothed entropy on which the controller acts, in nats; None before the first step.
    pub fn entropy(&self) -> Option<f64> {
        self.log_entropy.map(libm::exp)
    }

    /// Whether entropy has been at the target or below it since the target last fell.
    pub fn has_arrived(&self) -> bool {
        self.descent.has_arrived()
    }

    /// Adapts the integral to another setting, as far as possible, because settings may change when
    /// a run goes on.
    fn relearn(&mut self, now: SteeredSetting) {
        match self.learnt_for {
            Some(then) if (then.method, then.steer) != (now.method, now.steer) => {
                (self.integral, self.value, self.reach) = (0.0, None, None);
            }
            // This integral gives the same value from another start.
            Some(then) if then.start != now.start => {
                self.integral += libm::log(then.start / now.start);
            }
            _ => {}
        }
        self.learnt_for = Some(now);
    }

    fn moved(&mut self, settings: &ControllerSettings, start: f64, error: f64) -> f64 {
        let (min, max) = settings.bounds();
        let (low, high) = (libm::log(min / start), libm::log(max / start));
        let within = |share: f64| libm::log(share / start).clamp(low, high);
        let (weakest, strongest) =
            self.reach.map_or((low, high), |reach| (within(reach.least), within(reach.most)));
        let integral = self.integral.clamp(low, high); // the bounds may have been changed since
        let integral = integral + RETURN * (integral.clamp(weakest, strongest) - integral);
        let next = integral + settings.gain * error / settings.integral_steps;
        let proportional = settings.gain * error;
        let pushes_out = (proportional + next > strongest && error > 0.0)
            || (proportional + next < weakest && error < 0.0);
        let stands = pushes_out || (error < 0.0 && self.descent.is_under_way());
        self.integral = if stands { integral } else { next };
        let exponent = proportional + self.integral;
        // At a bound the value is the bound itself, to the last bit.
        match exponent {
            exponent if exponent >= high => max,
            exponent if exponent <= low => min,
            exponent => (start * libm::exp(exponent)).clamp(min, max),
        }
    }
}
