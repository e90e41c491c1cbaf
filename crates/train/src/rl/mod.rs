//! Reinforcement learning: what a step is in the loop of `training_loop.rs`.
//!
//! Sample and judge ([`collect`](crate::collect)), turn rewards into advantages, update on one minibatch of prompts
//! after the other ([`minibatch`](crate::minibatch), with what [`isentrope_objective`] says), measure.

mod prepare;
mod recipe;

pub use prepare::Prepared;
pub use recipe::{Recipe, Update};

use crate::advantage::{group_advantages, nothing_to_learn};
use crate::collect::Collector;
use crate::error::Result;
use crate::group::Group;
use crate::learner::Learner;
use crate::metrics::Metrics;
use crate::minibatch::{LossInputs, TrainingBatch};
use crate::observer::{Phase, Progress};
use crate::run::StepRecord;
use crate::training_loop::{Trainer, TrainingLoop};
use isentrope_data::Source;
use isentrope_kernels::Backend;
use isentrope_model::Model;
use isentrope_objective::{Alarms, DrawKey, Statistics};
use isentrope_rollout::{Judge, Prompter, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The trainer's part of a checkpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct TrainerState {
    /// Problems taken from the source.
    position: u64,
    /// Groups left over from the last step.
    surplus: Vec<Group>,
    /// Weight of the entropy bonus.
    entropy_coefficient: f64,
    alarms: Alarms,
}

struct PolicyGradient<'a, B: Backend> {
    recipe: &'a Recipe,
    prompter: &'a Prompter,
    judge: &'a Judge,
    reference: Option<Model<B>>,
    source: Source,
}

type Training<'a, B> = TrainingLoop<'a, B, TrainerState>;

impl<B: Backend> Trainer<B> for PolicyGradient<'_, B> {
    type State = TrainerState;

    /// One rollout and its updates.
    fn step(&mut self, training: &mut Training<'_, B>, record: &mut StepRecord) -> Result<()> {
        let groups = self.rollout(training, record).map_err(|error| training.abandon_step(error))?;
        let advantages = group_advantages(self.recipe.objective.advantage, &groups);
        let other_terms = training.state.entropy_coefficient != 0.0 || self.reference.is_some();
        if let Some(why) = nothing_to_learn(&advantages, other_terms) {
            training.observer.note(why);
        }
        let learning_rate = self.recipe.optimizer.rate(training.run.step, self.recipe.run.steps);
        let prompts = self.recipe.prompts_per_update();
        let epochs = self.recipe.update.epochs;
        let minibatches = (0..epochs).flat_map(|_| groups.chunks(prompts).zip(advantages.chunks(prompts)));
        let mut totals = UpdateTotals::default();
        let (mut tokens, total) = (0, epochs.saturating_mul(groups.len().div_ceil(prompts)));
        training.observer.progress(Progress { phase: Phase::Update, done: 0, total, tokens });
        for (number, (groups, advantages)) in minibatches.enumerate() {
            let batch = TrainingBatch::new(groups, advantages, self.recipe.reward.mask_truncated);
            if !batch.is_empty() {
                self.update(training, number, &batch, learning_rate, record, &mut totals)?;
            }
            tokens += batch.response_tokens();
            training.observer.progress(Progress { phase: Phase::Update, done: number + 1, total, tokens });
        }
        totals.record(&mut record.metrics);
        record.metrics.set("optimizer/learning_rate", learning_rate);
        record.metrics.set("optimizer/skipped", f64::from(training.learner.optimizer.progress.skipped));
        let covariance = &self.recipe.objective.covariance;
        if let Some(alarm) = training.state.alarms.after_step(covariance, &totals.statistics) {
            training.observer.note(&alarm);
        }
        Ok(())
    }
}

