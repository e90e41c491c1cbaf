//! The recipe of reinforcement learning.

use crate::collect;
use crate::error::{Error, Result};
use crate::settings::{self, Checkpoints, MemorySettings, ModelSource};
use isentrope_evaluation::EvaluationSettings;
use isentrope_rollout::{Prompter, Sampling, check_stop_texts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most responses of a rollout.
const RESPONSES: usize = 1 << 20;

/// A recipe for reinforcement learning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// The run as a whole.
    pub run: settings::Run,
    /// The model that is trained.
    pub model: ModelSource,
    /// What is trained on: problems for `train`, examples for `sft`.
    pub data: isentrope_data::DataSettings,
    /// Responses that are sampled to learn from.
    pub rollout: collect::RolloutSettings,
    /// What a response is worth; for `sft`, in evaluations.
    pub reward: isentrope_reward::RewardSettings,
    /// The loss.
    pub objective: isentrope_objective::ObjectiveSettings,
    /// How a rollout is cut into updates.
    pub update: Update,
    /// AdamW, its schedule and gradient clipping.
    pub optimizer: settings::Optimizer,
    /// Evaluation on held-out problems during the run.
    pub eval: EvaluationSettings,
    /// What is saved, and how often.
    pub checkpoint: Checkpoints,
    /// What the run may use. Nothing here changes a result.
    pub memory: MemorySettings,
}

/// How a rollout is cut into updates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Update {
    /// Prompts of one minibatch, with all their responses: one optimizer update. Unset: all prompts of the rollout, so one
    /// update on the very policy that sampled.
    #[schemars(range(min = 1))]
    pub prompts: Option<usize>,
    /// How many times the updates go through a rollout.
    #[schemars(range(min = 1, max = 65536))]
    pub epochs: usize,
}

impl Default for Update {
    fn default() -> Self {
        Self { prompts: None, epochs: 1 }
    }
}

impl Recipe {
    /// Updates made from one rollout.
    pub fn updates_per_rollout(&self) -> usize {
        self.update.epochs.saturating_mul(self.rollout.prompts.div_ceil(self.prompts_per_update()))
    }

    pub(super) fn prompts_per_update(&self) -> usize {
        self.update.prompts.unwrap_or(self.rollout.prompts)
    }

    /// Writes out what unset keys come to when they follow from other keys.
    pub(super) fn fill_in(&mut self) {
        self.update.prompts.get_or_insert(self.rollout.prompts);
        let covariance = &mut self.objective.covariance;
        covariance.fraction = covariance.fraction.or(covariance.resolved_fraction());
    }

    /// Checks every key and what keys say together.
    ///
    /// # Errors
    /// Names the first key that is wrong.
    pub fn check(&self) -> Result<()> {
        self.model.check()?;
        isentrope_settings::check("", self)?;
        if self.model.from_scratch {
            let what =
                "is true: random weights solve nothing to learn from; train them with `isentrope sft` first";
            return Err(Error::setting("model.from_scratch", what));
        }
        if self.rollout.prompts.saturating_mul(self.rollout.responses) > RESPONSES {
            let what = format!(
                "is {} and rollout.responses is {}: together they may ask for at most {RESPONSES} responses",
                self.rollout.prompts, self.rollout.responses
            );
            return Err(Error::setting("rollout.prompts", what));
        }
        check_stop_texts(&self.rollout.stop).map_err(|what| Error::setting("rollout.stop", what))?;
        if let Some(prompts) = self.update.prompts
            && prompts > self.rollout.prompts
        {
            let what =
                format!("is {prompts}: it must be from 1 to rollout.prompts ({})", self.rollout.prompts);
            return Err(Error::setting("update.prompts", what));
        }
        if self.rollout.filter && self.rollout.responses == 1 {
            let what =
                "is true, and with rollout.responses = 1 every group has but one score: all would be dropped";
            return Err(Error::setting("rollout.filter", what));
        }
        self.data.check()?;
        self.reward.check(self.rollout.max_tokens)?;
        self.objective.check()?;
        self.optimizer.check()?;
        Ok(self.eval.check()?)
    }

