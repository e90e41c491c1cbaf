//! Sampling from a model: continuous batching over a paged key-value cache.
//!
//! [`Engine::submit`] queues a prompt to be sampled any number of times; [`Engine::step`] advances everything that
//! fits by one token. A sample's tokens depend on the weights, its prompt, its [`Key`] and its [`Sampling`] settings,
//! and on nothing else: not on what shares its batch, on memory, on threads or on the order of completion.

mod engine;
mod error;
mod random;
mod recorder;
mod sampling;
mod sequence;
mod stop;

pub use isentrope_kernels::Drawn;

pub use engine::{Engine, Event, Limits, Request, RequestId};
pub use error::{Error, Result};
pub use random::Key;
pub use sampling::Sampling;
pub use sequence::{Completion, FinishReason};
