//! Admits prompts and samples into the batch, reserves their pages, and feeds their tokens to
//! steps.

use super::Engine;
use super::drawing::DueRow;
use crate::error::Result;
use crate::response_masks::ResponseMasks;
use crate::sampling::Sampling;
use crate::sequence::{Group, GroupState, Sample};
use crate::stop::Text;
use isentrope_kernels::Buffer;
use isentrope_model::KvCache;
use std::mem;
use std::sync::Arc;

impl<'a> Engine<'a> {
    /// Most pages that a prompt and a response of `max_tokens` take together.
    pub(super) fn pages_for(&self, prompt: usize, sampling: &Sampling) -> usize {
        // The last token is never fed.
        KvCache::pages_for(self.model, prompt + self.max_tokens(prompt, sampling) - 1)
    }

    pub(super) fn max_tokens(&self, prompt: usize, sampling: &Sampling) -> usize {
        sampling.max_tokens.min(self.model.context() - prompt)
    }

    /// Starts samples of ready prompts that had to wait for memory. Returns them with the hidden
    /// states to draw their first tokens from.
    pub(super) fn start_waiting_samples(&mut self) -> Result<(Buffer, Vec<DueRow>)> {
        let (mut sources, mut due) = (Vec::new(), Vec::new());
        for group in 0..self.groups.len() {
            let GroupState::Ready { hidden, row } = &self.groups[group].state else { break };
            let source = (Arc::clone(hidden), *row);
            if self.start_samples(group, sources.len(), &mut due)? {
                sources.push(source);
            }
            if self.groups[group].started < self.groups[group].samples.len() {
                break;
            }
        }
        self.copy_pages();
        self.groups.retain(|g| g.started < g.samples.len());
        let backend = &*self.model.backend;
        let mut rows = self.model.hidden(sources.len());
        let mut stored = 0;
        // Prompts that became ready in one step have their rows in one buffer.
        for step in sources.chunk_by(|(a, _), (b, _)| Arc::ptr_eq(a, b)) {
            let from: Vec<u32> = step.iter().map(|&(_, row)| row).collect();
            let to: Vec<u32> = (stored..).take(from.len()).collect();
            backend.store_rows(
                &step[0].0,
                &backend.upload_index(&from),
                &mut rows,
                &backend.upload_index(&to),
            );
            stored += from.len() as u32;
        }
        Ok((rows, due))
    }

    /// Starts as many samples of a ready prompt as there is room for. The first tokens of new
    /// samples are then due from that row of hidden states. Returns whether there are any.
    pub(super) fn start_samples(
        &mut self,
        group: usize,
        row: usize,
        due: &mut Vec<DueRow>,
    ) -> Result<bool> {
        let before = due.len();
        while self.start_sample(group)? {
            let sample = self.running.len() - 1;
            if self.running[sample].drawn.is_empty() {
                due.push(DueRow { row, sample });
            }
        }
        Ok(due.len() > before)
    }

    /// Copies the pages and states that started samples need copies of. Their contents are right
    /// until a sequence is fed or frees its pages, so this comes before both.
    pub(super) fn copy_pages(&mut self) {
        if !self.copies.is_empty() {
            self.cache.copy(self.model, &self.copies);
            self.copies.clear();
        }
        if !self.state_copies.is_empty() {
            self.cache.copy_states(self.model, &self.state_copies);
            self.state_copies.clear();
        }
    }

    fn available(&self) -> usize {
        self.cache.free_pages() - self.reserved
    }

    fn available_states(&self) -> usize {
        self.cache.free_states() - self.reserved_states
    }

    /// Recurrent states that the next sample of a prompt needs: the last takes over the prompt's.
    pub(super) fn states_for_next(&self, group: &Group) -> usize {
        usize::from(self.cache.has_states() && group.started + 1 < group.samples.len())
    }

    /// Pages that the next sample of a prompt needs besides those that it shares. The last sample
    /// takes over the prompt's own.
    pub(super) fn pages_for_next(&self, group: &Group) -> usize {
        let kept = if group.started + 1 == group.samples.len() {
            KvCache::pages_for(self.model, group.prompt.len())
        } else {
            group.prompt.len() / self.model.backend.page_positions()
        };
        self.pages_for(group.prompt.len(), &group.sampling) - kept
    }

