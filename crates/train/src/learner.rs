//! The model with its gradient and its optimizer: one update from sequences and what is wanted of them.
//!
//! Reinforcement learning and SFT differ in nothing here: both give two numbers per token.

use crate::error::Result;
use crate::optimizer::{Optimizer, Update};
use isentrope_kernels::Backend;
use isentrope_model::checkpoint::Tensor;
use isentrope_model::{Gradient, Keep, Model, Packed, Recording, Scores, Sequence, Unit, apart, units};
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
    /// Most tokens in one pass, more only where a single unit of sequences is larger.
    pub micro_batch_tokens: usize,
    /// Bytes for what forward passes keep for the backward passes.
    pub tape_bytes: usize,
    /// Tokens whose activations can be kept from sampling.
    pub recorded_tokens: usize,
}

impl PassLimits {
    /// What forward passes over so many tokens can keep at a time, if anything.
    fn keep<B: Backend>(&self, model: &Model<B>, tokens: usize) -> Option<Keep> {
        let bytes = |keep| model.layout.tape_bytes_per_token(&*model.backend, keep);
        [Keep::Activations, Keep::BlockInputs]
            .into_iter()
            .find(|&keep| tokens.saturating_mul(bytes(keep)) <= self.tape_bytes)
    }
}

/// What the sampler knows of a sequence, if its model was the one in training.
#[derive(Clone)]
pub struct Known<'a> {
    /// Of its targets.
    pub scores: Scores,
    /// Where the learner's recording has its inputs, if it does.
    pub slots: Option<&'a [u32]>,
}

/// Tokens of the text that a model is tried on.
const PROBE: usize = 64;

/// A model in training.
pub struct Learner<B: Backend> {
    /// The model.
    pub model: Model<B>,
    /// Its optimizer.
    pub optimizer: Optimizer<B>,
    /// For the sampler's activations, if there is memory for any.
    pub recording: Option<Recording<B>>,
    gradient: Gradient<B>,
    limits: PassLimits,
}

impl<B: Backend> Learner<B> {
    /// Ready for the first update.
    ///
    /// # Errors
    /// When there is no memory for the gradient or the recording.
    pub fn new(model: Model<B>, optimizer: Optimizer<B>, limits: PassLimits) -> Result<Self> {
        let gradient = Gradient::zeros(&model)?;
        let slots = limits.recorded_tokens;
        let recording = (slots > 0).then(|| Recording::new(&model, slots)).transpose()?;
        Ok(Self { model, optimizer, recording, gradient, limits })
    }

