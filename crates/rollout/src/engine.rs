//! Continuous batching: prompts and responses join and leave the running batch at every step.
//!
//! A prompt is prefilled once, in chunks, beside the responses that are being decoded; its samples then share its
//! full pages and have a copy of the last, partial one. A sample starts only when the pages of its longest possible
//! response can be promised to it, so nothing that has started is ever evicted; what does not fit waits, in order.

use crate::random::Key;
use crate::recorder::Recorder;
use crate::sampler::{Drawn, draw};
use crate::sampling::Sampling;
use crate::sequence::{Completion, FinishReason, Group, GroupState, Sample};
use crate::stop::Text;
use crate::{Error, Result};
use isentrope_kernels::{Backend, PAGE};
use isentrope_model::tokenizer::Tokenizer;
use isentrope_model::{KvCache, Model, Recording, Step};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Logits held at a time, in floats.
const LOGITS_BLOCK: usize = 32 << 20;

/// A prompt to sample from.
#[derive(Clone, Debug)]
pub struct Request {
    /// Coordinates of its random numbers.
    pub key: Key,
    /// Tokens, at least one.
    pub prompt: Vec<u32>,
    /// Responses wanted.
    pub samples: usize,
    /// How to draw them.
    pub sampling: Arc<Sampling>,
    /// Whether to record them, where the engine has a recording.
    pub record: bool,
}

/// Number of a request, from 0 in the order of submission.
pub type RequestId = usize;

/// What bounds the engine's memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes for keys and values.
    pub cache_bytes: usize,
    /// Responses decoded at a time.
    pub sequences: usize,
    /// Prompt tokens prefilled per step.
    pub prefill_tokens: usize,
}

impl Default for Limits {
    /// 4 GiB of keys and values, 512 sequences, 1024 prompt tokens.
    fn default() -> Self {
        Self { cache_bytes: 4 << 30, sequences: 512, prefill_tokens: 1024 }
    }
}

/// Something that happened in a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A response has grown by a token.
    Token {
        /// The request.
        request: RequestId,
        /// The response, from 0.
        sample: usize,
        /// The token.
        drawn: Drawn,
        /// Text that the token made certain, where there is a tokenizer and text is decoded token by token; may lag
        /// behind, never retracts.
        text: Option<String>,
    },
    /// A response has ended.
    Finished {
        /// The request.
        request: RequestId,
        /// The response, from 0.
        sample: usize,
        /// The whole of it.
        completion: Completion,
    },
}

/// Samples many prompts at once.
pub struct Engine<'a, B: Backend> {
    model: &'a Model<B>,
    tokenizer: Option<&'a Tokenizer>,
    streams_text: bool,
    limits: Limits,
    cache: KvCache<B>,
    pages: usize,
    submitted: usize,
    /// In the order of submission; all before the first that waits are in the cache.
    groups: VecDeque<Group>,
    running: Vec<Sample<'a>>,
    /// Pages promised to running samples and not taken yet.
    reserved: usize,
    recorder: Recorder<'a, B>,
    step: Step,
}

/// A draw to be made from a row of hidden states.
struct Draw {
    row: usize,
    /// Index in `running`.
    sample: usize,
}

impl<'a, B: Backend> Engine<'a, B> {
    /// An engine over a model. With a tokenizer, responses have text and may end at stop strings.
    pub fn new(model: &'a Model<B>, tokenizer: Option<&'a Tokenizer>, limits: Limits) -> Self {
        let pages = (limits.cache_bytes / KvCache::page_bytes(model)).max(1);
        Self {
            model,
            tokenizer,
            streams_text: true,
            limits: Limits { sequences: limits.sequences.max(1), ..limits },
            cache: KvCache::new(model, pages),
            pages,
            submitted: 0,
            groups: VecDeque::new(),
            running: Vec::new(),
            reserved: 0,
            recorder: Recorder(None),
            step: Step::default(),
        }
    }

    /// Records what the model computes for the requests that ask for it, as far as there is room. The slots of completions
    /// remain taken.
    #[must_use]
    pub fn recording(mut self, recording: Option<&'a mut Recording<B>>) -> Self {
        self.recorder = Recorder(recording);
        self
    }

