//! Holds the policy's entropy from step to step, by the covariance method's controller or by an
//! entropy bonus.

use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::minibatch::BatchLoss;
use isentrope_objective::{
    ClipSchedule, ControlledStep, Controller, EntropyBonus, FlexibleClip, Methods,
    ObjectiveSettings, RunState, Saturation, Statistics, Steer, Strength, TargetEntropy,
};
use serde::{Deserialize, Serialize};

/// The state of the control, part of a checkpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct EntropyControl {
    /// Entropy of the run's first rollout, nats. Known whether there is a target or not: one may be
    /// set when the run goes on.
    initial: Option<f64>,
    /// The weight of the entropy bonus after the last step; none before the first and without a
    /// target: with one that is set later, the weight starts from the recipe's.
    bonus_coefficient: Option<f64>,
    controller: Controller,
    saturation: Saturation,
    /// Sum of EntroPIC's errors over the updates so far, nats.
    entropy_error: f64,
    /// Whether flexible clip thresholds raise entropy in this step.
    raises_entropy: bool,
    /// REPO-R's zeta in this step; none without a target.
    repo_zeta: Option<f64>,
}

/// The settings in force in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepControl {
    /// The target of the covariance method's controller, if there is one.
    held: Option<Steering>,
    /// Entropy that the bonus seeks, nats, if it has a target.
    bonus_target: Option<f64>,
    /// Weight of the entropy bonus in the next update.
    pub bonus: f64,
}

/// An entropy that the controller holds.
#[derive(Clone, Copy, Debug)]
struct Steering {
    /// Nats.
    target: f64,
    /// The controller's output for all updates of the step.
    strength: Strength,
}

impl StepControl {
    /// The strength of the covariance method, if a controller steers it.
    pub fn steered(&self) -> Option<Strength> {
        self.held.map(|held| held.strength)
    }
}

impl EntropyControl {
    /// Sets the bonus's weight from the settings when a run begins or goes on.
    pub fn begin(&mut self, bonus: &EntropyBonus) {
        if bonus.target.is_none() {
            self.bonus_coefficient = None; // it may have been changed since the checkpoint
        }
    }

    /// Whether a run can go on from here with these settings.
    ///
    /// # Errors
    /// When its target is a share of an entropy that the checkpoint does not know.
    pub fn check(&self, settings: &ObjectiveSettings) -> Result<()> {
        if self.initial.is_some() {
            return Ok(());
        }
        let is_share = |target: &TargetEntropy| matches!(target, TargetEntropy::OfInitial(_));
        let key = if settings.covariance.target_entropy.as_ref().is_some_and(is_share) {
            "objective.covariance.target_entropy.fraction_of_initial"
        } else if settings.entropy_bonus.target.as_ref().is_some_and(is_share) {
            "objective.entropy_bonus.target.fraction_of_initial"
        } else if settings.repo_target().is_some_and(is_share) {
            "objective.methods.repo_r.target_entropy.fraction_of_initial"
        } else if decays_by_oscillation(&settings.methods).is_some() {
            return Err(Error::setting(
                "objective.methods.flexible_clip.schedule",
                "\"oscillatory-decay\" needs the entropy of the run's first rollout, which is not \
                 known: the run began under a version that did not keep it, or with a rollout \
                 without entropy. Another schedule does not need it",
            ));
        } else {
            return Ok(());
        };
        Err(Error::setting(
            key,
            "is a share of the entropy of the run's first rollout, which is not known: the run \
             began under a version that did not keep it, or with a rollout without entropy. Set \
             the target in nats instead (policy/entropy of step 1 is in the run's metrics)",
        ))
    }

