//! The paths of Tinker's protocol. Requests are read and checked here, and what needs weights goes
//! to the worker; all of it runs on the HTTP thread and a few others.

use crate::Settings;
use crate::error::{Cause, Failure, Result};
use crate::example::{self, Bounds};
use crate::loss::Loss;
use crate::promises::{Outcome, Promises};
use crate::requests::{self, CreateModel, CreateSampler, LoadWeights, OfModel, OfPath, OfRequest};
use crate::requests::{OfSession, OptimStep, Sample, SaveWeights};
use crate::sampling::SampleTask;
use crate::sessions::{Sessions, Weights, client_config, model_id, sampler_id};
use crate::store::{Kind, SCHEME, SavedState, Store, WeightsPath};
use crate::wire::{ConfigValue, ForwardBackwardRequest};
use crate::worker::{Message, TrainTask, Work};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Method, Request, Response, StatusCode};
use isentrope_model::tokenizer::Tokenizer;
use isentrope_model::{Layout, ModelConfig};
use isentrope_serve::{ApiError, Reply, Site, are_equal, is_body_of, read, reply};
use prost::Message as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Longest body of a request, in bytes. Clients send calls of more than 5 MB in parts.
const LONGEST_BODY: usize = 16 << 20;
/// Time for which a request for a result waits; clients wait 45 s.
const PATIENCE: Duration = Duration::from_secs(20);
/// Ends the id of the request that makes a model, behind the model's id.
const CREATION: &str = ":0";
const API: &str = "/api/v1/";
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/x-protobuf";

/// The state that all requests share.
pub(crate) struct Tinker {
    pub settings: Settings,
    pub config: ModelConfig,
    pub layout: Layout,
    pub bounds: Bounds,
    pub eos_tokens: Vec<u32>,
    pub tokenizer: Arc<Tokenizer>,
    pub store: Arc<Store>,
    pub sessions: Arc<Sessions>,
    pub promises: Arc<Promises>,
    pub messages: Sender<Message>,
}

impl Site for Tinker {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Reply> {
        match self.route(request).await {
            Ok(answer) => answer,
            Err(error) => {
                let category = if error.status.is_server_error() { "server" } else { "user" };
                let body = json!({"error": error.message, "category": category});
                let mut answer = reply(JSON, body.to_string());
                *answer.status_mut() = error.status;
                answer
            }
        }
    }

    fn grace(&self) -> Duration {
        self.settings.grace
    }

    fn end(&self) {
        let _ = self.messages.send(Message::End); // the worker may be gone
    }
}

/// The HTTP status of a failure. Clients send a request again after 408, 409, 429 and 5xx alone.
fn refused(Failure { message, cause }: Failure) -> ApiError {
    let status = match cause {
        Cause::Busy => StatusCode::TOO_MANY_REQUESTS,
        Cause::Unknown => StatusCode::NOT_FOUND,
        Cause::User | Cause::Server => StatusCode::BAD_REQUEST,
    };
    ApiError::new(status, message)
}

impl Tinker {
    async fn route(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> std::result::Result<Response<Reply>, ApiError> {
        let path = request.uri().path().to_owned();
        let Some(path) = path.strip_prefix(API).map(str::to_owned) else {
            let message = format!("there is no such path: Tinker's protocol is below {API}");
            return Err(ApiError::new(StatusCode::NOT_FOUND, message));
        };
        self.check_key(request.headers())?;
        let method = request.method().clone();
        if ![Method::GET, Method::POST, Method::DELETE].contains(&method) {
            let message = format!("{method} is not supported");
            return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message));
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let mut body = Vec::new();
        if method == Method::POST {
            if !is_body_of(request.headers(), &[JSON, PROTOBUF]) {
                let message = format!("the header Content-Type must be {JSON} or {PROTOBUF}");
                return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
            }
            body = read(request, LONGEST_BODY).await?;
            if path == "retrieve_future" {
                return self.retrieve(&body).await;
            }
        }
        let answer = move || match method {
            Method::GET => self.get(&path, &query),
            Method::DELETE => self.delete(&path),
            _ => self.post(&path, &body),
        };
        let answer = tokio::task::spawn_blocking(answer)
            .await
            .map_err(|_| ApiError::internal("the request could not be read"))?
            .map_err(refused)?;
        Ok(reply(JSON, answer.to_string()))
    }

    fn check_key(&self, headers: &HeaderMap) -> std::result::Result<(), ApiError> {
        let Some(key) = &self.settings.api_key else { return Ok(()) };
        if headers.get("X-API-Key").is_some_and(|given| are_equal(given.as_bytes(), key.as_bytes()))
        {
            return Ok(());
        }
        let message = "the API key is missing or wrong: set TINKER_API_KEY";
        Err(ApiError::new(StatusCode::UNAUTHORIZED, message))
    }

