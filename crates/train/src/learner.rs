//! The model with its gradient and its optimizer: one update from sequences and what is wanted of them.
//!
//! Reinforcement learning and SFT differ in nothing here: both give two numbers per token.

use crate::error::Result;
use crate::optimizer::{Optimizer, Update};
use isentrope_kernels::Backend;
use isentrope_model::checkpoint::Tensor;
use isentrope_model::{Gradient, Keep, Model, Packed, Scores, Sequence};
use std::ops::Range;

/// d(loss)/d(log-prob) and d(loss)/d(entropy) of each target, `[targets]`.
pub struct Coefficients {
    /// By log-prob.
    pub d_logprobs: Vec<f32>,
    /// By entropy.
    pub d_entropies: Vec<f32>,
}

/// What bounds a pass. The gradient's bits do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassLimits {
    /// Most tokens in one pass, more only where a single sequence is longer.
    pub micro_batch_tokens: usize,
    /// Bytes for what forward passes keep for the backward passes.
    pub tape_bytes: usize,
}

/// A model in training.
pub struct Learner<B: Backend> {
    /// The model.
    pub model: Model<B>,
    /// Its optimizer.
    pub optimizer: Optimizer<B>,
    gradient: Gradient<B>,
    limits: PassLimits,
}

impl<B: Backend> Learner<B> {
    /// Ready for the first update.
    pub fn new(model: Model<B>, optimizer: Optimizer<B>, limits: PassLimits) -> Self {
        let gradient = Gradient::zeros(&model);
        Self { model, optimizer, gradient, limits }
    }