    /// The settings in force in the updates of a step, from the entropy of its whole rollout in
    /// nats, before any filter, if it has one.
    pub fn begin_step(
        &mut self,
        settings: &ObjectiveSettings,
        step: u64,
        entropy: Option<f64>,
        metrics: &mut Metrics,
    ) -> Result<StepControl> {
        if step == 1 {
            self.initial = entropy.filter(|nats| nats.is_finite() && *nats > 0.0);
        }
        self.check(settings)?;
        // An entropy that is not a number moves nothing.
        let entropy = entropy.unwrap_or(f64::NAN);
        let at = |target: &TargetEntropy| target.at(step, self.initial);
        let ObjectiveSettings { covariance, entropy_bonus, .. } = settings;
        let bonus_target = entropy_bonus.target.as_ref().map(at);
        let target = covariance.target_entropy.as_ref().map(at);
        let of_method = settings.methods.entropic.as_ref().map(|entropic| entropic.target);
        let of_method = of_method.or(settings.repo_target().map(at));
        if let Some(target) = target.or(bonus_target).or(of_method) {
            metrics.set("entropy/target", target);
        }
        let held = match target {
            Some(target) => {
                let strength = self.controller.step(covariance, entropy, target);
                metrics.set("cov/fraction", strength.fraction);
                if covariance.controller.steer == Steer::Coefficient {
                    metrics.set("cov/coefficient", strength.coefficient);
                }
                Some(Steering { target, strength })
            }
            None => {
                // Without a target the controller is reset, because its state would be out of date
                // later.
                (self.controller, self.saturation) = (Controller::default(), Saturation::default());
                None
            }
        };
        let mut coefficient = self.bonus_coefficient.unwrap_or(entropy_bonus.coefficient);
        let bonus = entropy_bonus.begin_step(&mut coefficient, entropy, bonus_target);
        self.bonus_coefficient = bonus_target.is_some().then_some(coefficient);
        Ok(StepControl { held, bonus_target, bonus })
    }

    /// Begins a step for the methods: moves their state with the entropy of the step's rollout, in
    /// nats, if it has one. `progress` is the share of the run's steps before this one.
    pub fn begin_methods(
        &mut self,
        settings: &ObjectiveSettings,
        step: u64,
        progress: f64,
        entropy: Option<f64>,
    ) {
        let methods = &settings.methods;
        // Without their methods these would grow old.
        if methods.entropic.is_none() {
            self.entropy_error = 0.0;
        }
        let entropy = entropy.unwrap_or(f64::NAN);
        self.raises_entropy = match (decays_by_oscillation(methods), self.initial) {
            (Some(clip), Some(initial)) => {
                clip.raises_entropy(self.raises_entropy, entropy, initial, progress)
            }
            _ => false,
        };
        self.repo_zeta = match (&methods.repo_r, settings.repo_target()) {
            (Some(repo_r), Some(target)) => {
                let zeta = self.repo_zeta.unwrap_or(repo_r.zeta);
                Some(repo_r.moved(zeta, entropy, target.at(step, self.initial)))
            }
            _ => None,
        };
    }

    /// The run's state for the methods in the next update.
    pub fn run_state(&self, progress: f64) -> RunState {
        let Self { entropy_error, raises_entropy, repo_zeta, .. } = *self;
        RunState { entropy_error, progress, raises_entropy, repo_zeta }
    }

    /// Updates the bonus's weight, and the sum of EntroPIC's errors, from the entropy that an update
    /// saw.
    pub fn after_update(
        &mut self,
        settings: &ObjectiveSettings,
        control: &mut StepControl,
        loss: &BatchLoss,
    ) {
        if let Some(entropic) = &settings.methods.entropic {
            self.entropy_error += entropic.error(loss.objective.mean_entropy);
        }
        let EntropyBonus { coefficient, .. } = settings.entropy_bonus;
        let coefficient = self.bonus_coefficient.unwrap_or(coefficient);
        if let Some(moved) =
            settings.entropy_bonus.after_update(coefficient, loss.entropy, control.bonus_target)
        {
            (self.bonus_coefficient, control.bonus) = (Some(moved), moved);
        }
    }