    fn get(&self, path: &str, query: &str) -> Result<Value> {
        if let Some(id) = path.strip_prefix("samplers/") {
            let (_, weights) = self.sessions.sampler(id)?;
            let path = match weights {
                Weights::Saved(path) => Some(path.to_string()),
                _ => None,
            };
            let base_model = &self.settings.name;
            return Ok(json!({"sampler_id": id, "base_model": base_model, "model_path": path}));
        }
        match path {
            "healthz" => Ok(json!({"status": "ok"})),
            "get_server_capabilities" => Ok(json!({"supported_models": [{
                "model_name": self.settings.name,
                "max_context_length": self.bounds.context,
                "trainable": true,
                "sampleable": true,
            }]})),
            _ => self.list(path, query)?.ok_or_else(|| not_there(path)),
        }
    }

    /// Deletes saved weights, the only thing that can be deleted.
    fn delete(&self, path: &str) -> Result<Value> {
        let weights =
            path.strip_prefix("training_runs/").map(|of| of.replace("/checkpoints/", "/"));
        let weights = weights.ok_or_else(|| not_there(path))?;
        self.store.delete(&WeightsPath::parse(&format!("{SCHEME}{weights}"))?)?;
        Ok(json!({}))
    }

    fn post(&self, path: &str, body: &[u8]) -> Result<Value> {
        match path {
            "client/config" => Ok(client_config()),
            "client/dynamic_config" => Ok(json!({"sample_cancel_enabled": true})),
            "telemetry" => Ok(json!({"status": "accepted"})),
            "create_session" => {
                let id = self.sessions.create()?;
                let message = if self.settings.all_weights {
                    "this server trains all weights: lora_config has no effect"
                } else {
                    "isentrope trains adapters of attention and MLP layers; the unembedding stays \
                     as it is, whatever train_unembed says"
                };
                Ok(json!({"type": "create_session", "session_id": id, "info_message": message}))
            }
            "session_heartbeat" => {
                let OfSession { session_id } = requests::read(body)?;
                let kind = json!({"type": "session_heartbeat"});
                let ended = || Failure::unknown(format!("the session {session_id} has ended"));
                self.sessions.hear(&session_id).then_some(kind).ok_or_else(ended)
            }
            "cancel_future" => {
                let OfRequest { request_id } = requests::read(body)?;
                let was_wanted = self.promises.forget(&request_id);
                // The model goes even if it is made already.
                if let Some(model) = request_id.strip_suffix(CREATION)
                    && was_wanted
                {
                    let (model, request) = (model.to_owned(), request_id.clone());
                    self.tell(Message::Uncreate { model: model.clone(), request })?;
                    self.sessions.remove_model(&model);
                }
                Ok(json!({}))
            }
            "create_model" => self.create_model(requests::read(body)?),
            "load_weights" => self.load_weights(requests::read(body)?),
            "get_info" => self.info(requests::read(body)?),
            "weights_info" => self.weights_info(requests::read(body)?),
            "unload_model" => {
                let OfModel { model_id } = requests::read(body)?;
                self.sessions.model(&model_id)?;
                self.train(&model_id, i64::MAX, 0, || Ok(Work::Unload))
            }
            "forward_backward" => self.forward_backward(body),
            "optim_step" => {
                let request: OptimStep = requests::read(body)?;
                let (model, seq) = (request.model_id.clone(), request.seq_id);
                self.train(&model, seq, 0, || Ok(Work::Step(request.settings()?)))
            }
            "save_weights" => {
                let request: SaveWeights = requests::read(body)?;
                self.train(&request.model_id, request.seq_id, 0, || {
                    let name = request.path.clone();
                    let name = name.unwrap_or_else(|| format!("{:06}", request.seq_id));
                    let path = WeightsPath::new(&request.model_id, Kind::Training, &name)?;
                    Ok(Work::Save { path, overwrite: request.overwrite })
                })
            }
            "save_weights_for_sampler" => self.save_for_sampler(&requests::read(body)?),
            "create_sampling_session" => self.create_sampler(&requests::read(body)?),
            "asample" => self.sample(requests::read(body)?, body.len()),
            _ => {
                let session =
                    path.strip_prefix("sessions/").and_then(|of| of.strip_suffix("/finish"));
                let session = session.ok_or_else(|| not_there(path))?;
                let models = self.sessions.end(session).unwrap_or_default();
                self.promises.end_session(session);
                self.tell(Message::Free(models))?;
                Ok(json!({}))
            }
        }
    }