impl<B: Backend> PolicyGradient<'_, B> {
    /// Samples and judges the groups to learn from, and keeps every response in a file. The trainer's state changes only
    /// when all of it has succeeded.
    fn rollout(&mut self, training: &mut Training<'_, B>, record: &mut StepRecord) -> Result<Vec<Group>> {
        let collector = Collector {
            settings: &self.recipe.rollout,
            sampling: Arc::new(self.recipe.sampling(self.prompter)),
            seed: self.recipe.run.seed,
            greedy: self.recipe.objective.needs_greedy_baseline(),
            prompter: self.prompter,
            judge: self.judge,
            limits: training.plan.sampling(),
            first_update: self.recipe.prompts_per_update(),
        };
        let mut file = training.run.directory.rollouts(training.run.step)?;
        let TrainerState { position, ref surplus, .. } = training.state;
        let (step, carried) = (training.run.step, surplus.len());
        let collected = record.clock.time("rollout", || {
            let seen = &mut |group: &Group| file.group(group);
            let Learner { model, recording, .. } = &mut training.learner;
            if let Some(recording) = recording {
                recording.clear();
            }
            let (recording, source) = (recording.as_mut(), &mut self.source);
            collector.collect(model, recording, source, step, position, carried, seen, training.observer)
        })?;
        file.finish()?;
        training.trim_if_tight();

        record.clock.add("verify", collected.verification);
        record.clock.count("rollout", collected.statistics.tokens());
        collected.statistics.record(&mut record.metrics);
        record.metrics.set("rollout/carried", carried as f64);
        let mut groups = std::mem::take(&mut training.state.surplus);
        groups.extend(collected.groups);
        training.state.surplus = groups.split_off(groups.len().min(self.recipe.rollout.prompts));
        training.state.position += collected.taken;
        record_filtered(&groups, &mut record.metrics);
        if let Some((count, fault)) = collected.statistics.faults() {
            let what = format!("{count} responses could not be judged and are left out; the first: {fault}");
            training.observer.note(&what);
        }
        Ok(groups)
    }

    /// The update `number` of this step.
    fn update(
        &self,
        training: &mut Training<'_, B>,
        number: usize,
        batch: &TrainingBatch,
        learning_rate: f64,
        record: &mut StepRecord,
        totals: &mut UpdateTotals,
    ) -> Result<()> {
        let temperature = self.recipe.rollout.temperature;
        let reference_logprobs =
            self.reference.as_ref().map(|model| batch.logprobs(model, &training.learner, temperature));
        let inputs = LossInputs {
            settings: &self.recipe.objective,
            temperature,
            on_policy: (number == 0).then_some(training.run.step),
            reference_logprobs: reference_logprobs.as_deref(),
            entropy_coefficient: training.state.entropy_coefficient,
            key: DrawKey { seed: self.recipe.run.seed, step: training.run.step, update: number as u64 },
        };
        let loss = record.clock.time("update", || batch.accumulate(&mut training.learner, &inputs));
        record.clock.add("objective", loss.objective_time);
        if !batch.is_idle(&inputs) {
            record.clock.count("update", batch.all_tokens()); // else there was next to nothing to do
        }
        let update = record.clock.time("optimizer", || training.learner.step(learning_rate))?;
        let bonus = &self.recipe.objective.entropy_bonus;
        training.state.entropy_coefficient =
            bonus.next_coefficient(training.state.entropy_coefficient, loss.entropy);
        totals.add(loss.objective.statistics, update.norm);
        Ok(())
    }
}

/// The entropies of what is trained on, after the filter.
fn record_filtered(groups: &[Group], metrics: &mut Metrics) {
    let responses = || groups.iter().flat_map(|g| &g.responses);
    let count = responses().count().max(1) as f64;
    let tokens = responses().map(|r| r.tokens.len()).sum::<usize>().max(1) as f64;
    let of_tokens: f64 = responses().flat_map(|r| &r.entropies).map(|&h| f64::from(h)).sum();
    metrics.set("policy/entropy_filtered", responses().map(Response::entropy).sum::<f64>() / count);
    metrics.set("policy/entropy_token_mean_filtered", of_tokens / tokens);
}

/// What a step's updates measured.
#[derive(Default)]
struct UpdateTotals {
    statistics: Vec<Statistics>,
    norms: Vec<f64>,
}

impl UpdateTotals {
    fn add(&mut self, statistics: Statistics, norm: f64) {
        self.statistics.push(statistics);
        self.norms.push(norm);
    }

    fn record(&self, metrics: &mut Metrics) {
        let count = self.norms.len() as f64;
        metrics.set("update/count", count);
        if self.norms.is_empty() {
            return;
        }
        metrics.set("grad/norm", self.norms.iter().sum::<f64>() / count);
        metrics.set("grad/norm_max", self.norms.iter().copied().fold(0.0, f64::max));
        for (name, value) in Statistics::metrics(&self.statistics) {
            metrics.set(name, value);
        }
    }
}