    /// A sentence if the controller can no longer hold the target.
    pub fn after_step(
        &mut self,
        settings: &ObjectiveSettings,
        control: &StepControl,
        updates: &[Statistics],
    ) -> Option<String> {
        let Steering { target, strength } = control.held?;
        let covariance = &settings.covariance;
        self.controller.after_step(covariance, updates);
        let entropy = self.controller.entropy()?;
        let has_arrived = self.controller.has_arrived();
        let step = ControlledStep { strength, entropy, target, has_arrived, updates };
        self.saturation.after_step(covariance, &step)
    }
}

/// The flexible clip thresholds, if their schedule is the oscillatory decay.
fn decays_by_oscillation(methods: &Methods) -> Option<&FlexibleClip> {
    let clip = methods.flexible_clip.as_ref();
    clip.filter(|clip| clip.schedule == ClipSchedule::OscillatoryDecay)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_objective::{
        Covariance, Entropic, FractionOfInitial, LossTerms, Method, Minibatch, RepoR, objective,
    };
    use std::time::Duration;

    fn half_of_initial() -> TargetEntropy {
        TargetEntropy::OfInitial(FractionOfInitial { fraction_of_initial: 0.5 })
    }

    fn held(target: TargetEntropy) -> ObjectiveSettings {
        let covariance = Covariance {
            method: Method::KlCov,
            target_entropy: Some(target),
            ..Covariance::default()
        };
        ObjectiveSettings { covariance, ..ObjectiveSettings::default() }
    }

    fn sought(target: TargetEntropy) -> ObjectiveSettings {
        let entropy_bonus = EntropyBonus { target: Some(target), ..EntropyBonus::default() };
        ObjectiveSettings { entropy_bonus, ..ObjectiveSettings::default() }
    }

    #[test]
    fn a_share_of_what_no_checkpoint_knows_is_refused_by_key() {
        let unknown: EntropyControl = serde_json::from_str("{}").unwrap();
        for (settings, key) in [
            (held(half_of_initial()), "objective.covariance.target_entropy"),
            (sought(half_of_initial()), "objective.entropy_bonus.target"),
        ] {
            let error = unknown.check(&settings).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{key}.fraction_of_initial is a share")), "{error}");
            // A later rollout does not replace the first one's entropy.
            let mut metrics = Metrics::default();
            assert!(unknown.clone().begin_step(&settings, 7, Some(0.4), &mut metrics).is_err());
            let mut new = EntropyControl::default();
            new.begin_step(&settings, 1, Some(0.4), &mut metrics).unwrap();
            new.begin_step(&settings, 2, Some(0.3), &mut metrics).unwrap();
            assert_eq!(metrics.get("entropy/target"), Some(0.2));
            new.check(&settings).unwrap();
        }
        unknown.check(&held(TargetEntropy::Nats(0.3))).unwrap();
        unknown.check(&ObjectiveSettings::default()).unwrap();
    }

    #[test]
    fn entropics_target_is_the_runs() {
        let mut settings = ObjectiveSettings::default();
        settings.methods.entropic = Some(Entropic { target: 0.15, ..Entropic::default() });
        let mut metrics = Metrics::default();
        EntropyControl::default().begin_step(&settings, 1, Some(0.4), &mut metrics).unwrap();
        assert_eq!(metrics.get("entropy/target"), Some(0.15));
    }

    #[test]
    fn a_rollout_without_responses_moves_nothing() {
        let mut metrics = Metrics::default();
        let settings = held(TargetEntropy::Nats(0.3));
        let mut control = EntropyControl::default();
        let before = control.begin_step(&settings, 1, Some(0.28), &mut metrics).unwrap().steered();
        assert_eq!(control.begin_step(&settings, 2, None, &mut metrics).unwrap().steered(), before);
        let mut settings = sought(TargetEntropy::Nats(0.3));
        settings.entropy_bonus.delta = Some(0.01);
        let mut control = EntropyControl::default();
        let weight = |control: &mut EntropyControl, entropy| {
            control.begin_step(&settings, 2, entropy, &mut Metrics::default()).unwrap().bonus
        };
        let weights = [Some(0.2), None, Some(0.2)].map(|entropy| weight(&mut control, entropy));
        assert_eq!(weights, [0.0, 0.0, 0.01]);
    }

    #[test]
    fn entropics_errors_are_added_up_across_a_checkpoint_while_the_method_is_on() {
        let entropic = Entropic { target: 0.5, ..Entropic::default() };
        let methods = Methods { entropic: Some(entropic), ..Methods::default() };
        let on = ObjectiveSettings { methods, ..ObjectiveSettings::default() };
        let seen = |entropy: f64| {
            let terms = LossTerms::default();
            let array = &[entropy][..];
            let batch = Minibatch {
                lengths: &[1],
                logprobs: array,
                old_logprobs: array,
                truncation: None,
                entropies: array,
                old_entropies: array,
                advantages: array,
                terms,
            };
            let objective = objective(&on, &batch);
            BatchLoss { objective, entropy, objective_time: Duration::ZERO }
        };
        let mut control = EntropyControl::default();
        let begin = |control: &mut EntropyControl, settings: &ObjectiveSettings| {
            control.begin_methods(settings, 2, 0.5, Some(0.4));
            control.begin_step(settings, 2, Some(0.4), &mut Metrics::default()).unwrap()
        };
        let error = |control: &EntropyControl| control.run_state(0.5).entropy_error;
        let mut step = begin(&mut control, &on);
        for (entropy, sum) in [(0.75, 0.25), (1.0, 0.75), (0.25, 0.5)] {
            control.after_update(&on, &mut step, &seen(entropy));
            assert_eq!(error(&control), sum);
        }
        let saved = serde_json::to_string(&control).unwrap();
        let mut control: EntropyControl = serde_json::from_str(&saved).unwrap();
        begin(&mut control, &on);
        assert_eq!(error(&control), 0.5);
        let mut step = begin(&mut control, &ObjectiveSettings::default());
        control.after_update(&ObjectiveSettings::default(), &mut step, &seen(1.0));
        assert_eq!(error(&control), 0.0, "without the method nothing is added up");
    }

    /// The run began with 1 nat: entropy is raised from 0.2 on, and until it is above 0.6 at half
    /// of the run's steps.
    #[test]
    fn the_direction_of_the_oscillatory_decay_is_kept_across_a_checkpoint() {
        let schedule = ClipSchedule::OscillatoryDecay;
        let clip = FlexibleClip { schedule, ..FlexibleClip::default() };
        let methods = Methods { flexible_clip: Some(clip), ..Methods::default() };
        let settings = ObjectiveSettings { methods, ..ObjectiveSettings::default() };
        let mut control = EntropyControl::default();
        assert!(control.check(&settings).unwrap_err().to_string().contains("first rollout"));
        control.begin_step(&settings, 1, Some(1.0), &mut Metrics::default()).unwrap();
        for (progress, entropy, raises) in [
            (0.0, Some(1.0), false),
            (0.5, Some(0.5), false),
            (0.5, Some(0.2), true),
            (0.5, None, true),
            (0.5, Some(0.5), true),
            (0.9, Some(0.5), false),
        ] {
            let saved = serde_json::to_string(&control).unwrap();
            control = serde_json::from_str(&saved).unwrap();
            control.begin_methods(&settings, 2, progress, entropy);
            assert_eq!(control.run_state(progress).raises_entropy, raises, "{entropy:?}");
        }
        control.raises_entropy = true;
        control.begin_methods(&ObjectiveSettings::default(), 2, 0.5, Some(0.1));
        assert!(!control.run_state(0.5).raises_entropy, "without the method nothing is kept");
    }

    /// The initial entropy is the paper's target: the first step leaves zeta as it is.
    #[test]
    fn repos_zeta_goes_on_from_what_a_checkpoint_says_while_it_has_a_target() {
        let of_initial = FractionOfInitial { fraction_of_initial: 1.0 };
        let repo_r = RepoR {
            zeta: 0.01,
            target_entropy: Some(TargetEntropy::OfInitial(of_initial)),
            ..RepoR::default()
        };
        let methods = Methods { repo_r: Some(repo_r), ..Methods::default() };
        let settings = ObjectiveSettings { methods, ..ObjectiveSettings::default() };
        let mut control = EntropyControl::default();
        assert!(control.check(&settings).unwrap_err().to_string().contains("repo_r.target"));
        for (step, entropy, zeta) in [
            (1, Some(0.5), 0.01),
            (2, Some(0.4), 0.02),
            (3, None, 0.02),
            (4, Some(0.4), 0.04),
            (5, Some(0.4), 0.05),
            (6, Some(0.6), 0.025),
        ] {
            let saved = serde_json::to_string(&control).unwrap();
            control = serde_json::from_str(&saved).unwrap();
            let mut metrics = Metrics::default();
            control.begin_step(&settings, step, entropy, &mut metrics).unwrap();
            control.begin_methods(&settings, step, 0.5, entropy);
            let state = control.run_state(0.5).repo_zeta;
            assert_eq!((state, metrics.get("entropy/target")), (Some(zeta), Some(0.5)), "{step}");
        }
        control.begin_methods(&ObjectiveSettings::default(), 7, 0.5, Some(0.1));
        assert_eq!(control.run_state(0.5).repo_zeta, None, "without the method nothing is kept");
    }

    #[test]
    fn the_bonus_goes_on_from_what_a_checkpoint_says_while_it_has_a_target() {
        let settings = sought(TargetEntropy::Nats(0.3));
        let control =
            EntropyControl { bonus_coefficient: Some(0.015), ..EntropyControl::default() };
        let weight = |control: &mut EntropyControl, settings: &ObjectiveSettings| {
            control.begin_step(settings, 2, Some(0.2), &mut Metrics::default()).unwrap().bonus
        };
        let mut saved: EntropyControl =
            serde_json::from_str(&serde_json::to_string(&control).unwrap()).unwrap();
        saved.begin(&settings.entropy_bonus);
        assert_eq!(weight(&mut saved, &settings), 0.015);
        let fixed = EntropyBonus { coefficient: 0.004, ..EntropyBonus::default() };
        let fixed = ObjectiveSettings { entropy_bonus: fixed, ..ObjectiveSettings::default() };
        saved.begin(&fixed.entropy_bonus);
        assert_eq!(weight(&mut saved, &fixed), 0.004, "without a target, what the recipe says");
    }

    #[test]
    fn a_target_that_is_set_later_begins_with_the_recipes_weight() {
        let weight = |control: &mut EntropyControl, settings: &ObjectiveSettings, step| {
            control.begin(&settings.entropy_bonus);
            control.begin_step(settings, step, Some(0.2), &mut Metrics::default()).unwrap().bonus
        };
        let mut control = EntropyControl::default();
        assert_eq!(weight(&mut control, &ObjectiveSettings::default(), 1), 0.0);
        let mut settings = sought(TargetEntropy::Nats(0.3));
        settings.entropy_bonus.coefficient = 0.005;
        for step in [2, 3] {
            let saved = serde_json::to_string(&control).unwrap();
            control = serde_json::from_str(&saved).unwrap();
            assert_eq!(weight(&mut control, &settings, step), 0.005, "{step}");
        }
        settings.entropy_bonus.coefficient = 0.001;
        settings.entropy_bonus.max = 0.002;
        assert_eq!(weight(&mut control, &settings, 4), 0.002, "the largest weight is less now");
    }
}
