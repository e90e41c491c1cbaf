//! Draws tokens from hidden states, and completes responses that have ended.

use super::{Engine, Event};
use crate::Result;
use crate::sequence::{Completion, FinishReason, Sample};
use crate::stop::Text;
use isentrope_kernels::{Buffer, Draw, Drawn};
use isentrope_trace::span;

/// A token to be drawn from a row of hidden states.
pub(super) struct DueRow {
    pub row: usize,
    /// Index in `running` of the token's sample.
    pub sample: usize,
}

/// One more than the largest due row.
pub(super) fn rows(due: &[DueRow]) -> usize {
    due.iter().map(|due| due.row + 1).max().unwrap_or(0)
}

impl<'a> Engine<'a> {
    /// The due draws in the order of rows, and the index in `running` of each one's sample.
    pub(super) fn draws(&self, mut due: Vec<DueRow>) -> (Vec<Draw>, Vec<usize>) {
        due.sort_by_key(|due| due.row);
        due.into_iter()
            .map(|DueRow { row, sample }| (self.running[sample].next(row), sample))
            .unzip()
    }

    /// Draws tokens from rows of hidden states, appends them, and retires samples that have ended.
    pub(super) fn draw(&mut self, hidden: &Buffer, due: Vec<DueRow>) -> Result<Vec<Event>> {
        let (draws, samples) = self.draws(due);
        if draws.is_empty() {
            return Ok(Vec::new());
        }
        let drawing = span("draw").with("responses", draws.len());
        let drawn = self.model.draw(hidden, &draws);
        drop(drawing);
        self.append(samples.into_iter().zip(drawn))
    }

    /// Appends drawn tokens to the samples with these indices in `running`, and retires samples
    /// that have ended.
    pub(super) fn append(
        &mut self,
        all: impl Iterator<Item = (usize, Option<Drawn>)>,
    ) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        let mut ended = Vec::new();
        for (at, drawn) in all {
            let sample = &mut self.running[at];
            let Some(mut drawn) = drawn else {
                ended.push((at, None));
                continue;
            };
            // The mask may be large, so it is moved out before the draw is copied.
            let mask = drawn.mask.take();
            sample.masks.iter_mut().for_each(|all| all.push(mask.as_deref()));
            sample.drawn.push(drawn.clone());
            let text = sample
                .text
                .as_mut()
                .map(|t| t.push(drawn.token, &sample.sampling.stop_strings))
                .transpose()?;
            let ends = sample.sampling.ends(drawn.token);
            events.push(Event::Token { request: sample.id, sample: sample.sample, drawn, text });
            if ends || sample.text.as_ref().is_some_and(Text::stopped) {
                ended.push((at, Some(FinishReason::Stop)));
            } else if sample.drawn.len() == sample.max_tokens {
                ended.push((at, Some(FinishReason::Length)));
            }
        }
        ended.sort_unstable_by_key(|&(sample, _)| std::cmp::Reverse(sample));
        for (sample, finish_reason) in ended {
            events.push(match finish_reason {
                Some(finish_reason) => self.retire(sample, finish_reason)?,
                None => self.fail(sample),
            });
        }
        Ok(events)
    }

    /// Frees pages, the reservation of others, and a state.
    pub(super) fn release(&mut self, pages: Vec<u32>, reserved: usize, state: Option<u32>) {
        self.reserved -= reserved;
        state.into_iter().for_each(|state| self.cache.release_state(state));
        for page in pages {
            self.cache.release(page);
        }
    }

    /// Frees the memory of a response that has ended, but for the slots that its completion names.
    pub(super) fn release_ended(&mut self, sample: Sample<'a>) {
        let inputs = sample.positions() - 1;
        self.release(sample.pages, sample.reserved, sample.state_slot);
        self.activation_slots.release(sample.slots, inputs);
    }

    /// Removes a sample from `running`.
    pub(super) fn leave(&mut self, at: usize) -> Sample<'a> {
        if let Some(pending) = &mut self.pending {
            pending.leaves(at);
        }
        self.running.remove(at)
    }

    /// Drops a response whose logits are not finite.
    fn fail(&mut self, at: usize) -> Event {
        let sample = self.leave(at);
        let position = sample.positions();
        self.release(sample.pages, sample.reserved, sample.state_slot);
        self.activation_slots.release(sample.slots, sample.prompt.len());
        Event::NotFinite { request: sample.id, sample: sample.sample, position }
    }

    /// Completes a response that has ended. If another turn may follow it, it keeps its memory.
    fn retire(&mut self, at: usize, finish_reason: FinishReason) -> Result<Event> {
        let mut sample = self.leave(at);
        let inputs = sample.positions() - 1;
        let tokens: Vec<u32> = sample.drawn.iter().map(|d| d.token).collect();
        let sampling_logprobs = sample.drawn.iter().enumerate().map(|(place, drawn)| {
            drawn.sampling_logprob.or(sample.given.contains(place).then_some(0.0))
        });
        let sampling_logprobs: Option<Vec<f32>> = sampling_logprobs.collect();
        let text = match (sample.text.take(), self.tokenizer) {
            (Some(text), _) => Some(text.finish(&sample.sampling.stop_strings)?),
            (None, Some(tokenizer)) => {
                Some(tokenizer.decode(&tokens[sample.given.last_turn()..], true)?)
            }
            (None, None) => None,
        };
        let keeps = self.keeps_stopped && finish_reason == FinishReason::Stop;
        let (request, number) = (sample.id, sample.sample);
        // A copy has no room to grow, which the memory planned for a rollout's masks does not count.
        let masks = sample.masks.clone();
        let completion = Completion {
            tokens,
            logprobs: sample.drawn.iter().map(|d| d.logprob).collect(),
            sampling_logprobs,
            entropies: sample.drawn.iter().map(|d| d.entropy).collect(),
            masks,
            given: sample.given.clone(),
            text,
            finish_reason,
            room: self.model.context() - sample.prompt.len(),
            activation_slots: sample.slots.as_ref().map(|slots| slots[..inputs].to_vec()),
            episode: None,
        };
        if keeps {
            self.stopped.push(sample);
        } else {
            self.release_ended(sample);
        }
        Ok(Event::Finished { request, sample: number, completion })
    }
}
