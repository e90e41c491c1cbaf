//! Sampling many requests to the end, step by step.

use crate::engine::{Engine, Event, Limits, Request, RequestId};
use crate::episode_queue::Turns;
use crate::error::{Error, Result};
use crate::observer::{Phase, Progress};
use crate::partial_response::PartialResponse;
use crate::respond::{Interrupt, ResponseId};
use crate::sequence::{Completion, FinishReason};
use isentrope_model::tokenizer::Tokenizer;
use isentrope_model::{ActivationCache, KvCache, Model};
use std::collections::BTreeMap;

/// The means of sampling: model, tokenizer and memory.
pub struct Sampler<'a> {
    /// The policy.
    pub model: &'a Model,
    /// Stores the activations of requests with `cache_activations`, if there is one.
    pub activation_cache: Option<&'a mut ActivationCache>,
    /// Turns tokens into text.
    pub tokenizer: &'a Tokenizer,
    /// Memory.
    pub limits: Limits,
    /// The phase under which progress is reported.
    pub phase: Phase,
    /// Whether sampling may be broken off.
    pub interrupt: Interrupt,
    /// The environment that answers the model's turns, if responses have several.
    pub turns: Option<Turns<'a>>,
}

/// Sampling under way. Other processes may take responses over from it before they have ended.
pub struct SamplingRun<'a> {
    model: &'a Model,
    tokenizer: &'a Tokenizer,
    limits: Limits,
    engine: Engine<'a>,
    /// The samples of each of the engine's requests.
    submitted: Vec<Submitted>,
    /// Whether another turn may follow a response that has stopped.
    has_turns: bool,
    /// The responses to requests, by number, that have not been opened, and that have but wait for
    /// the others to share the prompt's keys and values.
    unopened: BTreeMap<usize, (Request, BTreeMap<usize, PartialResponse>)>,
    progress: Progress,
}

/// The rollout's names of what an engine's request samples. Two requests of an engine have one
/// number if some responses waited to be opened.
struct Submitted {
    number: usize,
    samples: Vec<usize>,
}

/// A response that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The response.
    pub id: ResponseId,
    /// The response's tokens so far; 0 if it has not started.
    pub tokens: usize,
}

/// A request of the rollout: its number, the request, and partial responses from elsewhere.
type NumberedRequest = (usize, Request, Vec<PartialResponse>);

impl<'a> SamplingRun<'a> {
    /// Queues requests, which are numbered from 0. A request's responses whose environment opens
    /// the episode, or whose begun episode is replayed, wait until all of them are
    /// [opened](Self::open) or [ended](Self::end); its others do not.
    pub fn begin(sampler: Sampler<'a>, requests: Vec<Request>) -> Result<Self> {
        let Sampler { model, activation_cache, tokenizer, limits, phase, turns, .. } = sampler;
        let total = requests.iter().map(|request| request.samples.len()).sum();
        let requests: Vec<NumberedRequest> = requests
            .into_iter()
            .enumerate()
            .map(|(number, request)| (number, request, Vec::new()))
            .collect();
        let mut engine = engine(model, tokenizer, limits, &requests)?;
        engine = engine.caching_activations(activation_cache);
        let has_turns = turns.is_some();
        if has_turns {
            engine = engine.keeping_stopped();
        }
        let waits = |id| turns.is_some_and(|turns| turns.is_asked_first(id));
        let (mut queued, mut unopened) = (Vec::new(), BTreeMap::new());
        for (number, mut request, none) in requests {
            let (waiting, fresh): (Vec<usize>, Vec<usize>) = request
                .samples
                .iter()
                .partition(|&&sample| waits(ResponseId { request: number, sample }));
            if !waiting.is_empty() {
                let waiting = Request { samples: waiting, ..request.clone() };
                unopened.insert(number, (waiting, BTreeMap::new()));
            }
            request.samples = fresh;
            queued.push((number, request, none));
        }
        let submitted = submit(&mut engine, queued)?;
        let progress = Progress { phase, done: 0, total, tokens: 0 };
        Ok(Self { model, tokenizer, limits, engine, submitted, has_turns, unopened, progress })
    }

