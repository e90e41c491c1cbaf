//! Reinforcement learning: the two halves of a step in the loop of `training_loop.rs`.
//!
//! Sample and judge ([`collect`](crate::collect)), turn rewards into advantages, update on one
//! minibatch of prompts after the other ([`minibatch`](crate::minibatch), by the derivatives of
//! [`isentrope_objective`]), measure.

mod distillation;
mod entropy_control;
mod laws;
mod prepare;
mod prime;
mod recipe;
mod theory;

pub use laws::Laws;
pub use prime::{Order, PrimeSettings};
pub use recipe::{Recipe, Update};

use self::entropy_control::{EntropyControl, StepControl};
use self::theory::{PolicyBefore, States};
use crate::advantage::{
    group_advantages, nothing_to_learn, share_without_signal, trained_advantages,
};
use crate::collect::{CollectedRollout, Collector};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::metrics::Metrics;
use crate::minibatch::{BatchLoss, LossInputs, Teaching, TrainingBatch};
use crate::observer::{Observer, Phase, Progress};
use crate::run::{Heading, StepRecord};
use crate::teacher::taught_prompt;
use crate::token_records::{DroppedRecords, TokenRecords};
use crate::trainer::{CollectContext, LearnContext, Tables, Trainer, TrainingRecipe};
use isentrope_data::{FileHash, Problem, Source};
use isentrope_environment::EnvironmentSettings;
use isentrope_evaluation::Evaluation;
use isentrope_objective::{Alarms, DrawKey, LossTerms, Statistics, larger};
use isentrope_reward::RewardSettings;
use isentrope_rollout::{Prompter, Response, Sampling};
use isentrope_trace::span;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;

/// The trainer's part of a checkpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TrainerState {
    /// Problems taken from the source.
    position: u64,
    /// Groups left over from the last step.
    surplus: Vec<Group>,
    alarms: Alarms,
    #[serde(default)]
    entropy_control: EntropyControl,
    /// The entropy law over the run's scheduled evaluations.
    #[serde(default)]
    laws: Laws,
}

/// Learns from sampled responses by the gradient of the policy.
pub struct PolicyGradient {
    recipe: Recipe,
    source: Source,
}

impl Trainer for PolicyGradient {
    type State = TrainerState;
    type Collected = CollectedRollout;

