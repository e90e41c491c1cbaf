//! From problems to judged responses: prompts, sampling, verdicts.
//!
//! [`Prompter`] turns a problem's text into tokens. The [`Engine`] samples by continuous batching
//! over a paged key-value cache: [`Engine::submit`] queues a prompt to be sampled any number of
//! times, [`Engine::step`] advances everything that fits by one token. [`respond`] is the whole
//! path: a [`SamplingRun`] steps the engine to the end, and a [`JudgeQueue`] makes [`Response`]s of
//! what is sampled. Between the turns of a response an [`EpisodeQueue`] asks its environment.
//!
//! A sample's tokens depend on the weights, its prompt, its [`Key`] and its [`Sampling`] settings
//! alone: not on its batch, on memory, on threads or on the order of completion.

mod activation_slots;
mod between_turns;
mod engine;
mod episode_queue;
mod error;
mod judge;
mod judge_queue;
mod literal_text;
mod observer;
mod partial_response;
mod played_turn;
mod prompter;
mod questions;
mod random;
mod respond;
mod response;
mod response_masks;
mod sampling;
mod sampling_run;
mod sequence;
mod stop;

pub use isentrope_kernels::Drawn;

pub use between_turns::{Conversation, GivenTokens};
pub use engine::{Engine, Event, Limits, Request, RequestId};
pub use episode_queue::{EpisodeOutcome, EpisodePreview, EpisodeQueue, Turns};
pub use error::{Error, Result};
pub use judge::{Judge, check_problem, settle_failures, verifier_item};
pub use judge_queue::JudgeQueue;
pub use observer::{Phase, Progress, ProgressObserver};
pub use partial_response::PartialResponse;
pub use played_turn::{BegunEpisodes, PlayedTurn, TurnLink};
pub use prompter::{Prompter, template_variables};
pub use random::Key;
pub use respond::{
    Groups, Interrupt, RespondOutcome, ResponseEvent, ResponseId, ResponseSink, respond,
};
pub use response::Response;
pub use response_masks::ResponseMasks;
pub use sampling::{Sampling, check_stop_texts};
pub use sampling_run::{Sampler, SamplingRun, Unfinished};
pub use sequence::{Completion, FinishReason};
