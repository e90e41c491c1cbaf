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

/// The completions of each request, in the order of requests and samples. The activations of requests with
/// `cache_activations` go into the activation cache, if there is one.
///
/// # Errors
/// As [`Engine::submit`] and [`Engine::step`].
pub fn sample<B: Backend>(
    model: &Model<B>,
    activation_cache: Option<&mut ActivationCache<B>>,
    tokenizer: &Tokenizer,
    requests: Vec<Request>,
    limits: Limits,
    phase: Phase,
    observer: &mut dyn ProgressObserver,
) -> Result<Vec<Vec<Completion>>> {
    let mut all = vec![Vec::new(); requests.len()];
    let each = &mut |request: usize, completions| -> Result<()> {
        all[request] = completions;
        Ok(())
    };
    let _: ControlFlow<()> = sample_each(
        model,
        activation_cache,
        tokenizer,
        requests,
        limits,
        (phase, Interrupt::Never),
        each,
        observer,
    )?;
    Ok(all)
}

/// Gives `each` the number of a request and its completions, in the order of samples, as soon as all of them are there.
///
/// # Errors
/// As [`Engine::submit`] and [`Engine::step`]; and what `each` returns.
#[allow(clippy::too_many_arguments, reason = "sampling's whole surroundings")]
pub fn sample_each<B: Backend, E: From<Error>>(
    model: &Model<B>,
    activation_cache: Option<&mut ActivationCache<B>>,
    tokenizer: &Tokenizer,
    requests: Vec<Request>,
    limits: Limits,
    (phase, interrupt): (Phase, Interrupt),
    each: &mut dyn FnMut(usize, Vec<Completion>) -> Result<(), E>,
    observer: &mut dyn ProgressObserver,
) -> Result<ControlFlow<()>, E> {
    let mut completions: Vec<Vec<Option<Completion>>> =
        requests.iter().map(|r| vec![None; r.samples]).collect();
    let total = requests.iter().map(|r| r.samples).sum();
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
                    let samples = &mut completions[request];
                    samples[sample] = Some(completion);
                    done += 1;
                    if samples.iter().all(Option::is_some) {
                        each(request, std::mem::take(samples).into_iter().flatten().collect())?;
                    }
                }
            }
        }
        observer.progress(Progress { phase, done, total, tokens });
    }
    Ok(ControlFlow::Continue(()))
}

/// Bytes of keys and values if all requests ran at once: more memory than this is of no use.
fn largest_need<B: Backend>(model: &Model<B>, requests: &[Request]) -> usize {
    let pages = requests.iter().fold(0usize, |sum, request| {
        let length = request.prompt.len() + request.sampling.max_tokens.min(model.context());
        sum.saturating_add((KvCache::<B>::pages_for(length) + 1).saturating_mul(request.samples))
    });
    pages.saturating_mul(KvCache::page_bytes(model))
}
