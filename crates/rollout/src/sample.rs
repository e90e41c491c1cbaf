//! Sampling many prompts to the end, with progress.

use crate::begun::Begun;
use crate::engine::{Engine, Event, Limits, Request, RequestId};
use crate::error::{Error, Result};
use crate::observer::{Phase, Progress, ProgressObserver};
use crate::peers::{Left, Peers, Place};
use crate::sequence::Completion;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_model::{ActivationCache, KvCache, Model};
use std::mem;
use std::ops::ControlFlow;

/// Whether sampling may be broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// It goes on to the end.
    Never,
    /// It ends when the observer asks for it.
    WhenAsked,
}

/// What requests are sampled with.
pub struct Sampler<'a> {
    /// The policy.
    pub model: &'a Model,
    /// Where the activations of requests with `cache_activations` go, if anywhere.
    pub activation_cache: Option<&'a mut ActivationCache>,
    /// Turns tokens into text.
    pub tokenizer: &'a Tokenizer,
    /// Memory.
    pub limits: Limits,
    /// What the observer is told that this is.
    pub phase: Phase,
    /// Whether it may be broken off.
    pub interrupt: Interrupt,
}

/// What is to be sampled.
pub(crate) struct Work<'a, E> {
    pub requests: Vec<Request>,
    /// Who samples other responses to the same requests, if anybody does.
    pub peers: Option<&'a mut dyn Peers<E>>,
}

/// A response that has ended; none when nothing is left to sample here and others are waited for.
pub(crate) type Sampled = Option<(Place, Completion)>;

impl Sampler<'_> {
    /// Samples to the end, and gives `each` every completion as soon as it is there.
    ///
    /// # Errors
    /// As [`Engine::submit`] and [`Engine::step`]; and what `each` and the peers return.
    pub(crate) fn sample<E: From<Error>>(
        self,
        work: Work<'_, E>,
        each: &mut dyn FnMut(Sampled) -> Result<(), E>,
        observer: &mut dyn ProgressObserver,
    ) -> Result<ControlFlow<()>, E> {
        let Self { model, activation_cache, tokenizer, limits, phase, interrupt } = self;
        let Work { requests, mut peers } = work;
        let total = requests.iter().map(|r| r.samples.len()).sum();
        let mut progress = Progress { phase, done: 0, total, tokens: 0 };
        observer.progress(progress);
        // What responses are asked for that others have begun.
        let asked = if peers.is_some() { requests.clone() } else { Vec::new() };
        let mut taken = Vec::new();
        let begin = |activation_cache, parts| Round::begin(model, tokenizer, limits, activation_cache, parts);
        let mut round = begin(activation_cache, Part::of_all(requests))?;
        loop {
            while !round.engine.is_idle() {
                if interrupt == Interrupt::WhenAsked && observer.stop_requested() {
                    return Ok(ControlFlow::Break(()));
                }
                for event in round.engine.step()? {
                    match event {
                        Event::Token { .. } => progress.tokens += 1,
                        Event::Finished { request, sample, completion } => {
                            progress.done += 1;
                            each(Some((round.place(request, sample), completion)))?;
                        }
                    }
                }
                if !round.engine.is_idle() {
                    round.meet(&mut peers, true, &mut taken, &mut progress)?;
                }
                observer.progress(progress);
            }
            if taken.is_empty() {
                if peers.is_none() {
                    return Ok(ControlFlow::Continue(()));
                }
                each(None)?;
                round.meet(&mut peers, false, &mut taken, &mut progress)?;
                observer.progress(progress);
            }
            if !taken.is_empty() {
                drop(round); // its memory may be needed
                round = begin(None, Part::of_taken(mem::take(&mut taken), &asked)?)?;
            }
        }
    }
}

/// Responses to a request that an engine samples.
struct Part {
    /// The request's number.
    number: usize,
    request: Request,
    begun: Vec<Begun>,
}

impl Part {
    /// All responses that requests ask for.
    fn of_all(requests: Vec<Request>) -> Vec<Self> {
        let whole = |(number, request)| Self { number, request, begun: Vec::new() };
        requests.into_iter().enumerate().map(whole).collect()
    }

    /// Responses that others have begun, of requests such as these.
    fn of_taken(mut taken: Vec<(Place, Begun)>, asked: &[Request]) -> Result<Vec<Self>> {
        taken.sort_by_key(|(place, _)| *place);
        let mut parts: Vec<Self> = Vec::new();
        for (Place { request: number, sample }, begun) in taken {
            match parts.last_mut() {
                Some(last) if last.number == number => {
                    last.request.samples.push(sample);
                    last.begun.push(begun);
                }
                _ => {
                    let asked = asked.get(number).ok_or_else(|| {
                        Error::Prompt(format!("there is no request {number} to go on with a response to"))
                    })?;
                    let request = Request { samples: vec![sample], ..asked.clone() };
                    parts.push(Self { number, request, begun: vec![begun] });
                }
            }
        }
        Ok(parts)
    }
}

/// An engine, and which requests it has.
struct Round<'a> {
    engine: Engine<'a>,
    /// The request of each of the engine's.
    numbers: Vec<usize>,
}

impl<'a> Round<'a> {
    fn begin(
        model: &'a Model,
        tokenizer: &'a Tokenizer,
        limits: Limits,
        activation_cache: Option<&'a mut ActivationCache>,
        parts: Vec<Part>,
    ) -> Result<Self> {
        let limits = Limits { cache_bytes: limits.cache_bytes.min(largest_need(model, &parts)), ..limits };
        let mut engine = Engine::new(model, Some(tokenizer), limits)?
            .decoding_at_the_end()
            .caching_activations(activation_cache);
        let numbers = parts.iter().map(|part| part.number).collect();
        for Part { request, begun, .. } in parts {
            engine.submit_begun(request, begun)?;
        }
        Ok(Self { engine, numbers })
    }

    fn place(&self, request: RequestId, sample: usize) -> Place {
        Place { request: self.numbers[request], sample }
    }

    /// Meets the peers, if there are any: if somebody waits, or in any case. What goes to others leaves the engine; what comes
    /// from them is added to `taken`.
    fn meet<E>(
        &mut self,
        peers: &mut Option<&mut dyn Peers<E>>,
        only_if_waiting: bool,
        taken: &mut Vec<(Place, Begun)>,
        progress: &mut Progress,
    ) -> Result<(), E> {
        let Some(others) = peers else { return Ok(()) };
        if only_if_waiting && !others.are_waiting() {
            return Ok(());
        }
        let left = |(request, sample, tokens)| Left { place: self.place(request, sample), tokens };
        let left: Vec<Left> = self.engine.unfinished().map(left).collect();
        let mut given = 0;
        let withdraw = &mut |Place { request, sample }: Place| {
            let begun = self.engine.withdraw(self.numbers.iter().position(|&of| of == request)?, sample)?;
            given += 1;
            Some(begun)
        };
        let met = others.meet(&left, withdraw)?;
        progress.total = progress.total + met.taken.len() - given;
        taken.extend(met.taken);
        if met.is_last {
            *peers = None;
        }
        Ok(())
    }
}

/// Bytes of keys and values if all requests ran at once: more memory than this is of no use.
fn largest_need(model: &Model, parts: &[Part]) -> usize {
    let pages = parts.iter().fold(0usize, |sum, Part { request, .. }| {
        let length = request.prompt.len() + request.sampling.max_tokens.min(model.context());
        sum.saturating_add((KvCache::pages_for(model, length) + 1).saturating_mul(request.samples.len()))
    });
    pages.saturating_mul(KvCache::page_bytes(model))
}
