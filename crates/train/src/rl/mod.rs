//! Reinforcement learning: the loop of its steps.
//!
//! A step: sample and judge ([`collect`](crate::collect)), turn rewards into advantages, update on one minibatch of prompts
//! after the other ([`minibatch`](crate::minibatch), with what [`isentrope_objective`] says), measure, evaluate, save.

mod prepare;
mod recipe;

pub use prepare::Prepared;
pub use recipe::{Recipe, Update};

use crate::collect::{Collector, Judge};
use crate::error::Result;
use crate::evaluation::{EvaluationSet, Evaluator};
use crate::group::{Group, Response};
use crate::learner::Learner;
use crate::metrics::Metrics;
use crate::minibatch::{LossInputs, TrainingBatch, group_advantages};
use crate::observer::{Observer, Phase, Progress};
use crate::optimizer::Optimizer;
use crate::plan::Plan;
use crate::prompts::Prompter;
use crate::run::{Ending, Record, Run, Summary};
use crate::run_directory::Place;
use isentrope_data::Source;
use isentrope_kernels::Backend;
use isentrope_model::Model;
use isentrope_objective::{Alarms, DrawKey, Statistics};
use isentrope_rollout::Sampling;
use serde::{Deserialize, Serialize};
use std::path::Path;
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

fn train<B: Backend>(
    prepared: Prepared,
    place: &Place,
    backend: Arc<B>,
    manifest: serde_json::Value,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    let Prepared { recipe, model_dir, prompter, verifier, source, sets, plan, .. } = prepared;
    let start = TrainerState {
        entropy_coefficient: recipe.objective.entropy_bonus.coefficient,
        ..TrainerState::default()
    };
    let (run, learner, mut state) =
        Run::open(place, &recipe.run, &recipe.checkpoint, manifest, start, observer, |found| match found {
            Some(found) => found.learner(backend.clone(), recipe.optimizer.clone(), plan.passes()),
            None => {
                let model = Model::load(&model_dir, backend.clone())?;
                let optimizer = Optimizer::new(&model, recipe.optimizer.clone());
                Ok(Learner::new(model, optimizer, plan.passes()))
            }
        })?;
    let bonus = &recipe.objective.entropy_bonus;
    if bonus.target.is_none() {
        state.entropy_coefficient = bonus.coefficient; // it may have been changed since the checkpoint
    }
    let needs_reference = recipe.objective.needs_reference();
    let reference = needs_reference.then(|| Model::load(&model_dir, backend)).transpose()?;
    let judge =
        Judge { verifier, overlong: recipe.reward.overlong.clone(), max_tokens: recipe.rollout.max_tokens };
    let trainer = Trainer {
        recipe: &recipe,
        model_dir: &model_dir,
        prompter: &prompter,
        judge: &judge,
        plan: &plan,
        sets: &sets,
        reference,
        run,
        learner,
        state,
        source,
        observer,
    };
    trainer.run()
}

struct Trainer<'a, B: Backend> {
    // What the run was given.
    recipe: &'a Recipe,
    model_dir: &'a Path,
    prompter: &'a Prompter,
    judge: &'a Judge,
    plan: &'a Plan,
    sets: &'a [EvaluationSet],
    reference: Option<Model<B>>,
    // What changes from step to step.
    run: Run,
    learner: Learner<B>,
    state: TrainerState,
    source: Source,
    observer: &'a mut dyn Observer,
}