    /// Decodes a response when it has ended, unless it has stop strings to watch for: cheaper than token by token, for
    /// the same completions. [`Event::Token`] then has no text.
    #[must_use]
    pub fn decoding_at_the_end(mut self) -> Self {
        self.streams_text = false;
        self
    }

    /// Pages that a prompt and a response of `max_tokens` take together, at most.
    fn pages_for(&self, prompt: usize, sampling: &Sampling) -> usize {
        // The last token is never fed.
        KvCache::<B>::pages_for(prompt + self.max_tokens(prompt, sampling) - 1)
    }

    fn max_tokens(&self, prompt: usize, sampling: &Sampling) -> usize {
        sampling.max_tokens.min(self.model.context() - prompt)
    }

    /// Queues a request.
    ///
    /// # Errors
    /// [`Error::Setting`] for settings out of range; [`Error::Prompt`] for a prompt that is empty, has tokens outside
    /// the vocabulary, leaves no room in the context, or could not fit the memory even alone.
    pub fn submit(&mut self, request: Request) -> Result<RequestId> {
        let Request { key, prompt, samples, sampling, record } = request;
        sampling.check()?;
        if prompt.is_empty() {
            return Err(Error::Prompt("the prompt is empty: it has no token to continue from".into()));
        }
        if self.tokenizer.is_none() && !sampling.stop_strings.is_empty() {
            return Err(Error::Prompt("stop strings need a tokenizer, and the model has none".into()));
        }
        self.model.check_tokens(&prompt)?;
        let context = self.model.context();
        if prompt.len() >= context {
            return Err(Error::Prompt(format!(
                "the prompt's {} tokens leave no room for a response in the model's context of {context}",
                prompt.len()
            )));
        }
        let own = usize::from(samples > 1 && !prompt.len().is_multiple_of(PAGE));
        let needed = self.pages_for(prompt.len(), &sampling) + own;
        if needed > self.pages {
            let mib = |pages: usize| (pages * KvCache::page_bytes(self.model)).div_ceil(1 << 20);
            return Err(Error::Prompt(format!(
                "the prompt's {} tokens and a response of up to {} need {} MiB of keys and values, and {} MiB are \
                 allowed: allow fewer tokens or more memory",
                prompt.len(),
                self.max_tokens(prompt.len(), &sampling),
                mib(needed),
                mib(self.pages)
            )));
        }
        let id = self.submitted;
        self.submitted += 1;
        if samples > 0 {
            let prompt = prompt.into();
            let state = GroupState::Waiting;
            self.groups.push_back(Group {
                id,
                key,
                prompt,
                sampling,
                samples,
                started: 0,
                pages: Vec::new(),
                slots: self.recorder.slots(record),
                state,
            });
        }
        Ok(id)
    }

    /// Whether everything submitted has finished.
    pub fn is_idle(&self) -> bool {
        self.groups.is_empty() && self.running.is_empty()
    }

    /// Responses that are being decoded now.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Advances every response that is running by one token, and prompts by as many as are due.
    ///
    /// # Errors
    /// [`Error::NotFinite`] when the model fails numerically, [`Error::Model`] when a token cannot be decoded.
    pub fn step(&mut self) -> Result<Vec<Event>> {
        let mut draws = self.resume();
        let resumed = draws.hidden;
        let mut events = self.draw(&resumed, &mut draws.draws)?;
        drop(resumed);

        self.step.clear();
        self.feed_running();
        let decoding = self.step.wanted.len();
        let finishing = self.feed_prompts();
        if self.step.tokens.is_empty() {
            return Ok(events);
        }
        let (model, step, cache) = (self.model, &self.step, &mut self.cache);
        let hidden = model.step(step, cache, self.recorder.0.as_deref_mut());
        let mut draws: Vec<Draw> = (0..decoding).map(|i| Draw { row: i, sample: i }).collect();
        for (i, group) in finishing.into_iter().enumerate() {
            let row = decoding + i;
            let mut state = vec![0.0; self.model.head_shape().inputs];
            self.model.backend.read(&hidden, row * state.len(), &mut state);
            self.groups[group].state = GroupState::Ready { hidden: state };
            while self.start_sample(group) {
                draws.push(Draw { row, sample: self.running.len() - 1 });
            }
        }
        self.groups.retain(|g| g.started < g.samples);
        events.extend(self.draw(&hidden, &mut draws)?);
        Ok(events)
    }

