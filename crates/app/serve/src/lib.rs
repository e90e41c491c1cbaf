//! An HTTP server that speaks OpenAI's interface over the sampling engine.
//!
//! The thread that calls [`serve`] owns the engine: requests join and leave its batch at every
//! step. Another thread speaks HTTP, and reads requests; both know each other by channels alone. A
//! response depends on the weights, its prompt, its seed and its number, and not on the requests
//! beside it; `isentrope score` gives the same log-probs.

mod answer;
mod api_error;
mod fields;
mod http;
mod job;
mod metrics;
mod reading;
mod said;
mod scoring;
mod stream;
mod worker;

pub use api_error::ApiError;
pub use http::{Site, are_equal, is_body_of, read, reply, run};
pub use stream::Reply;

use http::Server;
use isentrope_model::{KvCache, Model};
use isentrope_rollout::{Limits, Prompter, Sampling};
use metrics::Metrics;
use reading::Front;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{io, thread};

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The model's name in requests and answers.
    pub name: String,
    /// Key that requests must have; none if all may ask.
    pub api_key: Option<String>,
    /// Most tokens of a prompt and its response together; none for what the model and the memory
    /// hold.
    pub context: Option<usize>,
    /// Most sequences that may wait to begin.
    pub max_waiting: usize,
    /// Longest time of a request.
    pub timeout: Duration,
    /// Time for running requests when the server is to end.
    pub grace: Duration,
}

/// Failure of a server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine could not begin.
    #[error(transparent)]
    Engine(#[from] isentrope_rollout::Error),
    /// The system refused threads or sockets.
    #[error("cannot serve: {0}")]
    System(#[from] io::Error),
}

/// Most tokens of a prompt and its response together.
pub fn context(model: &Model, limits: &Limits, asked: Option<usize>) -> usize {
    let pages = (limits.cache_bytes / KvCache::page_bytes(model)).max(1);
    // A prompt of several samples may need one page for each beside those that they share.
    let held = pages.saturating_sub(1).max(1) * model.backend.page_positions();
    model.context().min(held).min(asked.unwrap_or(usize::MAX))
}

/// Serves a model until `stop` says true and the running requests have ended, or have had their
/// time. `defaults` are the settings of sampling where a request has none.
///
/// # Errors
/// When there is no memory for keys and values, or the system refuses threads or sockets.
pub fn serve(
    listener: TcpListener,
    model: &Model,
    prompter: Prompter,
    defaults: Sampling,
    limits: Limits,
    settings: Settings,
    stop: fn() -> bool,
) -> Result<(), Error> {
    let front = Arc::new(Front {
        prompter,
        name: settings.name.clone(),
        defaults,
        context: context(model, &limits, settings.context),
        started: answer::now(),
    });
    let metrics = Arc::new(Metrics::default());
    let (sender, messages) = channel();
    let server = Server {
        front: Arc::clone(&front),
        settings,
        metrics: Arc::clone(&metrics),
        messages: sender,
        answers: AtomicU64::new(0),
    };
    let http = thread::Builder::new()
        .name("http".into())
        .spawn(move || run(Arc::new(server), listener, stop))?;
    let worked = worker::work(model, &front.prompter.tokenizer, limits, &messages, &metrics);
    drop(messages);
    if worked.is_err() {
        return Ok(worked?); // the process ends, and with it the other thread
    }
    http.join().map_err(|_| io::Error::other("the HTTP thread failed"))??;
    Ok(())
}