    fn tables(&self) -> Tables<'_> {
        self.recipe.tables()
    }

    fn data_files(&self) -> &[FileHash] {
        self.source.files()
    }

    fn preview(&mut self, prompter: &Prompter, count: usize) -> Result<Vec<String>> {
        (0..count as u64).map(|i| Ok(prompter.text(&self.source.problem(i))?)).collect()
    }

    fn preview_taught(&mut self, prompter: &Prompter) -> Result<Option<String>> {
        let Some(question) = self.recipe.teacher_prompt() else { return Ok(None) };
        let mut problem = self.source.problem(0);
        problem.prompt = taught_prompt(question, &problem)
            .map_err(|what| Error::Run(format!("{}: {what}", problem.origin)))?;
        Ok(Some(prompter.text(&problem)?))
    }

    fn first_problem(&mut self) -> Option<Problem> {
        Some(self.source.problem(0))
    }

    fn begin(&self, checkpoint: Option<TrainerState>) -> TrainerState {
        let mut state = checkpoint.unwrap_or_default();
        state.entropy_control.begin(&self.recipe.objective.entropy_bonus);
        state
    }

    fn check(&self, checkpoint: &TrainerState) -> Result<()> {
        checkpoint.entropy_control.check(&self.recipe.objective)
    }

    fn samples(&self) -> bool {
        true
    }

    /// One rollout: samples and judges groups of responses, and keeps every response in a file.
    fn collect(
        &mut self,
        state: &TrainerState,
        context: &mut CollectContext<'_>,
    ) -> Result<CollectedRollout> {
        let mut file = context.directory.rollouts(context.step)?;
        let sampling = Arc::new(self.recipe.sampling(context.prompter));
        let (weights, arithmetic) = (context.checksum, &context.directory.arithmetic);
        let heading = journal_heading(&self.recipe, &sampling, weights, arithmetic)?;
        let mut journal =
            context.directory.journal(context.step, context.ranks.rank(), &heading)?;
        context.ranks.any(false)?; // all know what there is before anyone writes more
        journal.begin_writing()?;
        let (step, known, turns) = (context.step, journal.known(), journal.known_turns());
        if known > 0 {
            context.observer.note(&format!(
                "step {step}: {known} of its responses were sampled before the run was broken off, \
                 and are not sampled again"
            ));
        }
        if turns > 0 {
            context.observer.note(&format!(
                "step {step}: {turns} turns of its unfinished episodes were sampled before the run \
                 was broken off; the environment is given them again, and the episodes go on from \
                 there"
            ));
        }
        if let Some(why) = journal.unused() {
            context.observer.note(&format!(
                "step {step}: some responses from before the run was broken off cannot be used, \
                 and are sampled again: {why}"
            ));
        }
        if !journal.damage().is_empty() {
            context.observer.note(&format!(
                "step {step}: what was sampled before the run was broken off is damaged from here \
                 on, and is sampled again: {}",
                journal.damage().join(", ")
            ));
        }
        let started = Instant::now();
        let rollout = span("rollout");
        let collector = Collector {
            recipe: &self.recipe,
            sampling,
            position: state.position,
            carried: state.surplus.len(),
            journal,
            source: &mut self.source,
            context,
        };
        let collected = collector.collect(&mut |group| file.group(group))?;
        drop(rollout);
        let clock = &mut context.record.clock;
        clock.add("rollout", started.elapsed());
        file.finish()?;
        clock.add("verify", collected.waited);
        clock.add("verdicts", collected.verdicts);
        clock.count("rollout", collected.statistics.tokens() - collected.journalled);
        context.record.moved_responses = collected.moved;
        Ok(collected)
    }

    /// The rollout's updates, one per minibatch of prompts.
    fn learn(
        &self,
        collected: CollectedRollout,
        state: &mut TrainerState,
        context: &mut LearnContext<'_>,
    ) -> Result<()> {
        let objective = &self.recipe.objective;
        let entropy = collected.statistics.entropy();
        let (groups, dropped) = self.take_groups(collected, state, context);
        let metrics = &mut context.record.metrics;
        let mut control =
            state.entropy_control.begin_step(objective, context.step, entropy, metrics)?;
        let progress = self.progress(context.step);
        state.entropy_control.begin_methods(objective, context.step, progress, entropy);
        let mut advantages = match objective.is_prime() {
            true => prime::advantages(&self.recipe, &groups, context)?,
            false => group_advantages(objective, &groups),
        };
        distillation::add_teaching(&self.recipe, &groups, &mut advantages, context)?;
        let learnt = trained_advantages(&groups, &advantages, self.recipe.reward.mask_truncated);
        let taught_prompts = distillation::taught_prompts(&self.recipe, &groups, &learnt, context)?;
        let is_trained_on = |group: usize, sample: usize| learnt[group][sample].is_some();
        // With `track_theory` the whole rollout is scored anyway, so scoring all records costs
        // little more.
        let scores_all = self.recipe.lab.track_theory;
        let mut records =
            TokenRecords::choose(&groups, is_trained_on, &state.surplus, dropped, scores_all);
        let other_terms = self.recipe.has_terms_without_advantage(control.bonus);
        let limits = match &self.recipe.environment {
            None => "rollout.max_tokens",
            Some(_) => "rollout.max_tokens or environment.max_turns",
        };
        if let Some(why) = nothing_to_learn(&advantages, &learnt, other_terms, limits) {
            context.observer.note(&why);
        }
        let temperature = self.recipe.rollout.temperature;
        let prompts = self.recipe.prompts_per_update();
        let states = States { groups: &groups, learnt: &learnt, prompts, temperature };
        let mut before = None;
        if self.recipe.lab.track_theory {
            context.observer.progress(measuring(0));
            let LearnContext { learner, record, .. } = context;
            before = Some(record.clock.time("theory", || PolicyBefore::measure(states, learner))?);
        }
        let minibatches = || TrainingBatch::minibatches(&groups, &learnt, prompts);
        let reference_logprobs = self.reference_logprobs(minibatches(), context)?;
        let entropy_slopes = self.entropy_slopes(minibatches(), context)?;
        if let Some(share) = share_without_signal(&learnt, objective.has_reverse_kl()) {
            context.record.metrics.set("update/groups_without_signal", share);
        }
        let epochs = (0..self.recipe.update.epochs).flat_map(|_| minibatches());
        let statistics = self.run_updates(
            epochs,
            [&reference_logprobs, &entropy_slopes],
            taught_prompts.as_deref(),
            &mut control,
            &mut state.entropy_control,
            &mut records,
            context,
        )?;
        let LearnContext { learner, record, .. } = context;
        let has_updated = !statistics.is_empty();
        let finish = || records.finish(learner, temperature, has_updated);
        record.tokens = record.clock.time("records", finish)?;
        if let Some(before) = before {
            context.observer.progress(measuring(1));
            let StepRecord { metrics, clock, .. } = context.record;
            clock.time("theory", || before.compare(states, context.learner, metrics))?;
            context.observer.progress(measuring(2));
        }
        let idle = state.alarms.after_step(&objective.covariance, &statistics);
        let idle_methods = state.alarms.after_step_of_methods(objective, &statistics);
        let saturated = state.entropy_control.after_step(objective, &control, &statistics);
        idle.iter()
            .chain(&idle_methods)
            .chain(&saturated)
            .for_each(|alarm| context.observer.note(alarm));
        Ok(())
    }

    fn evaluated(
        &self,
        step: u64,
        evaluations: &[Evaluation],
        state: &mut TrainerState,
        record: &mut StepRecord,
        observer: &mut dyn Observer,
    ) {
        let mut laws = state.laws.clone();
        for alarm in laws.evaluated(step, evaluations, record) {
            observer.note(&alarm);
        }
        // A longer run would not evaluate here if evaluation is due only because the run ends.
        if step.is_multiple_of(self.recipe.eval.every) {
            state.laws = laws;
        }
    }

    fn laws(&self, state: &TrainerState, step: u64, latest: &[Evaluation]) -> Vec<String> {
        state.laws.sentences(step, latest)
    }
}

