//! Supervised fine-tuning: the loop of its steps.
//!
//! The loss is the mean over the learnt tokens of a batch of their negative log-prob: cross-entropy on responses only.

mod prepare;
mod recipe;

pub use prepare::Prepared;
pub use recipe::{Recipe, Settings};

use crate::collect::Judge;
use crate::error::{Error, Result};
use crate::evaluation::{EvaluationSet, Evaluator};
use crate::examples::{TokenizedExample, tokenize};
use crate::learner::{Coefficients, Learner};
use crate::observer::{Observer, Phase, Progress};
use crate::optimizer::Optimizer;
use crate::plan::Plan;
use crate::prompts::Prompter;
use crate::run::{Ending, Record, Run, Summary};
use crate::run_directory::Place;
use isentrope_data::Examples;
use isentrope_kernels::Backend;
use isentrope_model::{Model, Sequence};
use isentrope_rollout::Sampling;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// The trainer's part of a checkpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct TrainerState {
    /// Examples taken from the source.
    position: u64,
}

fn train<B: Backend>(
    prepared: Prepared,
    place: &Place,
    backend: Arc<B>,
    manifest: serde_json::Value,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    let Prepared { recipe, model_dir, prompter, verifier, examples, held_out, sets, plan, .. } = prepared;
    let start = TrainerState::default();
    let (run, learner, state) =
        Run::open(place, &recipe.run, &recipe.checkpoint, manifest, start, observer, |found| match found {
            Some(found) => found.learner(backend.clone(), recipe.optimizer.clone(), plan.passes()),
            None => {
                let model = if recipe.model.from_scratch {
                    Model::initialize(&model_dir, recipe.run.seed, backend.clone())?
                } else {
                    Model::load(&model_dir, backend.clone())?
                };
                let optimizer = Optimizer::new(&model, recipe.optimizer.clone());
                Ok(Learner::new(model, optimizer, plan.passes()))
            }
        })?;
    let judge =
        Judge { verifier, overlong: recipe.reward.overlong.clone(), max_tokens: recipe.longest_response() };
    let trainer = Trainer {
        recipe: &recipe,
        model_dir: &model_dir,
        prompter: &prompter,
        judge: &judge,
        plan: &plan,
        sets: &sets,
        held_out,
        run,
        learner,
        state,
        examples,
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
    held_out: Vec<TokenizedExample>,
    // What changes from step to step.
    run: Run,
    learner: Learner<B>,
    state: TrainerState,
    examples: Examples,
    observer: &'a mut dyn Observer,
}

/// Examples that are too long, for one batch, before the run gives up.
const HOPELESS: usize = 100_000;

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

    /// One update.
    fn step(&mut self, record: &mut Record) -> Result<()> {
        let (batch, too_long) = record.clock.time("data", || self.next_batch())?;
        let sequences: Vec<Sequence<'_>> = batch.iter().map(TokenizedExample::sequence).collect();
        let learnt: usize = batch.iter().map(TokenizedExample::learnt).sum();
        let coefficients = Coefficients::cross_entropy(&batch, learnt);
        self.observer.progress(Progress { phase: Phase::Update, done: 0, total: 1, tokens: 0 });
        let learner = &mut self.learner;
        let scores = record.clock.time("update", || learner.accumulate_known(&sequences, 1.0, &coefficients));
        let learning_rate = self.recipe.optimizer.rate(self.run.step, self.recipe.run.steps);
        let update = record.clock.time("optimizer", || learner.step(learning_rate))?;
        let tokens = batch.iter().map(|e| e.tokens.len()).sum();
        record.clock.count("update", tokens);
        self.observer.progress(Progress { phase: Phase::Update, done: 1, total: 1, tokens });

        let metrics = &mut record.metrics;
        metrics.set("sft/loss", -mean_of_learnt(&batch, &scores.logprobs));
        metrics.set("sft/entropy", mean_of_learnt(&batch, &scores.entropies));
        metrics.set("sft/tokens", tokens as f64);
        metrics.set("sft/too_long", too_long as f64);
        metrics.set("grad/norm", update.norm);
        metrics.set("optimizer/learning_rate", learning_rate);
        metrics.set("optimizer/skipped", f64::from(self.learner.optimizer.progress.skipped));
        Ok(())
    }

    /// The next examples that are not too long, and how many were.
    fn next_batch(&mut self) -> Result<(Vec<TokenizedExample>, usize)> {
        let mut batch = Vec::new();
        let mut too_long = 0;
        while batch.len() < self.recipe.sft.batch {
            let example = tokenize(&self.examples.example(self.state.position), self.prompter)?;
            self.state.position += 1;
            if example.tokens.len() <= self.recipe.sft.max_tokens {
                batch.push(example);
                continue;
            }
            too_long += 1;
            if too_long == HOPELESS {
                let what = format!("{HOPELESS} examples for one batch have more tokens: raise it");
                return Err(Error::setting("sft.max_tokens", what));
            }
        }
        Ok((batch, too_long))
    }

    /// Measures the model on the held-out examples and problems, where due.
    fn evaluate(&mut self, record: &mut Record) -> Result<()> {
        let settings = &self.recipe.eval;
        if !settings.due(self.run.step, self.recipe.run.steps) {
            return Ok(());
        }
        if !self.held_out.is_empty() {
            let sequences: Vec<Sequence<'_>> = self.held_out.iter().map(TokenizedExample::sequence).collect();
            let scores = record.clock.time("eval", || self.learner.score(&sequences, 1.0));
            record.metrics.set("eval/loss", -mean_of_learnt(&self.held_out, &scores.logprobs));
        }
        if self.sets.is_empty() {
            return Ok(());
        }
        let evaluator = Evaluator {
            sampling: Sampling {
                eos_tokens: self.prompter.eos_tokens.clone(),
                stop_strings: settings.stop.clone().unwrap_or_default(),
                ..Sampling::default()
            },
            seed: self.recipe.run.seed,
            prompter: self.prompter,
            judge: self.judge,
            limits: self.plan.sampling(),
        };
        let model = &self.learner.model;
        evaluator.evaluate_all(model, self.sets, &mut self.run, record, self.observer)
    }
}

/// Mean over the learnt tokens of values that are one per scored token.
fn mean_of_learnt(examples: &[TokenizedExample], values: &[f32]) -> f64 {
    let learns = examples.iter().flat_map(TokenizedExample::learns);
    let (mut sum, mut count) = (0.0, 0usize);
    for (&value, _) in values.iter().zip(learns).filter(|(_, learns)| *learns) {
        sum += f64::from(value);
        count += 1;
    }
    sum / count.max(1) as f64
}