    /// Whether nothing is left to sample: every response has ended, or waits for what follows its
    /// turn.
    pub fn is_idle(&self) -> bool {
        self.engine.is_idle()
    }

    /// Whether nothing can be sampled before a response that waits for what follows its turn goes
    /// on or ends.
    pub fn must_wait(&self) -> bool {
        self.engine.is_idle() || self.engine.is_stalled()
    }

    /// How far sampling has come.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Advances every running response by a token. Returns those that have ended; with several
    /// turns also those that have stopped, each to [go on](Self::go_on) or [end](Self::end).
    pub fn step(&mut self) -> Result<Vec<(ResponseId, Completion)>> {
        let mut ended = Vec::new();
        for event in self.engine.step()? {
            match event {
                Event::Token { .. } => self.progress.tokens += 1,
                Event::Finished { request, sample, completion } => {
                    let waits = self.has_turns && completion.finish_reason == FinishReason::Stop;
                    self.progress.done += usize::from(!waits);
                    ended.push((self.id(request, sample), completion));
                }
                Event::NotFinite { position, .. } => return Err(Error::NotFinite { position }),
            }
        }
        Ok(ended)
    }

    /// Most tokens that could follow the prompt of a response that is still to be opened.
    pub fn room(&self, id: ResponseId) -> usize {
        let request = self.unopened.get(&id.request);
        request.map_or(0, |(request, _)| self.model.context().saturating_sub(request.prompt.len()))
    }

    /// Opens a response, which goes on from `response` behind these given tokens, of which there
    /// may be none. Its request is queued with the last of its responses.
    pub fn open(
        &mut self,
        id: ResponseId,
        mut response: PartialResponse,
        given: &[u32],
    ) -> Result<()> {
        let Some((request, opened)) = self.unopened.get_mut(&id.request) else {
            let number = id.request;
            return Err(Error::Prompt(format!("request {number} does not wait to be opened")));
        };
        response.give(given, request.sampling.records_kept);
        opened.insert(id.sample, response);
        self.submit_opened(id.request)
    }

    /// Queues a request if it waits for no more of its responses.
    fn submit_opened(&mut self, number: usize) -> Result<()> {
        let is_open =
            |(request, opened): &(Request, BTreeMap<_, _>)| request.samples.len() == opened.len();
        if self.unopened.get(&number).is_some_and(is_open)
            && let Some((mut request, opened)) = self.unopened.remove(&number)
        {
            let opened: (Vec<usize>, Vec<PartialResponse>) = opened.into_iter().unzip();
            request.samples = opened.0;
            let more = submit(&mut self.engine, vec![(number, request, opened.1)])?;
            self.submitted.extend(more);
        }
        Ok(())
    }

    /// Goes on with a response that has stopped, behind these given tokens.
    pub fn go_on(&mut self, id: ResponseId, given: &[u32]) -> Result<()> {
        self.engine.go_on(self.request(id)?, id.sample, given)
    }

    /// Ends a response that has stopped, or that was still to be opened.
    pub fn end(&mut self, id: ResponseId) -> Result<()> {
        self.progress.done += 1;
        // Others of its group may wait, while it does not.
        if let Some((request, _)) = self.unopened.get_mut(&id.request)
            && let Some(place) = request.samples.iter().position(|&sample| sample == id.sample)
        {
            request.samples.remove(place);
            return self.submit_opened(id.request);
        }
        self.engine.release_stopped(self.request(id)?, id.sample)
    }

    /// The engine's number of a response's request.
    fn request(&self, id: ResponseId) -> Result<RequestId> {
        self.find(id).ok_or_else(|| {
            let ResponseId { request, sample } = id;
            Error::Prompt(format!("response {sample} to request {request} is not sampled here"))
        })
    }