    /// Whether every update is on-policy: no group is carried over from an earlier step, and none is trained on after another
    /// update.
    pub(super) fn on_policy(&self) -> bool {
        self.updates_per_rollout() == 1 && !self.rollout.filter
    }

    /// Sentences about settings that are allowed but hardly meant.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.objective.warnings(self.updates_per_rollout(), self.rollout.filter);
        warnings.extend(self.optimizer.warning(self.run.steps));
        let (all, each) = (self.rollout.prompts, self.prompts_per_update());
        if !all.is_multiple_of(each) {
            warnings.push(format!(
                "update.prompts = {each} does not divide rollout.prompts = {all}: the last update of a rollout has but {} of \
                 them, at the same learning rate",
                all % each
            ));
        }
        warnings
    }

    pub(super) fn sampling(&self, prompter: &Prompter) -> Sampling {
        let sampling = Sampling {
            temperature: self.rollout.temperature,
            top_k: self.rollout.top_k,
            top_p: self.rollout.top_p,
            min_p: self.rollout.min_p,
            max_tokens: self.rollout.max_tokens,
            eos_tokens: prompter.eos_tokens.clone(),
            stop_strings: self.rollout.stop.clone(),
            ..Sampling::default()
        };
        Sampling { records_kept: sampling.truncates(), ..sampling }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recipe that is sound.
    fn sound() -> Recipe {
        let mut recipe = Recipe::default();
        recipe.model.path = "model".into();
        recipe.data.task = Some(isentrope_data::TaskName::Countdown);
        recipe.check().unwrap();
        recipe
    }

    #[test]
    fn rollouts_and_updates_beyond_all_memory_are_refused_by_key() {
        for (prompts, responses, epochs, key) in [
            (usize::MAX, 1, 1, "rollout.prompts"),
            (100_000_000, 1, 1, "rollout.prompts"),
            (1, usize::MAX, 1, "rollout.prompts"),
            (1 << 32, 1 << 32, 1, "rollout.prompts"),
            (1 << 17, 9, 1, "rollout.prompts"),
            (64, 8, usize::MAX, "update.epochs"),
            (64, 8, 65537, "update.epochs"),
        ] {
            let mut recipe = sound();
            (recipe.rollout.prompts, recipe.rollout.responses) = (prompts, responses);
            recipe.update.epochs = epochs;
            let error = recipe.check().unwrap_err().to_string();
            let most = if key == "update.epochs" { "from 1 to 65536" } else { "at most 1048576 responses" };
            assert!(error.starts_with(&format!("{key} is ")) && error.contains(most), "{error}");
        }
        let mut recipe = sound();
        (recipe.rollout.prompts, recipe.rollout.responses, recipe.update.epochs) = (1 << 17, 8, 65536);
        recipe.check().unwrap();
    }

    #[test]
    fn an_empty_stop_text_is_refused_by_key() {
        let mut recipe = sound();
        recipe.rollout.stop = vec!["\n".into(), String::new()];
        let error = recipe.check().unwrap_err().to_string();
        assert!(error.starts_with("rollout.stop holds an empty text"), "{error}");
    }

    #[test]
    fn a_minibatch_that_is_left_over_is_warned_of() {
        let warnings = |prompts| {
            let mut recipe = sound();
            recipe.update.prompts = prompts;
            recipe.warnings()
        };
        for prompts in [None, Some(64), Some(16), Some(1)] {
            assert_eq!(warnings(prompts), [""; 0]);
        }
        let [said] = &warnings(Some(63))[..] else { panic!("one warning is due") };
        assert!(said.contains("update.prompts = 63 does not divide rollout.prompts = 64"), "{said}");
        assert!(said.contains("has but 1 of them"), "{said}");
    }
}
