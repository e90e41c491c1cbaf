//! Requests to the engine, limits of its memory, and the events that it returns.

use crate::random::Key;
use crate::sampling::Sampling;
use crate::sequence::Completion;
use isentrope_kernels::Drawn;
use std::sync::Arc;

/// A prompt to sample from.
#[derive(Clone, Debug)]
pub struct Request {
    /// Coordinates of its random numbers.
    pub key: Key,
    /// Tokens, at least one.
    pub prompt: Vec<u32>,
    /// Numbers of the requested responses, each with random numbers of its own.
    pub samples: Vec<usize>,
    /// How to draw them.
    pub sampling: Arc<Sampling>,
    /// Whether to cache the responses' activations, if the engine has an activation cache.
    pub cache_activations: bool,
}

/// Number of a request, from 0 in the order of submission.
pub type RequestId = usize;

/// Limits of the engine's memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes for keys and values, and recurrent states. An engine has the smallest cache
    /// ([`KvCache::least_bytes`](isentrope_model::KvCache::least_bytes)) at least.
    pub cache_bytes: usize,
    /// Responses decoded at a time.
    pub sequences: usize,
    /// Prompt tokens prefilled per step.
    pub prefill_tokens: usize,
}

impl Default for Limits {
    /// The defaults: 4 GiB of keys and values, 512 sequences, 1024 prompt tokens.
    fn default() -> Self {
        Self { cache_bytes: 4 << 30, sequences: 512, prefill_tokens: 1024 }
    }
}

/// Something that happened in a step.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "an event lives for a step, and few end a response")]
pub enum Event {
    /// A response has one token more.
    Token {
        /// The request.
        request: RequestId,
        /// The response, from 0.
        sample: usize,
        /// The token, without its mask, which the [`Completion`] has.
        drawn: Drawn,
        /// Text that the token completed, if there is a tokenizer and text is decoded token by
        /// token. It may lag behind, but is never retracted.
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
    /// Logits after a response are NaN or infinite, so there is no distribution to sample from. The
    /// response has left the engine; the others go on.
    NotFinite {
        /// The request.
        request: RequestId,
        /// The response, from 0.
        sample: usize,
        /// Number of tokens of prompt and response before the failure.
        position: usize,
    },
}
