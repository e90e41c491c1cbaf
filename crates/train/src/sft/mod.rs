//! Supervised fine-tuning: what a step is in the loop of `training_loop.rs`.
//!
//! The loss is the mean over the learnt tokens of a batch of their negative log-prob: cross-entropy on responses only.

mod prepare;
mod recipe;

pub use prepare::Prepared;
pub use recipe::{Recipe, Settings};

use crate::error::{Error, Result};
use crate::examples::{TokenizedExample, tokenize};
use crate::learner::{Coefficients, Learner};
use crate::observer::{Phase, Progress};
use crate::run::StepRecord;
use crate::training_loop::{Trainer, TrainingLoop};
use isentrope_data::Examples;
use isentrope_kernels::Backend;
use isentrope_model::Sequence;
use isentrope_rollout::Prompter;
use serde::{Deserialize, Serialize};

/// The trainer's part of a checkpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct TrainerState {
    /// Examples taken from the source.
    position: u64,
}

struct FineTuning<'a> {
    recipe: &'a Recipe,
    prompter: &'a Prompter,
    held_out: Vec<TokenizedExample>,
    examples: Examples,
}

type Training<'a, B> = TrainingLoop<'a, B, TrainerState>;

/// Examples that are too long, for one batch, before the run gives up.
const HOPELESS: usize = 100_000;

impl<B: Backend> Trainer<B> for FineTuning<'_> {
    type State = TrainerState;

    /// One update.
    fn step(&mut self, training: &mut Training<'_, B>, record: &mut StepRecord) -> Result<()> {
        let mut position = training.state.position;
        let (batch, too_long) = record
            .clock
            .time("data", || self.next_batch(&mut position))
            .map_err(|error| training.abandon_step(error))?;
        training.state.position = position;
        let sequences: Vec<Sequence<'_>> = batch.iter().map(TokenizedExample::sequence).collect();
        let learnt: usize = batch.iter().map(TokenizedExample::learnt).sum();
        let coefficients = Coefficients::cross_entropy(&batch, learnt);
        training.observer.progress(Progress { phase: Phase::Update, done: 0, total: 1, tokens: 0 });
        let learner = &mut training.learner;
        let scores = record.clock.time("update", || learner.accumulate_known(&sequences, 1.0, &coefficients));
        let learning_rate = self.recipe.optimizer.rate(training.run.step, self.recipe.run.steps);
        let update = record.clock.time("optimizer", || learner.step(learning_rate))?;
        let tokens = batch.iter().map(|e| e.tokens.len()).sum();
        record.clock.count("update", tokens);
        training.observer.progress(Progress { phase: Phase::Update, done: 1, total: 1, tokens });

        let metrics = &mut record.metrics;
        metrics.set("sft/loss", -mean_of_learnt(&batch, &scores.logprobs));
        metrics.set("sft/entropy", mean_of_learnt(&batch, &scores.entropies));
        metrics.set("sft/tokens", tokens as f64);
        metrics.set("sft/too_long", too_long as f64);
        metrics.set("grad/norm", update.norm);
        metrics.set("optimizer/learning_rate", learning_rate);
        metrics.set("optimizer/skipped", f64::from(training.learner.optimizer.progress.skipped));
        Ok(())
    }

    /// The loss on the held-out examples.
    fn evaluate(&self, learner: &Learner<B>, record: &mut StepRecord) {
        if self.held_out.is_empty() {
            return;
        }
        let sequences: Vec<Sequence<'_>> = self.held_out.iter().map(TokenizedExample::sequence).collect();
        let scores = record.clock.time("eval", || learner.score(&sequences, 1.0));
        record.metrics.set("eval/loss", -mean_of_learnt(&self.held_out, &scores.logprobs));
    }
}

impl FineTuning<'_> {
    /// The next examples from a position on that are not too long, and how many were.
    fn next_batch(&mut self, position: &mut u64) -> Result<(Vec<TokenizedExample>, usize)> {
        let mut batch = Vec::new();
        let mut too_long = 0;
        while batch.len() < self.recipe.sft.batch {
            let example = tokenize(&self.examples.example(*position), self.prompter)?;
            *position += 1;
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
