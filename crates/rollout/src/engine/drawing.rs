//! From hidden states to tokens, and from a last token to a completion.

use super::{Engine, Event};
use crate::sampler::{Drawn, draw};
use crate::sequence::{Completion, FinishReason};
use crate::stop::Text;
use crate::{Error, Result};
use isentrope_kernels::Backend;
use std::sync::{Mutex, PoisonError};

/// Logits held at a time, in floats.
const LOGITS_BLOCK: usize = 32 << 20;

/// A draw to be made from a row of hidden states.
pub(super) struct Draw {
    pub row: usize,
    /// Index in `running`.
    pub sample: usize,
}

impl<B: Backend> Engine<'_, B> {
    /// Draws tokens from rows of hidden states, appends them, and retires what has ended.
    pub(super) fn draw(&mut self, hidden: &B::Buffer, draws: &mut [Draw]) -> Result<Vec<Event>> {
        let shape = self.model.head_shape();
        let rows = draws.iter().map(|d| d.row + 1).max().unwrap_or(0);
        let block = (LOGITS_BLOCK / shape.outputs).clamp(1, rows.max(1));
        draws.sort_by_key(|d| d.row);
        let backend = &*self.model.backend;
        let mut logits = backend.buffer(block * shape.outputs);
        let mut states = backend.buffer(block * shape.inputs);
        let mut drawn: Vec<Option<Drawn>> = vec![None; draws.len()];
        for first in (0..rows).step_by(block) {
            let count = block.min(rows - first);
            backend.copy(hidden, first * shape.inputs, &mut states, 0, count * shape.inputs);
            let (model, running) = (self.model, &self.running);
            let from = draws.partition_point(|d| d.row < first);
            let to = draws.partition_point(|d| d.row < first + count);
            let (part, out) = (&draws[from..to], &mut drawn[from..to]);
            let slots: Vec<Mutex<&mut Option<Drawn>>> = out.iter_mut().map(Mutex::new).collect();
            let (states, logits) = (&states, &mut logits);
            model.logits(states, count, logits);
            backend.with_host(logits, count * shape.outputs, |logits| {
                backend.parallel(part.len(), |i| {
                    let Draw { row, sample } = part[i];
                    let sample = &running[sample];
                    let row = &logits[(row - first) * shape.outputs..][..shape.outputs];
                    let uniform = sample.key.uniform(sample.sample as u64, sample.drawn.len() as u64);
                    let result = draw(backend, &sample.sampling, row, sample.context(), uniform);
                    **slots[i].lock().unwrap_or_else(PoisonError::into_inner) = result;
                });
            });
        }
        let mut events = Vec::with_capacity(draws.len());
        let mut ended = Vec::new();
        for (d, drawn) in draws.iter().zip(drawn) {
            let sample = &mut self.running[d.sample];
            let Some(drawn) = drawn else {
                return Err(Error::NotFinite { position: sample.positions() });
            };
            sample.drawn.push(drawn);
            let text = sample
                .text
                .as_mut()
                .map(|t| t.push(drawn.token, &sample.sampling.stop_strings))
                .transpose()?;
            events.push(Event::Token { request: sample.id, sample: sample.sample, drawn, text });
            if sample.sampling.ends(drawn.token) || sample.text.as_ref().is_some_and(Text::stopped) {
                ended.push((d.sample, FinishReason::Stop));
            } else if sample.drawn.len() == sample.max_tokens {
                ended.push((d.sample, FinishReason::Length));
            }
        }
        ended.sort_unstable_by_key(|&(sample, _)| std::cmp::Reverse(sample));
        for (sample, finish_reason) in ended {
            events.push(self.retire(sample, finish_reason)?);
        }
        Ok(events)
    }

    fn retire(&mut self, sample: usize, finish_reason: FinishReason) -> Result<Event> {
        let sample = self.running.remove(sample);
        self.reserved -= sample.reserved;
        for page in sample.pages {
            self.cache.release(page);
        }
        let departs = sample.sampling.departs() && sample.sampling.temperature > 0.0;
        let tokens: Vec<u32> = sample.drawn.iter().map(|d| d.token).collect();
        let text = match (sample.text, self.tokenizer) {
            (Some(text), _) => Some(text.finish(&sample.sampling.stop_strings)?),
            (None, Some(tokenizer)) => Some(tokenizer.decode(&tokens, true)?),
            (None, None) => None,
        };
        let completion = Completion {
            tokens,
            logprobs: sample.drawn.iter().map(|d| d.logprob).collect(),
            sampling_logprobs: departs
                .then(|| sample.drawn.iter().filter_map(|d| d.sampling_logprob).collect()),
            entropies: sample.drawn.iter().map(|d| d.entropy).collect(),
            text,
            finish_reason,
            slots: sample.slots,
        };
        Ok(Event::Finished { request: sample.id, sample: sample.sample, completion })
    }
}
