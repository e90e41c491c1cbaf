//! Which prompts and samples are let into the batch, the pages that are promised to them, and what a step feeds of each.

use super::{Due, Engine};
use crate::kept::KeptTokens;
use crate::sampling::Sampling;
use crate::sequence::{Group, GroupState, Sample};
use crate::stop::Text;
use isentrope_kernels::Backend;
use isentrope_model::KvCache;
use std::sync::Arc;

impl<B: Backend> Engine<'_, B> {
    /// Pages that a prompt and a response of `max_tokens` take together, at most.
    pub(super) fn pages_for(&self, prompt: usize, sampling: &Sampling) -> usize {
        // The last token is never fed.
        KvCache::<B>::pages_for(prompt + self.max_tokens(prompt, sampling) - 1)
    }

    pub(super) fn max_tokens(&self, prompt: usize, sampling: &Sampling) -> usize {
        sampling.max_tokens.min(self.model.context() - prompt)
    }

    /// Starts samples of prompts that were ready before and had to wait for memory; returns them with the hidden states to
    /// draw their first tokens from.
    pub(super) fn resume(&mut self) -> (B::Buffer, Vec<Due>) {
        let (mut sources, mut due) = (Vec::new(), Vec::new());
        for group in 0..self.groups.len() {
            let GroupState::Ready { hidden, row } = &self.groups[group].state else { break };
            let source = (Arc::clone(hidden), *row);
            if self.start_samples(group, sources.len(), &mut due) {
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
            backend.store_rows(&step[0].0, &backend.index(&from), &mut rows, &backend.index(&to));
            stored += from.len() as u32;
        }
        (rows, due)
    }

    /// Starts as many samples of a ready prompt as there is room for, whose first tokens are then due from that row of
    /// hidden states; whether there was room for any.
    pub(super) fn start_samples(&mut self, group: usize, row: usize, due: &mut Vec<Due>) -> bool {
        let before = due.len();
        while self.start_sample(group) {
            due.push(Due { row, sample: self.running.len() - 1 });
        }
        due.len() > before
    }

    /// Copies the pages that samples have been promised copies of. They hold what they should until a sequence is fed or
    /// gives its pages back, so this comes before both.
    pub(super) fn copy_pages(&mut self) {
        if !self.copies.is_empty() {
            self.cache.copy(self.model, &self.copies);
            self.copies.clear();
        }
    }

    fn available(&self) -> usize {
        self.cache.free_pages() - self.reserved
    }

    /// Pages that the next sample of a prompt needs beside those it shares. The last sample takes over the prompt's own.
    fn pages_for_next(&self, group: &Group<B>) -> usize {
        let kept = if group.started + 1 == group.samples.len() {
            KvCache::<B>::pages_for(group.prompt.len())
        } else {
            group.prompt.len() / B::PAGE
        };
        self.pages_for(group.prompt.len(), &group.sampling) - kept
    }

    /// Starts the next sample of a ready prompt if there is room for it. The first sample's room has been reserved since
    /// the prompt was let in.
    fn start_sample(&mut self, group: usize) -> bool {
        let g = &self.groups[group];
        if g.started == g.samples.len() || self.running.len() >= self.limits.sequences {
            return false;
        }
        let needed = self.pages_for_next(g);
        if g.started > 0 {
            if needed > self.available() {
                return false;
            }
            self.reserved += needed;
        }
        let mut reserved = needed;
        let max_tokens = self.max_tokens(g.prompt.len(), &g.sampling);
        let (last, full) = (g.started + 1 == g.samples.len(), g.prompt.len() / B::PAGE);
        let watched = self.streams_text || !g.sampling.stop_strings.is_empty();
        let g = &mut self.groups[group];
        let pages = if last {
            std::mem::take(&mut g.pages)
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
        self.running.push(Sample {
            id: g.id,
            sample: g.samples[g.started],
            key: g.key,
            prompt: g.prompt.clone(),
            sampling: g.sampling.clone(),
            max_tokens,
            pages,
            reserved,
            drawn: Vec::new(),
            kept: g.sampling.records_kept.then(KeptTokens::default),
            slots: g.slots.clone(),
            text: self.tokenizer.filter(|_| watched).map(Text::new),
        });
        g.started += 1;
        true
    }

    /// Adds a row for the last token of every running sample.
    pub(super) fn feed_running(&mut self) {
        self.activation_slots.make_room(&mut self.running);
        for sample in &mut self.running {
            let position = sample.positions() - 1;
            if sample.pages.len() * B::PAGE <= position {
                // Promised when the sample started.
                sample.pages.extend(self.cache.take());
                sample.reserved -= 1;
                self.reserved -= 1;
            }
            if let Some(last) = sample.drawn.last() {
                self.step.push(&[last.token], position, &sample.pages, true);
                self.activation_slots.cache(&mut self.step, &mut sample.slots);
            }
        }
    }

    /// Adds rows for prompts, in order, up to the limit; returns the groups whose prompt is complete with this step.
    pub(super) fn feed_prompts(&mut self) -> Vec<usize> {
        let mut left = self.limits.prefill_tokens.max(1);
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
                let pages = KvCache::<B>::pages_for(g.prompt.len());
                let first = self.pages_for_next(g);
                if pages + first > self.available() {
                    break;
                }
                self.reserved += first;
                self.groups[i].pages = (0..pages).filter_map(|_| self.cache.take()).collect();
                self.groups[i].state = GroupState::Prefilling { done: 0 };
            }
            let g = &mut self.groups[i];
            if let GroupState::Prefilling { done } = g.state {
                let count = left.min(g.prompt.len() - done);
                let complete = done + count == g.prompt.len();
                self.step.push(&g.prompt[done..done + count], done, &g.pages, complete);
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