impl PolicyGradient {
    /// The updates of a step, one after the other; a minibatch without responses makes none.
    /// Records the gradients' norms and the statistics, and returns the statistics of each update.
    #[allow(clippy::too_many_arguments, reason = "the inputs of the updates, and their results")]
    fn run_updates(
        &self,
        minibatches: impl Iterator<Item = TrainingBatch>,
        [reference_logprobs, entropy_slopes]: [&[Option<Vec<f64>>]; 2],
        taught_prompts: Option<&[Vec<u32>]>,
        control: &mut StepControl,
        entropy_control: &mut EntropyControl,
        records: &mut TokenRecords,
        context: &mut LearnContext<'_>,
    ) -> Result<Vec<Statistics>> {
        let (seed, step) = (self.recipe.run.seed, context.step);
        let objective = &self.recipe.objective;
        let model = distillation::frozen_teacher(&self.recipe, context);
        let teaching = taught_prompts.map(|prompts| Teaching { model, prompts });
        let (mut norms, mut statistics, mut tokens) = (Vec::new(), Vec::new(), 0);
        let total = self.recipe.update.epochs.saturating_mul(reference_logprobs.len());
        context.observer.progress(Progress { phase: Phase::Update, done: 0, total, tokens });
        // All epochs have the same minibatches.
        let known = reference_logprobs.iter().zip(entropy_slopes).cycle();
        let updates = minibatches.zip(known).enumerate();
        for (number, (batch, (reference_logprobs, entropy_slopes))) in updates {
            let _span = span("minibatch").with("number", number).with("tokens", batch.all_tokens());
            if !batch.is_empty() {
                let inputs = LossInputs {
                    settings: objective,
                    temperature: self.recipe.rollout.temperature,
                    on_policy_step: (number == 0).then_some(step),
                    terms: LossTerms {
                        reference_logprobs: reference_logprobs.as_deref(),
                        entropy_slopes: entropy_slopes.as_deref(),
                        entropy_coefficient: control.bonus,
                        steered: control.steered(),
                        key: DrawKey { seed, step, update: number as u64 },
                        run: entropy_control.run_state(self.progress(step)),
                    },
                    teaching,
                };
                let (loss, norm) = update(&batch, &inputs, context)?;
                entropy_control.after_update(objective, control, &loss);
                records.learn(number + 1, &batch, &loss.objective);
                norms.push(norm);
                statistics.push(loss.objective.statistics);
            }
            tokens += batch.response_tokens();
            let done = number + 1;
            context.observer.progress(Progress { phase: Phase::Update, done, total, tokens });
        }
        record_updates(&norms, &statistics, &mut context.record.metrics);
        let router_use = context.learner.take_router_use()?;
        context.record.metrics.set_router_use(router_use.as_ref());
        Ok(statistics)
    }

