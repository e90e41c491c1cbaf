//! From problems to judged responses: prompts, sampling, verdicts.
//!
//! [`Prompter`] turns a problem's text into tokens. The [`Engine`] samples by continuous batching over a paged key-value
//! cache: [`Engine::submit`] queues a prompt to be sampled any number of times, [`Engine::step`] advances everything that
//! fits by one token. [`respond`] runs it to the end and has a [`Judge`] make [`Response`]s of what was sampled. A sample's
//! tokens depend on the weights, its prompt, its [`Key`] and its [`Sampling`] settings, and on nothing else: not on what
//! shares its batch, on memory, on threads or on the order of completion.

mod activation_slots;
mod begun;
mod beside;
mod engine;
mod error;
mod judge;
mod kept;
mod observer;
mod peers;
mod prompter;
mod random;
mod respond;
mod response;
mod sample;
mod sampling;
mod sequence;
mod stop;

pub use isentrope_kernels::Drawn;

pub use begun::Begun;
pub use engine::{Engine, Event, Limits, Request, RequestId};
pub use error::{Error, Result};
pub use judge::{Judge, check_problem, verifier_item};
pub use kept::KeptTokens;
pub use observer::{Phase, Progress, ProgressObserver};
pub use peers::{Left, Met, Peers, Place};
pub use prompter::{Prompter, template_variables};
pub use random::Key;
pub use respond::{Groups, Responded, respond};
pub use response::Response;
pub use sample::{Interrupt, Sampler};
pub use sampling::{Sampling, check_stop_texts};
pub use sequence::{Completion, FinishReason};