    /// Starts the next sample of a ready prompt if there is room for it. The first sample's room
    /// was reserved when the prompt was admitted.
    fn start_sample(&mut self, group: usize) -> Result<bool> {
        let g = &self.groups[group];
        if g.started == g.samples.len() || self.running.len() >= self.limits.sequences {
            return Ok(false);
        }
        let (needed, states) = (self.pages_for_next(g), self.states_for_next(g));
        if g.started > 0 {
            if needed > self.available() || states > self.available_states() {
                return Ok(false);
            }
            self.reserved += needed;
        } else {
            self.reserved_states -= states;
        }
        let mut reserved = needed;
        let max_tokens = self.max_tokens(g.prompt.len(), &g.sampling);
        let (last, full) = (
            g.started + 1 == g.samples.len(),
            g.prompt.len() / self.model.backend.page_positions(),
        );
        let mut text = self.text(&g.sampling);
        let g = &mut self.groups[group];
        let pages = if last {
            mem::take(&mut g.pages)
        } else {
            let mut pages = g.pages[..full].to_vec();
            for &page in &pages {
                self.cache.share(page);
            }
            if let Some(&partial) = g.pages.get(full)
                && let Some(own) = self.cache.take()
            {
                self.copies.push((partial, own));
                pages.push(own);
                reserved -= 1;
                self.reserved -= 1;
            }
            pages
        };
        let state_slot = if last { g.state_slot.take() } else { self.cache.take_state() };
        if !last {
            self.state_copies.extend(g.state_slot.zip(state_slot));
        }
        let partial = g.partial.get_mut(g.started).map(mem::take).unwrap_or_default();
        let drawn = partial.drawn();
        let masks = partial.masks.or_else(|| g.sampling.records_kept.then(ResponseMasks::default));
        if let Some(text) = &mut text {
            for &token in &partial.tokens[partial.given.last_turn()..] {
                text.push(token, &g.sampling.stop_strings)?;
            }
        }
        self.running.push(Sample {
            id: g.id,
            sample: g.samples[g.started],
            key: g.key,
            prompt: g.prompt.clone(),
            sampling: g.sampling.clone(),
            max_tokens,
            pages,
            state_slot,
            reserved,
            fed: g.prompt.len(),
            drawn,
            given: partial.given,
            masks,
            slots: g.slots.clone(),
            text,
        });
        g.started += 1;
        Ok(true)
    }

    /// The text of a turn, if it is decoded token by token.
    pub(super) fn text(&self, sampling: &Sampling) -> Option<Text<'a>> {
        let is_watched = self.streams_text || !sampling.stop_strings.is_empty();
        self.tokenizer.filter(|_| is_watched).map(Text::new)
    }

    /// Adds rows for the unfed tokens of running samples: the last token, which may be drawn and
    /// not yet read, and for resumed samples the earlier tokens too, given ones among them, as far
    /// as the step has room for prompt tokens. Returns the draws that are due after the step.
    pub(super) fn feed_running(&mut self, room: &mut usize) -> Vec<DueRow> {
        let running = self.running.len();
        let draws = self
            .pending
            .as_ref()
            .map_or_else(|| vec![None; running], |pending| pending.draws(running));
        let rows = |(sample, draw): (&Sample<'_>, &Option<usize>)| {
            let waiting = sample.waiting(draw.is_some());
            let count = if waiting > 1 { waiting.min(*room) } else { waiting };
            if waiting > 1 {
                *room -= count;
            }
            count
        };
        let counts: Vec<usize> = self.running.iter().zip(&draws).map(rows).collect();
        self.activation_slots.make_room(&mut self.running, &counts);
        let (mut due, mut tokens) = (Vec::with_capacity(running), Vec::new());
        for (at, (sample, count)) in self.running.iter_mut().zip(counts).enumerate() {
            if count == 0 {
                continue;
            }
            while sample.pages.len() * self.model.backend.page_positions() < sample.fed + count {
                // Promised when the sample started.
                sample.pages.extend(self.cache.take());
                sample.reserved -= 1;
                self.reserved -= 1;
            }
            let complete = count == sample.waiting(draws[at].is_some());
            if let Some(draw) = draws[at] {
                self.step.push_drawn(draw, sample.fed, &sample.pages);
            } else {
                tokens.clear();
                let unfed = &sample.drawn[sample.fed - sample.prompt.len()..];
                tokens.extend(unfed[..count].iter().map(|drawn| drawn.token));
                self.step.push(&tokens, sample.fed, &sample.pages, complete);
            }
            self.step.go_on_from_state(sample.state_slot);
            self.activation_slots.cache(&mut self.step, &mut sample.slots);
            sample.fed += count;
            if complete {
                due.push(DueRow { row: due.len(), sample: at });
            }
        }
        due
    }

    /// Adds rows for prompts, in order, as far as there is room; returns the groups whose prompt is
    /// complete with this step.
    pub(super) fn feed_prompts(&mut self, mut left: usize) -> Vec<usize> {
        let mut finishing = Vec::new();
        for i in 0..self.groups.len() {
            if left == 0 || self.running.len() + finishing.len() >= self.limits.sequences {
                break;
            }
            if let GroupState::Ready { .. } = self.groups[i].state {
                break; // samples of an earlier prompt wait for room: later prompts must not take it
            }
            if let GroupState::Waiting = self.groups[i].state {
                let g = &self.groups[i];
                let pages = KvCache::pages_for(self.model, g.prompt.len());
                let (first, states) = (self.pages_for_next(g), self.states_for_next(g));
                if pages + first > self.available() || states >= self.available_states() {
                    break;
                }
                self.reserved += first;
                self.reserved_states += states;
                self.groups[i].state_slot = self.cache.take_state();
                self.groups[i].pages = (0..pages).filter_map(|_| self.cache.take()).collect();
                self.groups[i].state = GroupState::Prefilling { done: 0 };
            }
            let g = &mut self.groups[i];
            if let GroupState::Prefilling { done } = g.state {
                let count = left.min(g.prompt.len() - done);
                let complete = done + count == g.prompt.len();
                self.step.push(&g.prompt[done..done + count], done, &g.pages, complete);
                self.step.go_on_from_state(g.state_slot);
                self.activation_slots.cache(&mut self.step, &mut g.slots);
                g.state = GroupState::Prefilling { done: done + count };
                left -= count;
                if complete {
                    finishing.push(i);
                }
            }
        }
        finishing
    }
}
