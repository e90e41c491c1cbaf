//! Sampling many prompts to the end, with progress.

use crate::error::Result;
use crate::observer::{Observer, Phase, Progress};
use isentrope_kernels::Backend;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_model::{KvCache, Model};
use isentrope_rollout::{Completion, Engine, Event, Limits, Request};

/// Completions of each request, in the order of requests and samples.
///
/// # Errors
/// As [`Engine::submit`] and [`Engine::step`].
pub fn sample<B: Backend>(
    model: &Model<B>,
    tokenizer: &Tokenizer,
    requests: Vec<Request>,
    limits: Limits,
    phase: Phase,
    observer: &mut dyn Observer,
) -> Result<Vec<Vec<Completion>>> {
    let mut completions: Vec<Vec<Option<Completion>>> =
        requests.iter().map(|r| vec![None; r.samples]).collect();
    let total = requests.iter().map(|r| r.samples).sum();
    let limits = Limits { cache_bytes: limits.cache_bytes.min(largest_need(model, &requests)), ..limits };
    let mut engine = Engine::new(model, Some(tokenizer), limits).decoding_at_the_end();
    for request in requests {
        engine.submit(request)?;
    }
    let (mut done, mut tokens) = (0, 0);
    observer.progress(Progress { phase, done, total, tokens });
    while !engine.is_idle() {
        for event in engine.step()? {
            match event {
                Event::Token { .. } => tokens += 1,
                Event::Finished { request, sample, completion } => {
                    completions[request][sample] = Some(completion);
                    done += 1;
                }
            }
        }
        observer.progress(Progress { phase, done, total, tokens });
    }
    Ok(completions.into_iter().map(|samples| samples.into_iter().flatten().collect()).collect())
}

/// Bytes of keys and values if everything ran at once.
fn largest_need<B: Backend>(model: &Model<B>, requests: &[Request]) -> usize {
    let pages = requests.iter().fold(0usize, |sum, request| {
        let length = request.prompt.len() + request.sampling.max_tokens.min(model.context());
        sum.saturating_add((KvCache::<B>::pages_for(length) + 1).saturating_mul(request.samples))
    });
    pages.saturating_mul(KvCache::page_bytes(model))
}