impl<B: Backend> Trainer<'_, B> {
    fn run(mut self) -> Result<Summary> {
        if self.run.step == 0 {
            let mut record = Record::default();
            self.evaluate(&mut record)?;
            self.run.record(record, self.observer)?;
            if self.observer.stop_requested() {
                return Ok(self.run.summary(Ending::Interrupted, self.sets)); // there is nothing to save
            }
        }
        while self.run.step < self.recipe.run.steps {
            self.run.begin_step();
            let mut record = Record::default();
            self.step(&mut record)?;
            self.evaluate(&mut record)?;
            self.run.record(record, self.observer)?;
            if self.run.save_if_due(&self.learner, self.model_dir, &self.state, self.observer)? {
                return Ok(self.run.summary(Ending::Interrupted, self.sets));
            }
        }
        Ok(self.run.summary(Ending::Complete, self.sets))
    }

    /// One rollout and its updates.
    fn step(&mut self, record: &mut Record) -> Result<()> {
        let groups = self.rollout(record)?;
        let advantages = group_advantages(self.recipe.objective.advantage, &groups);
        if advantages.iter().flatten().flatten().all(|&advantage| advantage == 0.0) {
            self.observer
                .note("no two rewards differ within a group: there is nothing to learn from in this step");
        }
        let learning_rate = self.recipe.optimizer.rate(self.run.step, self.recipe.run.steps);
        let prompts = self.recipe.prompts_per_update();
        let minibatches: Vec<_> = (0..self.recipe.update.epochs)
            .flat_map(|_| groups.chunks(prompts).zip(advantages.chunks(prompts)))
            .collect();
        let mut totals = UpdateTotals::default();
        let (mut tokens, total) = (0, minibatches.len());
        self.observer.progress(Progress { phase: Phase::Update, done: 0, total, tokens });
        for (number, (groups, advantages)) in minibatches.iter().enumerate() {
            tokens += self.update(number, groups, advantages, learning_rate, record, &mut totals)?;
            self.observer.progress(Progress { phase: Phase::Update, done: number + 1, total, tokens });
        }
        self.trim_if_tight();
        totals.record(&mut record.metrics);
        record.metrics.set("optimizer/learning_rate", learning_rate);
        record.metrics.set("optimizer/skipped", f64::from(self.learner.optimizer.progress.skipped));
        let covariance = &self.recipe.objective.covariance;
        if let Some(alarm) = self.state.alarms.after_step(covariance, &totals.statistics) {
            self.observer.note(&alarm);
        }
        Ok(())
    }

    /// Samples and judges the groups to learn from, and keeps every response in a file.
    fn rollout(&mut self, record: &mut Record) -> Result<Vec<Group>> {
        let collector = Collector {
            settings: &self.recipe.rollout,
            sampling: Arc::new(self.recipe.sampling(self.prompter)),
            seed: self.recipe.run.seed,
            greedy: self.recipe.objective.needs_greedy_baseline(),
            prompter: self.prompter,
            judge: self.judge,
            limits: self.plan.sampling(),
            first_update: self.recipe.prompts_per_update(),
        };
        let mut file = self.run.directory.rollouts(self.run.step)?;
        let carried = std::mem::take(&mut self.state.surplus);
        let (step, position) = (self.run.step, self.state.position);
        let collected = record.clock.time("rollout", || {
            let seen = &mut |group: &Group| file.group(group);
            let Learner { model, recording, .. } = &mut self.learner;
            if let Some(recording) = recording {
                recording.clear();
            }
            let (recording, source) = (recording.as_mut(), &mut self.source);
            collector.collect(model, recording, source, step, position, carried, seen, self.observer)
        })?;
        file.finish()?;
        self.trim_if_tight();

        record.clock.add("verify", collected.verification);
        record.clock.count("rollout", collected.statistics.tokens());
        collected.statistics.record(&mut record.metrics);
        record.metrics.set("rollout/carried", collected.carried as f64);
        record_filtered(&collected.groups, &mut record.metrics);
        if let Some((count, fault)) = collected.statistics.faults() {
            let what = format!("{count} responses could not be judged and are left out; the first: {fault}");
            self.observer.note(&what);
        }
        self.state.position += collected.taken;
        self.state.surplus = collected.surplus;
        Ok(collected.groups)
    }

    /// The update `number` of this step, on a minibatch of groups. Returns how many tokens it trained on.
    fn update(
        &mut self,
        number: usize,
        groups: &[Group],
        advantages: &[Vec<Option<f64>>],
        learning_rate: f64,
        record: &mut Record,
        totals: &mut UpdateTotals,
    ) -> Result<usize> {
        let batch = TrainingBatch::new(groups, advantages, self.recipe.reward.mask_truncated);
        if batch.is_empty() {
            return Ok(0);
        }
        let temperature = self.recipe.rollout.temperature;
        let reference_logprobs =
            self.reference.as_ref().map(|model| batch.logprobs(model, &self.learner, temperature));
        let inputs = LossInputs {
            settings: &self.recipe.objective,
            temperature,
            on_policy: (number == 0).then_some(self.run.step),
            reference_logprobs: reference_logprobs.as_deref(),
            entropy_coefficient: self.state.entropy_coefficient,
            key: DrawKey { seed: self.recipe.run.seed, step: self.run.step, update: number as u64 },
        };
        let loss = record.clock.time("update", || batch.accumulate(&mut self.learner, &inputs));
        record.clock.add("objective", loss.objective_time);
        if !batch.is_idle(&inputs) {
            record.clock.count("update", batch.all_tokens()); // else there was next to nothing to do
        }
        let update = record.clock.time("optimizer", || self.learner.step(learning_rate))?;
        let bonus = &self.recipe.objective.entropy_bonus;
        self.state.entropy_coefficient = bonus.next_coefficient(self.state.entropy_coefficient, loss.entropy);
        totals.add(loss.objective.statistics, update.norm);
        Ok(batch.response_tokens())
    }

    /// Measures the policy on the held-out sets, where due.
    fn evaluate(&mut self, record: &mut Record) -> Result<()> {
        let settings = &self.recipe.eval;
        if self.sets.is_empty() || !settings.due(self.run.step, self.recipe.run.steps) {
            return Ok(());
        }
        let stop = settings.stop.as_ref().unwrap_or(&self.recipe.rollout.stop);
        let evaluator = Evaluator {
            sampling: Sampling { stop_strings: stop.clone(), ..self.recipe.sampling(self.prompter) },
            seed: self.recipe.run.seed,
            prompter: self.prompter,
            judge: self.judge,
            limits: self.plan.sampling(),
        };
        let model = &self.learner.model;
        evaluator.evaluate_all(model, self.sets, &mut self.run, record, self.observer)
    }

    /// Gives what a phase has freed back to the system, where the next would not fit beside it.
    fn trim_if_tight(&self) {
        if self.plan.is_tight() {
            self.learner.model.backend.trim();
        }
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

    /// Counts are summed over the updates, largest values are the largest, all others are means.
    fn record(&self, metrics: &mut Metrics) {
        let count = self.norms.len() as f64;
        metrics.set("update/count", count);
        if self.norms.is_empty() {
            return;
        }
        metrics.set("grad/norm", self.norms.iter().sum::<f64>() / count);
        metrics.set("grad/norm_max", self.norms.iter().copied().fold(0.0, f64::max));
        let updates: Vec<_> = self.statistics.iter().map(Statistics::metrics).collect();
        for (i, &(name, first)) in updates[0].iter().enumerate() {
            let values = updates.iter().map(|update| update[i].1);
            let value = match name {
                "cov/selected" | "cov/eligible" => values.sum(),
                "cov/max" | "policy/ratio_max" => values.fold(first, f64::max),
                _ => values.sum::<f64>() / count,
            };
            metrics.set(name, value);
        }
    }
}
