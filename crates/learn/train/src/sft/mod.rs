//! Supervised fine-tuning: the step that the loop calls in `training_loop.rs`.
//!
//! The loss is the mean over the learnt tokens of a batch of their negative log-prob: cross-entropy
//! on responses only.

mod prepare;
mod recipe;

pub use recipe::{Recipe, SftSettings};

use crate::error::{Error, Result};
use crate::examples::{TokenizedExample, tokenize};
use crate::learner::{Coefficients, Learner};
use crate::observer::{Phase, Progress};
use crate::run::StepRecord;
use crate::trainer::{CollectContext, LearnContext, Tables, Trainer, TrainingRecipe};
use isentrope_data::{Examples, FileHash};
use isentrope_model::Sequence;
use isentrope_rollout::Prompter;
use serde::{Deserialize, Serialize};

/// The trainer's part of a checkpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TrainerState {
    /// Examples taken from the source.
    position: u64,
}

/// Learns to imitate examples.
pub struct FineTuning {
    recipe: Recipe,
    examples: Examples,
    held_out: Vec<TokenizedExample>,
}

/// The examples of an update.
pub struct Batch {
    examples: Vec<TokenizedExample>,
    /// The number of examples passed over because they are longer than `sft.max_tokens`.
    too_long: usize,
    /// The first example after them.
    position: u64,
}

/// Most examples in a row that are too long, before the run gives up.
const HOPELESS: usize = 100_000;

impl Trainer for FineTuning {
    type State = TrainerState;
    type Collected = Batch;

    fn tables(&self) -> Tables<'_> {
        self.recipe.tables()
    }

    fn data_files(&self) -> &[FileHash] {
        self.examples.files()
    }

    fn preview(&mut self, prompter: &Prompter, count: usize) -> Result<Vec<String>> {
        let mut text =
            |i| tokenize(&self.examples.example(i), prompter)?.marked(&prompter.tokenizer);
        (0..count as u64).map(&mut text).collect()
    }

    fn begin(&self, checkpoint: Option<TrainerState>) -> TrainerState {
        checkpoint.unwrap_or_default()
    }

    fn samples(&self) -> bool {
        false
    }

    /// The next examples.
    fn collect(&mut self, state: &TrainerState, context: &mut CollectContext<'_>) -> Result<Batch> {
        let clock = &mut context.record.clock;
        clock.time("data", || self.next_batch(state.position, context.prompter))
    }

    /// One update.
    fn learn(
        &self,
        batch: Batch,
        state: &mut TrainerState,
        context: &mut LearnContext<'_>,
    ) -> Result<()> {
        let Batch { examples, too_long, position } = batch;
        state.position = position;
        let LearnContext { learner, learning_rate, record, observer, .. } = context;
        let sequences: Vec<Sequence<'_>> =
            examples.iter().map(TokenizedExample::sequence).collect();
        let learnt: usize = examples.iter().map(TokenizedExample::learnt).sum();
        let mut weights = Coefficients::cross_entropy(&examples, learnt);
        observer.progress(Progress { phase: Phase::Update, done: 0, total: 1, tokens: 0 });
        let coefficient = self.recipe.sft.router_aux_coefficient;
        if coefficient != 0.0 {
            let measure = || learner.router_balance(&sequences);
            let balance = record.clock.time("update", measure)?;
            record.metrics.set("router/balance_loss", balance.loss());
            weights.d_experts = balance.slopes(coefficient);
        }
        let scores = record
            .clock
            .time("update", || learner.accumulate_weighted(&sequences, 1.0, &weights))?;
        let norm = record.clock.time("optimizer", || learner.step(*learning_rate))?;
        let tokens = examples.iter().map(|e| e.tokens.len()).sum();
        record.clock.count("update", tokens);
        observer.progress(Progress { phase: Phase::Update, done: 1, total: 1, tokens });

        let metrics = &mut record.metrics;
        metrics.set("sft/loss", -mean_of_learnt(&examples, &scores.logprobs));
        metrics.set("sft/entropy", mean_of_learnt(&examples, &scores.entropies));
        metrics.set("sft/tokens", tokens as f64);
        metrics.set("sft/too_long", too_long as f64);
        metrics.set("grad/norm", norm);
        metrics.set_router_use(learner.take_router_use()?.as_ref());
        Ok(())
    }

    /// The loss on the held-out examples.
    fn evaluate(&self, learner: &Learner, record: &mut StepRecord) -> Result<()> {
        if self.held_out.is_empty() {
            return Ok(());
        }
        let sequences: Vec<Sequence<'_>> =
            self.held_out.iter().map(TokenizedExample::sequence).collect();
        let scores = record.clock.time("eval", || learner.score(&sequences, 1.0))?;
        record.metrics.set("eval/loss", -mean_of_learnt(&self.held_out, &scores.logprobs));
        Ok(())
    }
}

impl FineTuning {
    /// The next examples from a position on that are not too long.
    fn next_batch(&mut self, position: u64, prompter: &Prompter) -> Result<Batch> {
        let mut batch = Batch { examples: Vec::new(), too_long: 0, position };
        while batch.examples.len() < self.recipe.sft.batch {
            let example = tokenize(&self.examples.example(batch.position), prompter)?;
            batch.position += 1;
            if example.tokens.len() <= self.recipe.sft.max_tokens {
                batch.examples.push(example);
                continue;
            }
            batch.too_long += 1;
            if batch.too_long == HOPELESS {
                let what = format!("{HOPELESS} examples for one batch have more tokens: raise it");
                return Err(Error::setting("sft.max_tokens", what));
            }
        }
        Ok(batch)
    }
}

/// Mean over the learnt tokens of `values`, which has one per scored token.
fn mean_of_learnt(examples: &[TokenizedExample], values: &[f32]) -> f64 {
    let learns = examples.iter().flat_map(TokenizedExample::learns);
    let (mut sum, mut count) = (0.0, 0usize);
    for (&value, _) in values.iter().zip(learns).filter(|(_, learns)| *learns) {
        sum += f64::from(value);
        count += 1;
    }
    sum / count.max(1) as f64
}