    /// How many sequences go into each pass, in order.
    pub fn micro_batches(&self, sequences: &[Sequence<'_>]) -> Vec<usize> {
        let batches = micro_batches(&units(sequences), self.limits.micro_batch_tokens);
        batches.into_iter().map(|batch| batch.sequences).collect()
    }

    /// Log-probs and entropies of all targets under the model as it is.
    pub fn score(&self, sequences: &[Sequence<'_>], temperature: f32) -> Scores {
        self.score_with(&self.model, sequences, temperature)
    }

    /// Whether the model still tells probabilities: of a short text of many different tokens.
    pub fn tells_probabilities(&self) -> bool {
        let length = PROBE.min(self.model.config.vocab_size).min(self.model.config.context());
        let tokens: Vec<u32> = (0..length as u32).collect();
        let scores = self.score(&[Sequence { tokens: &tokens, score_from: 1 }], 1.0);
        scores.logprobs.iter().chain(&scores.entropies).all(|number| number.is_finite())
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
    /// `known` is what the sampler has returned already, `[sequences]`: a pass that is known as a whole can go back right
    /// after it went forward, while what it keeps is still in the processor's cache, and one that is recorded as a whole need
    /// not go forward at all. `idle` marks sequences about which the loss is expected to say nothing, `[sequences]`: they need
    /// no way back, since chains do not change by products with 0. A wrong expectation costs time and nothing else.
    pub fn accumulate<R>(
        &mut self,
        sequences: &[Sequence<'_>],
        idle: &[bool],
        temperature: f32,
        known: &[Option<Known<'_>>],
        loss: impl FnOnce(&Scores) -> (Coefficients, R),
    ) -> R {
        assert_eq!(sequences.len(), known.len());
        let passes = self.passes(sequences, idle);
        let Self { model, recording, gradient, limits, .. } = self;
        let known_of = |pass: &Pass| -> Option<Vec<&Known<'_>>> {
            known[pass.sequences.clone()].iter().map(Option::as_ref).collect()
        };
        let kept = passes.iter().filter(|pass| !pass.idle && known_of(pass).is_none());
        let keep = limits.keep(model, kept.map(|pass| pass.tokens).sum());
        let mut scores = Scores::default();
        let mut tapes = Vec::with_capacity(passes.len());
        for pass in &passes {
            let packed = || Packed::new(&sequences[pass.sequences.clone()]);
            tapes.push(match (known_of(pass), keep) {
                (Some(known), _) => {
                    known.into_iter().for_each(|known| scores.extend(known.scores.clone()));
                    None
                }
                (None, Some(keep)) if !pass.idle => {
                    let (more, tape) = model.forward(packed(), temperature, keep);
                    scores.extend(more);
                    Some(tape)
                }
                _ => {
                    scores.extend(model.score(&packed(), temperature));
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
                let packed = Packed::new(&sequences[pass.sequences.clone()]);
                let slots = known[pass.sequences].iter().map(|known| known.as_ref()?.slots).collect();
                let (again, tape) = match (&*recording, slots) {
                    (Some(recording), Some::<Vec<_>>(slots)) => {
                        model.recall(packed, temperature, recording, &slots)
                    }
                    _ => {
                        let keep = limits.keep(model, packed.token_count());
                        model.forward(packed, temperature, keep.unwrap_or(Keep::BlockInputs))
                    }
                };
                debug_assert!(
                    again.same_bits(&scores.part(pass.targets)),
                    "log-probs depend on their company"
                );
                tape
            });
            model.backward(tape, lp, h, gradient);
        }
        said
    }

    /// Accumulates the gradient of a loss whose derivatives are known beforehand, and returns the log-probs and
    /// entropies. No sequence shares its prompt with the next: examples to imitate hardly ever have the same one.
    pub fn accumulate_known(
        &mut self,
        sequences: &[Sequence<'_>],
        temperature: f32,
        coefficients: &Coefficients,
    ) -> Scores {
        let mut all = Scores::default();
        let batches = micro_batches(&apart(sequences), self.limits.micro_batch_tokens);
        for batch in split(sequences, batches.into_iter().map(|batch| batch.sequences)) {
            let packed = Packed::apart(batch);
            let keep = self.limits.keep(&self.model, packed.token_count());
            let keep = keep.unwrap_or(Keep::BlockInputs);
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

    /// Micro-batches that are idle as a whole or not at all, in order.
    fn passes(&self, sequences: &[Sequence<'_>], idle: &[bool]) -> Vec<Pass> {
        assert_eq!(sequences.len(), idle.len());
        let mut rest = idle;
        let units: Vec<(Unit, bool)> = units(sequences)
            .into_iter()
            .map(|unit| {
                let (own, others) = rest.split_at(unit.sequences);
                rest = others;
                (unit, own.iter().all(|&idle| idle))
            })
            .collect();
        let mut passes = Vec::new();
        let (mut sequence, mut target) = (0, 0);
        for alike in units.chunk_by(|a, b| a.1 == b.1) {
            let idle = alike[0].1;
            let alike: Vec<Unit> = alike.iter().map(|&(unit, _)| unit).collect();
            for Unit { sequences: count, tokens } in micro_batches(&alike, self.limits.micro_batch_tokens) {
                let batch = sequence..sequence + count;
                let targets: usize = sequences[batch.clone()].iter().map(Sequence::target_count).sum();
                passes.push(Pass { sequences: batch, targets: target..target + targets, tokens, idle });
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

/// Consecutive units whose tokens together are at most `limit`, or a single larger one; returns the sum of each.
fn micro_batches(units: &[Unit], limit: usize) -> Vec<Unit> {
    let mut batches: Vec<Unit> = Vec::new();
    for unit in units {
        match batches.last_mut() {
            Some(batch) if batch.tokens.saturating_add(unit.tokens) <= limit => {
                batch.sequences += unit.sequences;
                batch.tokens += unit.tokens;
            }
            _ => batches.push(*unit),
        }
    }
    batches
}

fn split<'a, 's>(
    mut sequences: &'a [Sequence<'s>],
    counts: impl IntoIterator<Item = usize>,
) -> impl Iterator<Item = &'a [Sequence<'s>]> {
    counts.into_iter().map(move |count| {
        let (batch, rest) = sequences.split_at(count);
        sequences = rest;
        batch
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_batches_hold_what_fits() {
        let split = |units: &[(usize, usize)], limit| {
            let units: Vec<Unit> =
                units.iter().map(|&(sequences, tokens)| Unit { sequences, tokens }).collect();
            micro_batches(&units, limit)
                .iter()
                .map(|batch| (batch.sequences, batch.tokens))
                .collect::<Vec<_>>()
        };
        assert_eq!(split(&[(1, 3), (1, 3), (1, 3), (1, 3)], 6), [(2, 6), (2, 6)]);
        assert_eq!(split(&[(1, 3), (1, 3), (1, 3), (1, 3)], 7), [(2, 6), (2, 6)]);
        assert_eq!(split(&[(2, 9), (8, 1), (1, 1), (3, 9)], 2), [(2, 9), (9, 2), (3, 9)]);
        assert_eq!(split(&[(1, 1), (1, 2), (1, 3)], 100), [(3, 6)]);
        assert!(split(&[], 5).is_empty());
    }
}
