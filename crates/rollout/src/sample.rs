//! Sampling many prompts to the end, with progress.

use crate::engine::{Engine, Event, Limits, Request};
use crate::error::{Error, Result};
use crate::observer::{Phase, Progress, ProgressObserver};
use crate::sequence::Completion;
use isentrope_kernels::Backend;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_model::{ActivationCache, KvCache, Model};
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
pub struct Sampler<'a, B: Backend> {
    /// The policy.
    pub model: &'a Model<B>,
    /// Where the activations of requests with `cache_activations` go, if anywhere.
    pub activation_cache: Option<&'a mut ActivationCache<B>>,
    /// Turns tokens into text.
    pub tokenizer: &'a Tokenizer,
    /// Memory.
    pub limits: Limits,
    /// What the observer is told that this is.
    pub phase: Phase,
    /// Whether it may be broken off.
    pub interrupt: Interrupt,
}

/// Which response: the number of its request, and its own among the samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub request: usize,
    pub sample: usize,
}

impl<B: Backend> Sampler<'_, B> {
    /// Samples to the end, and gives `each` every completion as soon as it is there.
    ///
    /// # Errors
    /// As [`Engine::submit`] and [`Engine::step`]; and what `each` returns.
    pub(crate) fn sample<E: From<Error>>(
        self,
        requests: Vec<Request>,
        each: &mut dyn FnMut(Place, Completion) -> Result<(), E>,
        observer: &mut dyn ProgressObserver,
    ) -> Result<ControlFlow<()>, E> {
        let Self { model, activation_cache, tokenizer, limits, phase, interrupt } = self;
        let total = requests.iter().map(|r| r.samples.len()).sum();
        let limits = Limits { cache_bytes: limits.cache_bytes.min(largest_need(model, &requests)), ..limits };
        let mut engine = Engine::new(model, Some(tokenizer), limits)?
            .decoding_at_the_end()
            .caching_activations(activation_cache);
        for request in requests {
            engine.submit(request)?;
        }
        let (mut done, mut tokens) = (0, 0);
        observer.progress(Progress { phase, done, total, tokens });
        while !engine.is_idle() {
            if interrupt == Interrupt::WhenAsked && observer.stop_requested() {
                return Ok(ControlFlow::Break(()));
            }
            for event in engine.step()? {
                match event {
                    Event::Token { .. } => tokens += 1,
                    Event::Finished { request, sample, completion } => {
                        done += 1;
                        each(Place { request, sample }, completion)?;
                    }
                }
            }
            observer.progress(Progress { phase, done, total, tokens });
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Bytes of keys and values if all requests ran at once: more memory than this is of no use.
fn largest_need<B: Backend>(model: &Model<B>, requests: &[Request]) -> usize {
    let pages = requests.iter().fold(0usize, |sum, request| {
        let length = request.prompt.len() + request.sampling.max_tokens.min(model.context());
        sum.saturating_add((KvCache::<B>::pages_for(length) + 1).saturating_mul(request.samples.len()))
    });
    pages.saturating_mul(KvCache::page_bytes(model))
}