    /// Starts samples of prompts that were ready before and had to wait for memory.
    fn resume(&mut self) -> Resumed<B> {
        let mut rows: Vec<f32> = Vec::new();
        let mut draws = Vec::new();
        for group in 0..self.groups.len() {
            let GroupState::Ready { hidden } = &self.groups[group].state else { break };
            let row = rows.len() / hidden.len();
            let hidden = hidden.clone();
            let before = draws.len();
            while self.start_sample(group) {
                draws.push(Draw { row, sample: self.running.len() - 1 });
            }
            if draws.len() > before {
                rows.extend(hidden);
            }
            if self.groups[group].started < self.groups[group].samples {
                break;
            }
        }
        self.groups.retain(|g| g.started < g.samples);
        Resumed { hidden: self.model.backend.upload(&rows), draws }
    }

    fn available(&self) -> usize {
        self.cache.free_pages() - self.reserved
    }

    /// Pages that the next sample of a prompt needs beside those it shares. The last sample takes over the prompt's own.
    fn pages_for_next(&self, group: &Group) -> usize {
        let kept = if group.started + 1 == group.samples {
            KvCache::<B>::pages_for(group.prompt.len())
        } else {
            group.prompt.len() / PAGE
        };
        self.pages_for(group.prompt.len(), &group.sampling) - kept
    }

    /// Starts the next sample of a ready prompt if there is room for it. The first sample's room has been reserved since
    /// the prompt was let in.
    fn start_sample(&mut self, group: usize) -> bool {
        let g = &self.groups[group];
        if g.started == g.samples || self.running.len() >= self.limits.sequences {
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
        let (last, full) = (g.started + 1 == g.samples, g.prompt.len() / PAGE);
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
                self.cache.copy(&self.model.backend, partial, own);
                pages.push(own);
                reserved -= 1;
                self.reserved -= 1;
            }
            pages
        };
        self.running.push(Sample {
            id: g.id,
            sample: g.started,
            key: g.key,
            prompt: g.prompt.clone(),
            sampling: g.sampling.clone(),
            max_tokens,
            pages,
            reserved,
            drawn: Vec::new(),
            slots: g.slots.clone(),
            text: self.tokenizer.filter(|_| watched).map(Text::new),
        });
        g.started += 1;
        true
    }

    /// Adds a row for the last token of every running sample.
    fn feed_running(&mut self) {
        self.recorder.make_room(&mut self.running);
        for sample in &mut self.running {
            let position = sample.positions() - 1;
            if sample.pages.len() * PAGE <= position {
                // Promised when the sample started.
                sample.pages.extend(self.cache.take());
                sample.reserved -= 1;
                self.reserved -= 1;
            }
            if let Some(last) = sample.drawn.last() {
                self.step.push(&[last.token], position, &sample.pages, true);
                self.recorder.record(&mut self.step, &mut sample.slots);
            }
        }
    }

    /// Adds rows for prompts, in order, up to the limit; returns the groups whose prompt is complete with this step.
    fn feed_prompts(&mut self) -> Vec<usize> {
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
                self.recorder.record(&mut self.step, &mut g.slots);
                g.state = GroupState::Prefilling { done: done + count };
                left -= count;
                if complete {
                    finishing.push(i);
                }
            }
        }
        finishing
    }

    /// Draws tokens from rows of hidden states, appends them, and retires what has ended.
    fn draw(&mut self, hidden: &B::Buffer, draws: &mut [Draw]) -> Result<Vec<Event>> {
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

struct Resumed<B: Backend> {
    hidden: B::Buffer,
    draws: Vec<Draw>,
}