    fn check_base(&self, asked: Option<&str>) -> Result<()> {
        let name = &self.settings.name;
        match asked {
            Some(other) if other != name => Err(Failure::user(format!(
                "this server has the model {name}, and not {other}: name it so, or start the \
                 server with --served-model-name {other}"
            ))),
            _ => Ok(()),
        }
    }

    fn create_model(&self, request: CreateModel) -> Result<Value> {
        self.check_base(Some(&request.base_model))?;
        request.optimizer_config.check()?;
        let mut state = SavedState {
            base_model: self.settings.name.clone(),
            train_attn: true,
            train_mlp: true,
            optimizer: None,
        };
        let (mut adapter, mut seed) = (None, 0);
        if !self.settings.all_weights {
            let lora = request.lora_config.ok_or_else(|| {
                Failure::user("lora_config is missing, which says what adapters are trained")
            })?;
            let mut config = lora.adapter(&self.layout)?;
            config.base = Some(self.store.base.clone());
            (state.train_attn, state.train_mlp) = (lora.train_attn, lora.train_mlp);
            (adapter, seed) = (Some(Box::new(config)), lora.seed.unwrap_or(0));
        }
        let rank = adapter.as_ref().map(|config| config.rank);
        let work = Work::Create { adapter, seed, state };
        self.begin_model(&request.session_id, request.model_seq_id, rank, work)
    }

    fn load_weights(&self, request: LoadWeights) -> Result<Value> {
        self.check_base(request.base_model.as_deref())?;
        request.optimizer_config.as_ref().map_or(Ok(()), requests::Optimizer::check)?;
        let path = WeightsPath::parse(&request.path)?;
        let work = Work::Load { path: path.clone(), with_optimizer: request.optimizer };
        if let (Some(session), Some(number)) = (&request.session_id, request.model_seq_id) {
            let (_, adapter) = self.store.describe(&path)?;
            let rank = adapter.map(|config| config.rank);
            return self.begin_model(session, number, rank, work);
        }
        let (Some(model), Some(seq)) = (&request.model_id, request.seq_id) else {
            return Err(Failure::user("load_weights needs model_id and seq_id, or a session"));
        };
        self.train(model, seq, 0, || Ok(work))
    }

    /// Begins the request that makes a model.
    fn begin_model(
        &self,
        session: &str,
        number: u64,
        rank: Option<usize>,
        work: Work,
    ) -> Result<Value> {
        let model = model_id(session, number);
        let id = format!("{model}{CREATION}");
        let begin = || self.promises.begin(&id, session, 0);
        if self.sessions.add_model(session, &model, rank, begin)? {
            let task = TrainTask { id: id.clone(), model: model.clone(), work };
            self.tell(Message::Train(Box::new(task)))?;
        }
        Ok(json!({"request_id": id, "model_id": model}))
    }

    /// Begins a request to a model in training. One that is at fault fails as a result, so that it
    /// keeps its place among the model's requests.
    fn train(
        &self,
        model: &str,
        seq: i64,
        bytes: usize,
        work: impl FnOnce() -> Result<Work>,
    ) -> Result<Value> {
        let id = format!("{model}:{seq}");
        let begin = |session: &str| self.promises.begin(&id, session, bytes);
        if self.sessions.take_turn(model, seq, begin)? {
            match work() {
                Ok(work) => {
                    let (id, model) = (id.clone(), model.to_owned());
                    self.tell(Message::Train(Box::new(TrainTask { id, model, work })))?;
                }
                Err(failure) => self.promises.finish(&id, Outcome::failed(&failure)),
            }
        }
        Ok(json!({"request_id": id, "model_id": model}))
    }

    fn forward_backward(&self, body: &[u8]) -> Result<Value> {
        let request = ForwardBackwardRequest::decode(body)
            .map_err(|_| Failure::user("the body is no forward_backward request in protobuf"))?;
        let bytes = example::bytes(&request.data);
        self.train(&request.model_id, request.seq_id.into(), bytes, || {
            let loss = Loss::of(&request.loss_fn, config_of(&request)?)?;
            let data = example::read(&request.data, loss, self.bounds)?;
            Ok(Work::Pass { data, loss, backward: !request.forward_only })
        })
    }

    fn info(&self, OfModel { model_id }: OfModel) -> Result<Value> {
        let rank = self.sessions.model(&model_id)?.rank;
        let Settings { name, tokenizer_id, .. } = &self.settings;
        Ok(json!({
            "type": "get_info",
            "model_id": model_id,
            "model_name": name,
            "model_data": {
                "arch": self.config.family.architecture,
                "model_name": name,
                "tokenizer_id": tokenizer_id,
            },
            "is_lora": rank.is_some(),
            "lora_rank": rank,
        }))
    }