    fn find(&self, id: ResponseId) -> Option<RequestId> {
        let is_it = |of: &Submitted| of.number == id.request && of.samples.contains(&id.sample);
        self.submitted.iter().position(is_it)
    }

    /// The responses that have not ended and whose episodes have not begun. The others stay where
    /// their environment is.
    pub fn unfinished(&self) -> Vec<Unfinished> {
        let unfinished = self.engine.unfinished();
        unfinished
            .map(|(of, sample, tokens)| Unfinished { id: self.id(of, sample), tokens })
            .collect()
    }

    /// Takes a response out, for another process to continue; none if it is not here.
    pub fn withdraw(&mut self, id: ResponseId) -> Option<PartialResponse> {
        let response = self.engine.withdraw(self.find(id)?, id.sample)?;
        self.progress.total -= 1;
        Some(response)
    }

    /// Goes on with responses that another process has given away. Nothing may be left to sample
    /// here: the old engine's memory is freed first. `requests` are the requests of all processes.
    pub fn take_over(
        self,
        mut taken: Vec<(ResponseId, PartialResponse)>,
        requests: &[Request],
    ) -> Result<Self> {
        let Self { model, tokenizer, limits, engine: idle, has_turns, .. } = self;
        let mut progress = self.progress;
        drop(idle);
        progress.total += taken.len();
        taken.sort_by_key(|(id, _)| *id);
        let mut parts: Vec<NumberedRequest> = Vec::new();
        for (ResponseId { request: number, sample }, response) in taken {
            match parts.last_mut() {
                Some((last, request, responses)) if *last == number => {
                    request.samples.push(sample);
                    responses.push(response);
                }
                _ => {
                    let request = requests.get(number).ok_or_else(|| {
                        Error::Prompt(format!(
                            "there is no request {number} to go on with a response to"
                        ))
                    })?;
                    let request = Request { samples: vec![sample], ..request.clone() };
                    parts.push((number, request, vec![response]));
                }
            }
        }
        let mut engine = engine(model, tokenizer, limits, &parts)?;
        if has_turns {
            engine = engine.keeping_stopped();
        }
        let submitted = submit(&mut engine, parts)?;
        let unopened = BTreeMap::new(); // responses that wait to be opened are never given away
        Ok(Self { model, tokenizer, limits, engine, submitted, has_turns, unopened, progress })
    }

    fn id(&self, request: RequestId, sample: usize) -> ResponseId {
        ResponseId { request: self.submitted[request].number, sample }
    }
}

/// An engine with no more memory than the requests can use.
fn engine<'a>(
    model: &'a Model,
    tokenizer: &'a Tokenizer,
    limits: Limits,
    requests: &[NumberedRequest],
) -> Result<Engine<'a>> {
    let limits =
        Limits { cache_bytes: limits.cache_bytes.min(largest_need(model, requests)), ..limits };
    Ok(Engine::new(model, Some(tokenizer), limits)?.decoding_at_the_end())
}

/// Submits requests; returns their names in the engine's order.
fn submit(engine: &mut Engine<'_>, requests: Vec<NumberedRequest>) -> Result<Vec<Submitted>> {
    let mut submitted = Vec::with_capacity(requests.len());
    for (number, request, responses) in requests {
        submitted.push(Submitted { number, samples: request.samples.clone() });
        engine.submit_partial(request, responses)?;
    }
    Ok(submitted)
}

/// Bytes of keys and values that all requests would need at once.
fn largest_need(model: &Model, requests: &[NumberedRequest]) -> usize {
    let pages = requests.iter().fold(0usize, |sum, (_, request, _)| {
        let length = request.prompt.len() + request.sampling.max_tokens.min(model.context());
        let pages = model.layout.pages_of_sequence(&*model.backend, length);
        sum.saturating_add(pages.saturating_mul(request.samples.len()))
    });
    pages.saturating_mul(KvCache::page_bytes(model))
}