    /// Share of the run's steps before this one.
    fn progress(&self, step: u64) -> f64 {
        step.saturating_sub(1) as f64 / self.recipe.run.steps.max(1) as f64
    }

    /// The groups to learn from: the groups carried over, then the groups just collected. Groups
    /// beyond `rollout.prompts` are carried over to the next step. Also returns the responses that
    /// the filter has dropped.
    fn take_groups(
        &self,
        collected: CollectedRollout,
        state: &mut TrainerState,
        context: &mut LearnContext<'_>,
    ) -> (Vec<Group>, DroppedRecords) {
        let metrics = &mut context.record.metrics;
        collected.statistics.record(metrics);
        let wanted = self.recipe.rollout.prompts; // fewer than before, perhaps, where a run goes on
        metrics.set("rollout/carried", state.surplus.len().min(wanted) as f64);
        let mut groups = std::mem::take(&mut state.surplus);
        groups.extend(collected.groups);
        state.surplus = groups.split_off(groups.len().min(wanted));
        state.position += collected.taken;
        record_filtered(&groups, metrics);
        if let Some((count, fault)) = collected.statistics.faults() {
            let what = format!(
                "{count} responses could not be judged and are left out; the first: {fault}"
            );
            context.observer.note(&what);
        }
        if let Some(note) = collected.statistics.failures_note() {
            context.observer.note(&note);
        }
        if let Some(note) = collected.statistics.metrics_note() {
            context.observer.note(&note);
        }
        (groups, collected.dropped)
    }

    /// Log-probs of each minibatch's tokens under the reference model, where the loss needs them.
    /// No update changes them: all epochs have the same.
    fn reference_logprobs(
        &self,
        minibatches: impl ExactSizeIterator<Item = TrainingBatch>,
        context: &mut LearnContext<'_>,
    ) -> Result<Vec<Option<Vec<f64>>>> {
        let LearnContext { learner, reference, record, observer, .. } = context;
        let Some(reference) = reference.filter(|_| self.recipe.objective.needs_reference()) else {
            return Ok(vec![None; minibatches.len()]);
        };
        let logprobs = |batch: &TrainingBatch| {
            batch.logprobs(reference, learner, self.recipe.rollout.temperature)
        };
        let scored = || of_each(minibatches, Phase::Reference, *observer, logprobs);
        record.clock.time("reference", scored)
    }

    /// Slopes of the entropy of each minibatch's tokens under the present weights, where a method
    /// needs them. They are those before the step's first update in all its epochs.
    fn entropy_slopes(
        &self,
        minibatches: impl ExactSizeIterator<Item = TrainingBatch>,
        context: &mut LearnContext<'_>,
    ) -> Result<Vec<Option<Vec<f64>>>> {
        if !self.recipe.objective.needs_entropy_slopes() {
            return Ok(vec![None; minibatches.len()]);
        }
        let LearnContext { learner, record, observer, .. } = context;
        let slopes = |batch: &TrainingBatch| {
            let (_, slopes) = batch.entropy_slopes(learner, self.recipe.rollout.temperature)?;
            Ok(slopes.into_iter().map(f64::from).collect())
        };
        let measured = || of_each(minibatches, Phase::Measurement, *observer, slopes);
        record.clock.time("slopes", measured)
    }
}

/// The heading of a rollout's journal. The choice of trained responses changes none of them, and is
/// not part of it; nor is their number, unless a verifier judges all of a group together.
fn journal_heading(
    recipe: &Recipe,
    sampling: &Sampling,
    weights: u64,
    arithmetic: &str,
) -> Result<Heading> {
    let RewardSettings { verifier, overlong, mask_truncated: _ } = &recipe.reward;
    let drawn_by = (sampling, verifier, overlong, recipe.run.seed);
    let answers = recipe.environment.as_ref().map(EnvironmentSettings::of_answers);
    let group = verifier.judges_groups().then_some(recipe.rollout.responses);
    match (answers, group) {
        (None, None) => Heading::new(weights, arithmetic, &drawn_by),
        (Some(answers), None) => Heading::new(weights, arithmetic, &(drawn_by, answers)),
        (answers, Some(group)) => Heading::new(weights, arithmetic, &(drawn_by, answers, group)),
    }
}