    fn weights_info(&self, OfPath { tinker_path }: OfPath) -> Result<Value> {
        let (state, adapter) = self.store.describe(&WeightsPath::parse(&tinker_path)?)?;
        let SavedState { base_model, train_attn, train_mlp, .. } = state;
        Ok(json!({
            "base_model": base_model,
            "is_lora": adapter.is_some(),
            "lora_rank": adapter.as_ref().map(|config| config.rank),
            "train_unembed": adapter.is_none(),
            "train_mlp": train_mlp,
            "train_attn": train_attn,
        }))
    }

    fn save_for_sampler(&self, request: &SaveWeights) -> Result<Value> {
        self.train(&request.model_id, request.seq_id, 0, || {
            if request.kind.as_deref().is_some_and(|kind| kind != "snapshot") {
                let what = "weights that change under a sampler (inflight) are not supported: take \
                            snapshots";
                return Err(Failure::user(what));
            }
            if let Some(name) = &request.path {
                let path = WeightsPath::new(&request.model_id, Kind::Sampler, name)?;
                return Ok(Work::Save { path, overwrite: false });
            }
            let number = request.sampling_session_seq_id.ok_or_else(|| {
                Failure::user("save_weights_for_sampler needs path or sampling_session_seq_id")
            })?;
            let (session, _) = request.model_id.split_once(":train:").unwrap_or_default();
            let (model, sampler) = (request.model_id.clone(), sampler_id(session, number));
            let weights = Weights::Snapshot { model, sampler };
            let sampler = self.sessions.add_sampler(session, number, weights)?;
            Ok(Work::Snapshot { sampler })
        })
    }

    fn create_sampler(&self, request: &CreateSampler) -> Result<Value> {
        self.check_base(request.base_model.as_deref())?;
        let weights = match &request.model_path {
            None => Weights::Base,
            Some(path) => {
                let path = WeightsPath::parse(path)?;
                self.store.describe(&path)?;
                Weights::Saved(path)
            }
        };
        let number = request.sampling_session_seq_id;
        let id = self.sessions.add_sampler(&request.session_id, number, weights)?;
        Ok(json!({"type": "create_sampling_session", "sampling_session_id": id}))
    }

    fn sample(&self, request: Sample, bytes: usize) -> Result<Value> {
        let (Some(sampler), Some(seq)) = (request.sampling_session_id.clone(), request.seq_id)
        else {
            return Err(Failure::user("asample needs sampling_session_id and seq_id"));
        };
        let (session, weights) = self.sessions.sampler(&sampler)?;
        let number = sampler.rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let id = format!("{sampler}:{seq}");
        let sequences: Vec<String> =
            (0..request.num_samples.min(requests::SAMPLES)).map(|n| format!("{id}:{n}")).collect();
        if self.promises.begin(&id, &session, bytes)? {
            match request.prompt(number, self.bounds, &self.eos_tokens, &self.tokenizer) {
                Ok(prompt) => {
                    let task = SampleTask { id: id.clone(), weights, prompt };
                    self.tell(Message::Sample(Box::new(task)))?;
                }
                Err(failure) => self.promises.finish(&id, Outcome::failed(&failure)),
            }
        }
        Ok(json!({"request_id": id, "sample_sequence_ids": sequences}))
    }

    /// A request's result, or the word that it is not there yet.
    async fn retrieve(&self, body: &[u8]) -> std::result::Result<Response<Reply>, ApiError> {
        let OfRequest { request_id } = requests::read(body).map_err(refused)?;
        match self.promises.wait(&request_id, PATIENCE).await.map_err(refused)? {
            Some(Outcome::Json(answer)) => Ok(reply(JSON, answer.to_string())),
            Some(Outcome::Proto(bytes)) => Ok(reply(PROTOBUF, bytes)),
            None => {
                let body = json!({
                    "type": "try_again", "request_id": request_id, "queue_state": "active",
                });
                let mut answer = reply(JSON, body.to_string());
                *answer.status_mut() = StatusCode::REQUEST_TIMEOUT;
                Ok(answer)
            }
        }
    }

    fn tell(&self, message: Message) -> Result<()> {
        self.messages.send(message).map_err(|_| Failure::busy("the server is ending"))
    }
}

fn not_there(path: &str) -> Failure {
    Failure::unknown(format!("this server does not answer {API}{path}"))
}

/// The settings of a request's loss.
fn config_of(request: &ForwardBackwardRequest) -> Result<BTreeMap<String, f64>> {
    let mut config: BTreeMap<String, f64> =
        request.loss_fn_config.iter().map(|(key, number)| (key.clone(), *number)).collect();
    for (key, value) in &request.loss_fn_config_v2 {
        let Some(ConfigValue::Number(number)) = value.value else {
            return Err(Failure::user(format!("loss_fn_config: {key} is not a number")));
        };
        config.insert(key.clone(), number);
    }
    Ok(config)
}