    /// How many sequences go into each pass, in order.
    pub fn micro_batches(&self, sequences: &[Sequence<'_>]) -> Vec<usize> {
        micro_batches(sequences.iter().map(|s| s.tokens.len()), self.limits.micro_batch_tokens)
    }

    /// Log-probs and entropies of all targets under the model as it is.
    pub fn score(&self, sequences: &[Sequence<'_>], temperature: f32) -> Scores {
        self.score_with(&self.model, sequences, temperature)
    }

    /// The same under another model, in the same passes.
    pub fn score_with(&self, model: &Model<B>, sequences: &[Sequence<'_>], temperature: f32) -> Scores {
        let mut all = Scores::default();
        for batch in split(sequences, self.micro_batches(sequences)) {
            all.extend(model.score(&Packed::new(batch), temperature));
        }
        all
    }

    /// Accumulates the gradient of a loss that is a function of all targets' log-probs and entropies together, and returns
    /// what the loss says besides.
    ///
    /// `known` is what [`score`](Self::score) would return, where the sampler has returned it already: each pass can then
    /// go back right after it went forward, while what it keeps is still in the processor's cache. `idle` marks sequences
    /// about which the loss is expected to say nothing, `[sequences]`: they need no way back, since chains do not change by
    /// products with 0. A wrong expectation costs time and nothing else.
    pub fn accumulate<R>(
        &mut self,
        sequences: &[Sequence<'_>],
        idle: &[bool],
        temperature: f32,
        known: Option<Scores>,
        loss: impl FnOnce(&Scores) -> (Coefficients, R),
    ) -> R {
        let passes = self.passes(sequences, idle);
        let kept: usize = passes.iter().filter(|pass| !pass.idle).map(|pass| pass.tokens).sum();
        let keep = self.keep(kept).filter(|_| known.is_none());
        let is_known = known.is_some();
        let mut scores = known.unwrap_or_default();
        let mut tapes = Vec::with_capacity(passes.len());
        for pass in &passes {
            let packed = || Packed::new(&sequences[pass.sequences.clone()]);
            tapes.push(match keep {
                Some(keep) if !pass.idle => {
                    let (more, tape) = self.model.forward(packed(), temperature, keep);
                    scores.extend(more);
                    Some(tape)
                }
                _ => {
                    if !is_known {
                        scores.extend(self.model.score(&packed(), temperature));
                    }
                    None
                }
            });
        }
        let (Coefficients { d_logprobs, d_entropies }, said) = loss(&scores);
        for (pass, tape) in passes.into_iter().zip(tapes) {
            let (lp, h) = (&d_logprobs[pass.targets.clone()], &d_entropies[pass.targets.clone()]);
            if lp.iter().chain(h).all(|&coefficient| coefficient == 0.0) {
                continue;
            }
            let tape = tape.unwrap_or_else(|| {
                let packed = Packed::new(&sequences[pass.sequences]);
                let keep = self.keep(packed.token_count()).unwrap_or(Keep::BlockInputs);
                let (again, tape) = self.model.forward(packed, temperature, keep);
                debug_assert!(
                    again.same_bits(&scores.part(pass.targets)),
                    "log-probs depend on their company"
                );
                tape
            });
            self.model.backward(tape, lp, h, &mut self.gradient);
        }
        said
    }

    /// Accumulates the gradient of a loss whose derivatives are known beforehand, and returns the log-probs and
    /// entropies.
    pub fn accumulate_known(
        &mut self,
        sequences: &[Sequence<'_>],
        temperature: f32,
        coefficients: &Coefficients,
    ) -> Scores {
        let mut all = Scores::default();
        for batch in split(sequences, self.micro_batches(sequences)) {
            let packed = Packed::new(batch);
            let keep = self.keep(packed.token_count()).unwrap_or(Keep::BlockInputs);
            let (scores, tape) = self.model.forward(packed, temperature, keep);
            let range = all.logprobs.len()..all.logprobs.len() + scores.logprobs.len();
            all.extend(scores);
            let (d_logprobs, d_entropies) =
                (&coefficients.d_logprobs[range.clone()], &coefficients.d_entropies[range]);
            self.model.backward(tape, d_logprobs, d_entropies, &mut self.gradient);
        }
        all
    }

    /// The gradient of what has been accumulated, by parameter, to be looked at before [`step`](Self::step) takes it.
    pub fn gradient(&mut self) -> Vec<Tensor<'_>> {
        let Model { backend, layout, .. } = &self.model;
        self.gradient.finish(&self.model).tensors(backend, layout, "")
    }

    /// Updates the weights from what has been accumulated, and begins anew.
    ///
    /// # Errors
    /// As [`Optimizer::update`].
    pub fn step(&mut self, learning_rate: f64) -> Result<Update> {
        let gradient = self.gradient.finish(&self.model);
        let update = self.optimizer.update(&mut self.model, gradient, learning_rate);
        self.gradient.reset(&*self.model.backend);
        update
    }

    /// What forward passes over so many tokens can keep at a time, if anything.
    fn keep(&self, tokens: usize) -> Option<Keep> {
        [Keep::Activations, Keep::BlockInputs].into_iter().find(|&keep| {
            tokens.saturating_mul(self.model.layout.tape_bytes_per_token(keep)) <= self.limits.tape_bytes
        })
    }

    /// Micro-batches that are idle as a whole or not at all, in order.
    fn passes(&self, sequences: &[Sequence<'_>], idle: &[bool]) -> Vec<Pass> {
        assert_eq!(sequences.len(), idle.len());
        let mut passes = Vec::new();
        let (mut sequence, mut target) = (0, 0);
        for run in idle.chunk_by(|a, b| a == b) {
            for count in self.micro_batches(&sequences[sequence..sequence + run.len()]) {
                let batch = &sequences[sequence..sequence + count];
                let targets: usize = batch.iter().map(Sequence::target_count).sum();
                passes.push(Pass {
                    sequences: sequence..sequence + count,
                    targets: target..target + targets,
                    tokens: batch.iter().map(|s| s.tokens.len()).sum(),
                    idle: run[0],
                });
                sequence += count;
                target += targets;
            }
        }
        passes
    }
}

/// What goes through the model at a time.
struct Pass {
    sequences: Range<usize>,
    targets: Range<usize>,
    tokens: usize,
    idle: bool,
}

/// Consecutive sequences whose tokens together are at most `limit`, or a single longer one; returns how many each.
fn micro_batches(lengths: impl Iterator<Item = usize>, limit: usize) -> Vec<usize> {
    let mut counts = Vec::new();
    let mut tokens = usize::MAX;
    for length in lengths {
        match counts.last_mut() {
            Some(count) if length.saturating_add(tokens) <= limit => *count += 1,
            _ => {
                counts.push(1);
                tokens = 0;
            }
        }
        tokens += length;
    }
    counts
}

fn split<'a, 's>(
    mut sequences: &'a [Sequence<'s>],
    counts: Vec<usize>,
) -> impl Iterator<Item = &'a [Sequence<'s>]> {
    counts.into_iter().map(move |count| {
        let (batch, rest) = sequences.split_at(count);
        sequences = rest;
        batch
    })
}

#[cfg(test)]
mod tests {
    use super::micro_batches;

    #[test]
    fn micro_batches_hold_what_fits() {
        let split = |lengths: &[usize], limit| micro_batches(lengths.iter().copied(), limit);
        assert_eq!(split(&[3, 3, 3, 3], 6), [2, 2]);
        assert_eq!(split(&[3, 3, 3, 3], 7), [2, 2]);
        assert_eq!(split(&[9, 1, 1, 9], 2), [1, 2, 1]);
        assert_eq!(split(&[1, 2, 3], 100), [3]);
        assert!(split(&[], 5).is_empty());
    }
}
