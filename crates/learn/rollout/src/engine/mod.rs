//! Continuous batching: prompts and responses join and leave the running batch at every step.
//!
//! A prompt is prefilled once, in chunks, beside the responses that are being decoded; its samples
//! then share its full pages and have a copy of the last, partial one, and of its recurrent state
//! if the model has one. A sample starts only when the pages of its longest possible response can
//! be promised to it, so nothing that has started is ever evicted; what does not fit waits, in
//! order.

mod admission;
mod drawing;
mod pending_draws;
mod request;
mod turns;
mod withdrawal;

pub use request::{Event, Limits, Request, RequestId};

use crate::activation_slots::ActivationSlots;
use crate::partial_response::PartialResponse;
use crate::sequence::{Group, GroupState, Sample};
use crate::{Error, Result};
use isentrope_kernels::Buffer;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_model::{ActivationCache, KvCache, Model, Step};
use isentrope_trace::{count, span};
use pending_draws::{Drawable, PendingDraws};
use std::collections::VecDeque;
use std::sync::Arc;

/// Samples many prompts at once.
pub struct Engine<'a> {
    model: &'a Model,
    tokenizer: Option<&'a Tokenizer>,
    streams_text: bool,
    limits: Limits,
    cache: KvCache,
    pages: usize,
    submitted: usize,
    /// Prompts in the order of submission. All before the first waiting one are in the cache.
    groups: VecDeque<Group>,
    running: Vec<Sample<'a>>,
    /// Whether a response that stops keeps its memory, since another turn may follow.
    keeps_stopped: bool,
    /// Responses that have stopped and kept their memory.
    stopped: Vec<Sample<'a>>,
    /// Responses that go on with another turn as soon as there is a place among the running ones.
    resuming: VecDeque<Sample<'a>>,
    /// Whether the last step could do nothing.
    is_stalled: bool,
    /// Pages that are reserved for samples that have started, and not taken yet.
    reserved: usize,
    /// Recurrent states that are reserved for the first samples of prompts.
    reserved_states: usize,
    /// Pages to copy for samples that have just started: from, to.
    copies: Vec<(u32, u32)>,
    /// Recurrent states to copy likewise.
    state_copies: Vec<(u32, u32)>,
    activation_slots: ActivationSlots<'a>,
    step: Step,
    /// Draws of the last step that have not been read.
    pending: Option<PendingDraws>,
    /// Whether draws are read only after the next step has been launched.
    draws_behind: bool,
}

impl<'a> Engine<'a> {
    /// An engine over a model. With a tokenizer, responses have text and may end at stop strings.
    ///
    /// # Errors
    /// [`Error::Model`] when there is no memory for the keys and values that the limits allow.
    pub fn new(model: &'a Model, tokenizer: Option<&'a Tokenizer>, limits: Limits) -> Result<Self> {
        let cache_bytes = limits.cache_bytes.max(KvCache::least_bytes(model));
        let pages = cache_bytes / KvCache::page_bytes(model);
        Ok(Self {
            model,
            tokenizer,
            streams_text: true,
            limits: Limits { sequences: limits.sequences.max(1), ..limits },
            cache: KvCache::new(model, pages)?,
            pages,
            submitted: 0,
            groups: VecDeque::new(),
            running: Vec::new(),
            keeps_stopped: false,
            stopped: Vec::new(),
            resuming: VecDeque::new(),
            is_stalled: false,
            reserved: 0,
            reserved_states: 0,
            copies: Vec::new(),
            state_copies: Vec::new(),
            activation_slots: ActivationSlots(None),
            step: Step::default(),
            pending: None,
            draws_behind: model.backend.draws_behind(),
        })
    }

    /// Caches the activations of the requests that ask for it, as far as there is room. The slots
    /// of completions remain taken.
    #[must_use]
    pub fn caching_activations(
        mut self,
        activation_cache: Option<&'a mut ActivationCache>,
    ) -> Self {
        self.activation_slots = ActivationSlots(activation_cache);
        self
    }

    /// Decodes a response's text when it has ended, unless stop strings must be watched for. This
    /// is cheaper than token by token, and gives the same completions. [`Event::Token`] then has no
    /// text.
    #[must_use]
    pub fn decoding_at_the_end(mut self) -> Self {
        self.streams_text = false;
        self
    }

    /// Sets whether a step's draws are read only after the next step has been launched, if the
    /// device makes all of them. By default the backend decides. No bit of a response depends on
    /// it.
    #[must_use]
    pub fn drawing_behind(mut self, draws_behind: bool) -> Self {
        self.draws_behind = draws_behind;
        self
    }

    /// Queues a request.
    ///
    /// # Errors
    /// [`Error::Setting`] for settings out of range; [`Error::Prompt`] for a prompt that is empty,
    /// has tokens outside the vocabulary, leaves no room in the context, or could not fit the
    /// memory even alone.
    pub fn submit(&mut self, request: Request) -> Result<RequestId> {
        self.submit_partial(request, Vec::new())
    }