/// The numbers of each minibatch; none of one that is empty.
fn of_each(
    minibatches: impl ExactSizeIterator<Item = TrainingBatch>,
    phase: Phase,
    observer: &mut dyn Observer,
    mut numbers: impl FnMut(&TrainingBatch) -> Result<Vec<f64>>,
) -> Result<Vec<Option<Vec<f64>>>> {
    let (mut tokens, total) = (0, minibatches.len());
    let of_minibatch = |(done, batch): (usize, TrainingBatch)| {
        observer.progress(Progress { phase, done, total, tokens });
        tokens += batch.all_tokens();
        (!batch.is_empty()).then(|| numbers(&batch)).transpose()
    };
    minibatches.enumerate().map(of_minibatch).collect()
}

/// One update: the loss of its minibatch, and the norm of its gradient.
fn update(
    batch: &TrainingBatch,
    inputs: &LossInputs<'_>,
    context: &mut LearnContext<'_>,
) -> Result<(BatchLoss, f64)> {
    let LearnContext { learner, learning_rate, record, .. } = context;
    let clock = &mut record.clock;
    let loss = clock.time("update", || batch.accumulate(learner, inputs))?;
    clock.add("objective", loss.objective_time);
    if !batch.is_idle(inputs) {
        clock.count("update", batch.all_tokens()); // else there was next to nothing to do
    }
    let norm = clock.time("optimizer", || learner.step(*learning_rate))?;
    Ok((loss, norm))
}

/// Progress of the two passes that measure how a step changed the policy.
fn measuring(done: usize) -> Progress {
    Progress { phase: Phase::Measurement, done, total: 2, tokens: 0 }
}

/// Records the entropies of the groups that passed the filter.
fn record_filtered(groups: &[Group], metrics: &mut Metrics) {
    let responses = || groups.iter().flat_map(|g| &g.responses);
    let of_tokens = responses().flat_map(|r| &r.entropies).map(|&h| f64::from(h)).sum();
    let tokens = responses().map(Response::sampled_tokens).sum();
    let of_responses = responses().map(Response::entropy).sum();
    metrics.set_mean("policy/entropy_filtered", of_responses, responses().count());
    metrics.set_mean("policy/entropy_token_mean_filtered", of_tokens, tokens);
}

/// Records the gradients' norms and the statistics of a step's updates.
fn record_updates(norms: &[f64], statistics: &[Statistics], metrics: &mut Metrics) {
    metrics.set("update/count", norms.len() as f64);
    if !norms.is_empty() {
        metrics.set("grad/norm", norms.iter().sum::<f64>() / norms.len() as f64);
        metrics.set("grad/norm_max", norms.iter().copied().fold(0.0, larger));
    }
    for (name, value) in Statistics::metrics(statistics) {
        metrics.set(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_number_of_responses_matters_to_a_judge_of_groups_alone() {
        let heading = |batch: &str, responses| {
            let mut recipe = Recipe::default();
            let verifier = json!({ "python": "reward.py:f", "batch": batch });
            recipe.reward.verifier = serde_json::from_value(verifier).unwrap();
            recipe.rollout.responses = responses;
            recipe.reward.mask_truncated = responses == 4;
            journal_heading(&recipe, &Sampling::default(), 7, "f32").unwrap()
        };
        assert_eq!(heading("response", 8), heading("response", 4));
        assert_eq!(heading("group", 8), heading("group", 8));
        assert_ne!(heading("group", 8), heading("group", 4));
    }

    /// An update whose gradient is not a number was skipped, and does not look like a calm one.
    #[test]
    fn the_largest_norm_is_no_number_if_one_of_them_is_none() {
        let largest = |norms: &[f64]| {
            let mut metrics = Metrics::default();
            record_updates(norms, &[], &mut metrics);
            metrics.get("grad/norm_max").unwrap()
        };
        assert_eq!(largest(&[0.5, 2.0, 1.0]), 2.0);
        for norms in [&[f64::NAN][..], &[0.5, f64::NAN, 1.0], &[f64::NAN, 0.5]] {
            assert!(largest(norms).is_nan(), "{norms:?}");
        }
    }
}
