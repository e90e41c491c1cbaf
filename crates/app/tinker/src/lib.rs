//! Tinker's protocol over the trainer and the sampler: scripts that use the packages tinker and
//! tinker_cookbook run against it unchanged.
//!
//! The thread that calls [`serve`] owns all weights (`worker.rs`): one frozen base, an adapter or
//! a whole model for each client in training, and copies for samplers. Another thread speaks HTTP
//! (`site.rs`). A request is answered with its id at once; its result is fetched later
//! (`promises.rs`).
//!
//! A sample's log-probs at temperature 1 equal a forward pass's over the same weights, to the last
//! bit, and depend on no other request. Another temperature divides the logits.

mod error;
mod example;
mod lists;
mod loss;
mod memory;
mod promises;
mod requests;
mod sampling;
mod sessions;
mod site;
mod store;
mod training;
mod wire;
mod worker;

use example::Bounds;
use isentrope_model::Model;
use isentrope_model::adapter::BaseModel;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_rollout::Limits;
use memory::{Memory, PassMemory};
use promises::Promises;
use sampling::SampledWeights;
use sessions::Sessions;
use site::Tinker;
use std::collections::{HashMap, VecDeque};
use std::net::TcpListener;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use std::{io, thread};
use store::Store;
use worker::{TrainingQueue, Worker};

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The base's name in requests.
    pub name: String,
    /// The tokenizer as transformers finds it: a hub id or a directory.
    pub tokenizer_id: String,
    /// Key that requests must have; none if all may ask.
    pub api_key: Option<String>,
    /// Most tokens of a prompt and its response together, and of an example.
    pub context: usize,
    /// Tokens that end a response.
    pub eos_tokens: Vec<u32>,
    /// The directory of saved weights.
    pub out: PathBuf,
    /// The base's directory.
    pub base_dir: PathBuf,
    /// The base as saved adapters name it.
    pub base: BaseModel,
    /// Limits of the sampling engine.
    pub sampling: Limits,
    /// Whether models in training train all weights, and no adapter.
    pub all_weights: bool,
    /// Most targets of a training pass over several examples.
    pub micro_batch_tokens: usize,
    /// Bytes for a training pass.
    pub pass_bytes: usize,
    /// Bytes for models in training, and for copies of weights to sample from.
    pub model_bytes: usize,
    /// Time for running requests when the server is to end.
    pub grace: Duration,
}

/// Serves a base, its adapters and whole models until `stop` says true.
///
/// # Errors
/// When the system refuses threads or sockets.
pub fn serve(
    listener: TcpListener,
    base: &Model,
    tokenizer: &Arc<Tokenizer>,
    settings: Settings,
    stop: fn() -> bool,
) -> io::Result<()> {
    let store = Arc::new(Store {
        dir: settings.out.clone(),
        base_dir: settings.base_dir.clone(),
        base: settings.base.clone(),
    });
    store.recover().map_err(|failure| io::Error::other(failure.message))?;
    let (sessions, promises) = (Arc::new(Sessions::default()), Arc::new(Promises::new()));
    let (sender, messages) = channel();
    let limits = settings.sampling;
    let passes =
        PassMemory { bytes: settings.pass_bytes, micro_batch_tokens: settings.micro_batch_tokens };
    let memory = Memory::new(settings.model_bytes);
    let site = Tinker {
        config: base.config.clone(),
        layout: base.layout.clone(),
        bounds: Bounds { vocabulary: base.config.vocab_size, context: settings.context },
        eos_tokens: settings.eos_tokens.clone(),
        tokenizer: Arc::clone(tokenizer),
        store: Arc::clone(&store),
        sessions: Arc::clone(&sessions),
        promises: Arc::clone(&promises),
        messages: sender,
        settings,
    };
    let http = thread::Builder::new()
        .name("http".into())
        .spawn(move || isentrope_serve::run(Arc::new(site), listener, stop))?;
    let worker = Worker {
        base: Rc::new(SampledWeights::new(base.base(), None)),
        tokenizer,
        store: &store,
        limits,
        passes,
        memory,
        promises: &promises,
        sessions: &sessions,
        messages,
        models: HashMap::new(),
        loaded: VecDeque::new(),
        training: TrainingQueue::default(),
        sampling: VecDeque::new(),
        looked: Instant::now(),
    };
    worker.work();
    http.join().map_err(|_| io::Error::other("the HTTP thread failed"))?
}