    /// Queues a request whose first samples go on from `responses` of another engine; the others
    /// begin anew. Every response has the bits of one that was sampled here from the start.
    pub fn submit_partial(
        &mut self,
        request: Request,
        responses: Vec<PartialResponse>,
    ) -> Result<RequestId> {
        let Request { key, prompt, samples, sampling, cache_activations } = request;
        sampling.check()?;
        if prompt.is_empty() {
            return Err(Error::Prompt(
                "the prompt is empty: it has no token to continue from".into(),
            ));
        }
        if self.tokenizer.is_none() && !sampling.stop_strings.is_empty() {
            return Err(Error::Prompt(
                "stop strings need a tokenizer, and the model has none".into(),
            ));
        }
        self.model.check_tokens(&prompt)?;
        let context = self.model.context();
        if prompt.len() >= context {
            return Err(Error::Prompt(format!(
                "the prompt's {} tokens leave no room for a response in the model's context of \
                 {context}",
                prompt.len()
            )));
        }
        let max_tokens = self.max_tokens(prompt.len(), &sampling);
        for response in &responses {
            self.model.check_tokens(&response.tokens)?;
            if !response.can_go_on(&sampling, max_tokens) {
                return Err(Error::Prompt(format!(
                    "a response with {} tokens cannot be gone on with: it has ended, or is not \
                     whole",
                    response.tokens.len()
                )));
            }
        }
        let own = usize::from(
            samples.len() > 1 && !prompt.len().is_multiple_of(self.model.backend.page_positions()),
        );
        let needed = self.pages_for(prompt.len(), &sampling) + own;
        if needed > self.pages && !samples.is_empty() {
            let mib = |pages: usize| (pages * KvCache::page_bytes(self.model)).div_ceil(1 << 20);
            return Err(Error::Prompt(format!(
                "the prompt's {} tokens and a response of up to {} need {} MiB of keys and values, \
                 and {} MiB are allowed: allow fewer tokens or more memory",
                prompt.len(),
                max_tokens,
                mib(needed),
                mib(self.pages)
            )));
        }
        let id = self.submitted;
        self.submitted += 1;
        if !samples.is_empty() {
            let prompt = prompt.into();
            let state = GroupState::Waiting;
            self.groups.push_back(Group {
                id,
                key,
                prompt,
                sampling,
                samples,
                partial: responses,
                started: 0,
                pages: Vec::new(),
                state_slot: None,
                slots: self.activation_slots.slots(cache_activations),
                state,
            });
        }
        Ok(id)
    }

    /// Whether there is nothing to sample: everything submitted has finished, or has stopped and
    /// not
    /// [gone on](Self::go_on).
    pub fn is_idle(&self) -> bool {
        self.groups.is_empty() && self.running.is_empty() && self.resuming.is_empty()
    }

    /// Whether the last step could do nothing: all that is left waits for memory that stopped
    /// responses keep.
    pub fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Responses that are being decoded now.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Advances every running response by one token, and prompts by as many tokens as fit. When
    /// draws are read one step late, so are the events.
    ///
    /// # Errors
    /// [`Error::Model`] when a token cannot be decoded. The engine cannot go on then.
    pub fn step(&mut self) -> Result<Vec<Event>> {
        self.resume();
        let events = if self.may_draw_behind() { self.step_behind() } else { self.step_now() }?;
        self.is_stalled = events.is_empty() && self.pending.is_none() && self.step.rows() == 0;
        Ok(events)
    }

    /// A step whose draws are read at its end.
    fn step_now(&mut self) -> Result<Vec<Event>> {
        let pending = self.pending.take(); // of a step before, if that was one behind
        let mut events = self.read(pending)?;
        let (hidden, due) = self.start_waiting_samples()?;
        events.extend(self.draw(&hidden, due)?);
        if let Some((hidden, due)) = self.advance()? {
            events.extend(self.draw(&hidden, due)?);
        }
        Ok(events)
    }

    /// A step whose draws are read after the next step has been launched. Returns the events of the
    /// step before.
    fn step_behind(&mut self) -> Result<Vec<Event>> {
        let started = self.start_waiting_samples()?;
        let advanced = self.advance()?;
        self.draw_behind(advanced, Some(started).filter(|(_, due)| !due.is_empty()))
    }

    /// Feeds running samples and prompts, runs the model, and starts the samples of completed
    /// prompts. Returns the hidden states and the draws due from them: those for running samples,
    /// then first draws. None if there is nothing to feed.
    fn advance(&mut self) -> Result<Drawable<Arc<Buffer>>> {
        self.step.clear();
        let mut room = self.limits.prefill_tokens.max(1);
        let mut due = self.feed_running(&mut room);
        let finishing = self.feed_prompts(room);
        if self.step.rows() == 0 {
            return Ok(None);
        }
        let decoding = due.len();
        count("live sequences", self.running.len() as u64);
        count("free cache pages", self.cache.free_pages() as u64);
        let of_prompts = self.step.rows() - decoding;
        let name = match (decoding, of_prompts) {
            (_, 0) => "decode",
            (0, _) => "prefill",
            _ => "prefill and decode",
        };
        let pass = span(name).with("responses", decoding).with("prompt tokens", of_prompts);
        let (model, step, cache) = (self.model, &self.step, &mut self.cache);
        let drawn = self.pending.as_mut().and_then(PendingDraws::take_tokens);
        let activation_cache = self.activation_slots.0.as_deref_mut();
        let hidden = Arc::new(model.step_after(drawn.as_ref(), step, cache, activation_cache));
        drop(pass);
        for (i, group) in finishing.into_iter().enumerate() {
            let row = decoding + i;
            self.groups[group].state =
                GroupState::Ready { hidden: hidden.clone(), row: row as u32 };
            self.start_samples(group, row, &mut due)?;
        }
        self.copy_pages();
        self.groups.retain(|g| g.started < g.samples.len());
        Ok(Some((hidden, due)))
    }
}
