//! The thread that owns all weights. Training requests are done one by one: models take turns, and
//! each has its requests in order. Sampling requests of equal weights share the batches of one
//! engine; other weights wait for their turn. Between two steps of the engine there is at most one
//! training request.

use crate::error::{Failure, Result, contain};
use crate::example::Example;
use crate::loss::Loss;
use crate::memory::{Memory, PassMemory, Room, training_bytes};
use crate::promises::{Outcome, Promises};
use crate::sampling::{Running, SampleTask, SampledWeights};
use crate::sessions::{Sessions, Weights};
use crate::store::{SavedState, Store, WeightsPath};
use crate::training::Trainee;
use isentrope_kernels::Role;
use isentrope_model::adapter::AdapterConfig;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_model::{Layout, Model};
use isentrope_rollout::{Engine, Limits};
use isentrope_train::settings::OptimizerSettings;
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::mem;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// Saved weights that are kept loaded for sampling.
const LOADED: usize = 4;
/// The purpose of memory of a model in training.
const TRAINING: &str = "training the model";
/// Time between two looks for what is not wanted any more.
const LOOK: Duration = Duration::from_secs(5);

/// A message to the thread.
pub(crate) enum Message {
    Train(Box<TrainTask>),
    Sample(Box<SampleTask>),
    /// Frees the models of a session that has ended.
    Free(Vec<String>),
    /// Frees a model whose making is cancelled, and drops the request that would make it.
    Uncreate {
        model: String,
        /// The request's id.
        request: String,
    },
    End,
}

/// A request to a model in training.
pub(crate) struct TrainTask {
    /// The request's id.
    pub id: String,
    pub model: String,
    pub work: Work,
}

pub(crate) enum Work {
    Create {
        /// The adapter; none to train all weights.
        adapter: Option<Box<AdapterConfig>>,
        seed: u64,
        state: SavedState,
    },
    /// Makes the model, or gives it other weights.
    Load {
        path: WeightsPath,
        with_optimizer: bool,
    },
    Pass {
        data: Vec<Example>,
        loss: Loss,
        backward: bool,
    },
    Step(OptimizerSettings),
    Save {
        path: WeightsPath,
        overwrite: bool,
    },
    Snapshot {
        sampler: String,
    },
    Unload,
}

/// The thread's state.
pub(crate) struct Worker<'a> {
    pub base: Rc<SampledWeights>,
    pub tokenizer: &'a Tokenizer,
    pub store: &'a Store,
    pub limits: Limits,
    pub passes: PassMemory,
    pub memory: Memory,
    pub promises: &'a Promises,
    pub sessions: &'a Sessions,
    pub messages: Receiver<Message>,
    pub models: HashMap<String, Trainee>,
    pub loaded: VecDeque<(WeightsPath, Rc<SampledWeights>)>,
    pub training: TrainingQueue,
    pub sampling: VecDeque<SampleTask>,
    pub looked: Instant,
}

/// Training requests that wait. Models take turns, so that a long queue of one holds up no other;
/// the requests of a model keep their order, and so nothing but the time depends on the turns.
#[derive(Default)]
pub(crate) struct TrainingQueue(VecDeque<(String, VecDeque<TrainTask>)>);

impl TrainingQueue {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn push(&mut self, task: TrainTask) {
        match self.0.iter_mut().find(|(model, _)| *model == task.model) {
            Some((_, tasks)) => tasks.push_back(task),
            None => self.0.push_back((task.model.clone(), VecDeque::from([task]))),
        }
    }

    /// Takes a request of the model whose turn it is.
    pub fn pop(&mut self) -> Option<TrainTask> {
        let (model, mut tasks) = self.0.pop_front()?;
        let task = tasks.pop_front();
        if !tasks.is_empty() {
            self.0.push_back((model, tasks));
        }
        task
    }

    pub fn retain(&mut self, is_wanted: impl Fn(&TrainTask) -> bool) {
        self.0.iter_mut().for_each(|(_, tasks)| tasks.retain(&is_wanted));
        self.0.retain(|(_, tasks)| !tasks.is_empty());
    }
}

/// The server is to end.
struct Ending;

impl Worker<'_> {
    /// Works until the server is to end.
    pub fn work(mut self) {
        while self.receive(false).is_ok() {
            if let Some(task) = self.training.pop() {
                self.train(task);
            }
            let Some(next) = self.sampling.front() else { continue };
            let weights = next.weights.clone();
            let ended = match contain(|| self.weights(&weights)).flatten() {
                Ok(sampled) => self.sample(&sampled, &weights),
                Err(failure) => {
                    if let Some(task) = self.sampling.pop_front() {
                        self.promises.finish(&task.id, Outcome::failed(&failure));
                    }
                    Ok(())
                }
            };
            if ended.is_err() {
                return;
            }
        }
    }

    /// Takes all messages, and waits for one if there is nothing to do.
    fn receive(&mut self, is_sampling: bool) -> std::result::Result<(), Ending> {
        loop {
            if self.looked.elapsed() >= LOOK {
                self.drop_unwanted();
            }
            let is_idle = !is_sampling && self.training.is_empty() && self.sampling.is_empty();
            let message = if is_idle {
                self.messages.recv_timeout(LOOK)
            } else {
                self.messages.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                })
            };
            match message {
                Ok(Message::Train(task)) => self.training.push(*task),
                Ok(Message::Sample(task)) => self.sampling.push_back(*task),
                Ok(Message::Free(models)) => self.free(&models),
                Ok(Message::Uncreate { model, request }) => {
                    self.training.retain(|task| task.id != request);
                    self.free(&[model]);
                }
                Err(RecvTimeoutError::Timeout) if is_idle => {}
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return Err(Ending),
            }
        }
    }

    /// Ends sessions that are not heard any more, and drops requests that nobody waits for.
    fn drop_unwanted(&mut self) {
        self.looked = Instant::now();
        for session in self.sessions.silent() {
            self.free(&self.sessions.end(&session).unwrap_or_default());
            self.promises.end_session(&session);
        }
        let promises = self.promises;
        self.training.retain(|task| promises.is_wanted(&task.id));
        self.sampling.retain(|task| promises.is_wanted(&task.id));
    }

    fn free(&mut self, models: &[String]) {
        models.iter().for_each(|model| _ = self.models.remove(model));
    }

    /// Does a training request.
    fn train(&mut self, TrainTask { id, model, work }: TrainTask) {
        if !self.promises.is_wanted(&id) {
            return; // its session has ended
        }
        let (is_pass, is_step) = (matches!(work, Work::Pass { .. }), matches!(work, Work::Step(_)));
        let done = contain(|| self.outcome(&model, work)).unwrap_or_else(|mut failure| {
            if is_step {
                self.models.remove(&model);
                failure.message += "; the model is half updated and is gone";
            } else if is_pass && let Some(trainee) = self.models.get_mut(&model) {
                trainee.drop_gradient();
                failure.message += "; the gradient since the last update is gone";
            }
            Err(failure)
        });
        let outcome = done.unwrap_or_else(|failure| {
            if !self.models.contains_key(&model) {
                self.sessions.remove_model(&model);
            }
            Outcome::failed(&failure)
        });
        self.promises.finish(&id, outcome);
    }

    fn outcome(&mut self, id: &str, work: Work) -> Result<Outcome> {
        let answer = match work {
            Work::Create { adapter, seed, state } => {
                let trainee = self.create(id, adapter.map(|config| *config), seed, state)?;
                self.models.insert(id.to_owned(), trainee);
                json!({"type": "create_model", "model_id": id})
            }
            Work::Load { path, with_optimizer } => {
                self.load(id, &path, with_optimizer)?;
                json!({"type": "load_weights", "path": path.to_string(), "model_id": id})
            }
            Work::Pass { data, loss, backward } => {
                return self.model(id)?.pass(&data, loss, backward);
            }
            Work::Step(settings) => return self.model(id)?.step(settings),
            Work::Save { path, overwrite } => {
                let store = self.store;
                self.model(id)?.save(store, &path, overwrite)?;
                self.loaded.retain(|(loaded, _)| *loaded != path);
                json!({"path": path.to_string()})
            }
            Work::Snapshot { sampler } => {
                let bytes = self.model(id)?.snapshot_bytes();
                let room = self.room(id, bytes, "a copy of the weights for a sampler")?;
                self.model(id)?.keep(&sampler, room)?;
                json!({"sampling_session_id": sampler})
            }
            Work::Unload => {
                self.models.remove(id);
                self.sessions.remove_model(id);
                json!({"type": "unload_model", "model_id": id})
            }
        };
        Ok(Outcome::Json(answer))
    }

    /// Takes memory for a model. Weights that can be loaded again make place for it, and then the
    /// model's own snapshots, the oldest first; if all of them were not enough, they stay.
    fn room(&mut self, id: &str, bytes: usize, what: &str) -> Result<Room> {
        let of_snapshots = self.models.get(id).map_or(0, Trainee::freed_by_dropping_snapshots);
        if self.free_without_loaded() + of_snapshots >= bytes {
            self.models.get_mut(id).into_iter().for_each(Trainee::trim_snapshots);
            self.make_place(bytes, |worker| {
                worker.models.get_mut(id).is_some_and(Trainee::drop_oldest_snapshot)
            });
        }
        self.memory.take(bytes, what)
    }

    /// Drops loaded weights until `bytes` are free. If they are too few, calls `drop_other` as long
    /// as it drops something.
    fn make_place(&mut self, bytes: usize, mut drop_other: impl FnMut(&mut Self) -> bool) {
        while self.memory.free() < bytes {
            if self.loaded.pop_front().is_none() && !drop_other(self) {
                return;
            }
        }
    }

    /// Bytes that are free once loaded weights are dropped.
    fn free_without_loaded(&self) -> usize {
        let loaded = self.loaded.iter().map(|(_, weights)| weights.freed_by_dropping());
        self.memory.free() + loaded.sum::<usize>()
    }

    /// The base's layout, with an adapter's if there is one.
    fn layout(&self, adapter: Option<&AdapterConfig>) -> Result<Layout> {
        let mut layout = self.base.model.layout.clone();
        let adapter = adapter.map(|config| config.layout(&layout));
        layout.adapter = adapter.transpose().map_err(Failure::user)?;
        Ok(layout)
    }

    /// The bytes of a model that trains an adapter or all weights.
    fn training_bytes(&self, adapter: Option<&AdapterConfig>) -> Result<usize> {
        Ok(training_bytes(&*self.base.model.backend, &self.layout(adapter)?))
    }

    /// Makes a model in training.
    fn create(
        &mut self,
        id: &str,
        adapter: Option<AdapterConfig>,
        seed: u64,
        state: SavedState,
    ) -> Result<Trainee> {
        let room = self.room(id, self.training_bytes(adapter.as_ref())?, TRAINING)?;
        let base = &self.base.model;
        let model = match &adapter {
            None => Model::load(&self.store.base_dir, base.backend.clone()),
            Some(config) => {
                let layout = config.layout(&base.layout).map_err(Failure::user)?;
                base.base().with_new_adapter(layout, seed)
            }
        };
        Trainee::new(model.map_err(Failure::server)?, adapter, state, self.passes, room)
    }

    /// Makes a model of saved weights, in place of the one of this id if it is there already.
    fn load(&mut self, id: &str, path: &WeightsPath, with_optimizer: bool) -> Result<()> {
        let (state, adapter) = self.store.describe(path)?;
        let updates = match (with_optimizer, state.optimizer) {
            (true, None) => {
                let what = format!("{path} has no optimizer: only save_state saves one");
                return Err(Failure::user(what));
            }
            (true, updates) => updates,
            (false, _) => None,
        };
        let bytes = self.training_bytes(adapter.as_ref())?;
        // The former weights stay until the others are read, unless memory is short of both.
        let mut snapshots = None;
        let free = self.free_without_loaded();
        let held = |former: &Trainee| former.bytes() + former.freed_by_dropping_snapshots();
        let of_former = self.models.get(id).map_or(0, held);
        if free + of_former >= bytes {
            if free < bytes {
                let layout = self.layout(adapter.as_ref())?;
                self.store.check(path, adapter.as_ref(), &layout, updates.is_some())?;
                snapshots = self.models.remove(id).map(Trainee::into_snapshots);
            }
            self.make_place(bytes, |_| {
                snapshots.as_mut().is_some_and(|all| all.pop_back().is_some())
            });
        }
        let loaded = self.memory.take(bytes, TRAINING).and_then(|room| {
            let (base, store, saved) = (&self.base.model, self.store, (state, adapter));
            Trainee::load(base, store, path, saved, updates, self.passes, room)
        });
        let mut trainee = loaded.map_err(|mut failure| {
            if snapshots.is_some() {
                failure.message += "; the model with the former weights is gone";
            }
            failure
        })?;
        let former = self.models.remove(id).map(Trainee::into_snapshots);
        trainee.set_snapshots(snapshots.or(former).unwrap_or_default());
        self.sessions.set_rank(id, trainee.rank());
        self.models.insert(id.to_owned(), trainee);
        Ok(())
    }

    fn model(&mut self, id: &str) -> Result<&mut Trainee> {
        self.models.get_mut(id).ok_or_else(|| {
            Failure::user(format!("the model {id} is not there: making it has failed"))
        })
    }

    /// A sampler's weights.
    fn weights(&mut self, weights: &Weights) -> Result<Rc<SampledWeights>> {
        match weights {
            Weights::Base => Ok(Rc::clone(&self.base)),
            Weights::Saved(path) => {
                if let Some((_, weights)) = self.loaded.iter().find(|(loaded, _)| loaded == path) {
                    return Ok(Rc::clone(weights));
                }
                if self.loaded.len() == LOADED {
                    self.loaded.pop_front();
                }
                let (_, adapter) = self.store.describe(path)?;
                let layout = self.layout(adapter.as_ref())?;
                let bytes = layout.trained().bytes(&*self.base.model.backend, Role::Weight);
                let room = self.room("", bytes, "a sampler of saved weights")?;
                let base = &self.base.model;
                let model = self.store.load(path, adapter.as_ref(), base, Model::load_frozen)?;
                let weights = Rc::new(SampledWeights::new(model, Some(room)));
                self.loaded.push_back((path.clone(), Rc::clone(&weights)));
                Ok(weights)
            }
            Weights::Snapshot { model, sampler } => {
                let model = self
                    .models
                    .get(model)
                    .ok_or_else(|| Failure::user("the model of this sampler has been unloaded"))?;
                model.kept(sampler)
            }
        }
    }

    /// Whether loaded weights still are what their name stands for: other weights may have
    /// been saved under the path.
    fn is_current(&self, sampled: &Rc<SampledWeights>, weights: &Weights) -> bool {
        let Weights::Saved(path) = weights else { return true };
        self.loaded.iter().any(|(of, loaded)| of == path && Rc::ptr_eq(loaded, sampled))
    }

    /// Samples for all waiting requests of these weights, and for those that come before any of
    /// others.
    fn sample(
        &mut self,
        sampled: &Rc<SampledWeights>,
        weights: &Weights,
    ) -> std::result::Result<(), Ending> {
        let (tokenizer, limits, model) = (Some(self.tokenizer), self.limits, &sampled.model);
        let engine = contain(|| Engine::new(model, tokenizer, limits).map_err(Failure::server));
        let mut running = match engine.flatten() {
            Ok(engine) => Running::new(model, engine, self.passes, self.promises),
            Err(failure) => {
                if let Some(task) = self.sampling.pop_front() {
                    self.promises.finish(&task.id, Outcome::failed(&failure));
                }
                return Ok(());
            }
        };
        let waiting = mem::take(&mut self.sampling).into_iter();
        let (own, others): (Vec<_>, Vec<_>) = waiting.partition(|task| task.weights == *weights);
        self.sampling = others.into();
        own.into_iter().for_each(|task| running.begin(task));
        loop {
            while self.is_current(sampled, weights)
                && self.sampling.front().is_some_and(|task| task.weights == *weights)
            {
                let Some(task) = self.sampling.pop_front() else { break };
                running.begin(task);
            }
            if !running.step() {
                return Ok(());
            }
            self.receive(true)?;
            if let Some(task) = self.training.pop() {
                self.train(task);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Kind;
    use crate::training::tests::{base_dir, cpu, example, trainee};
    use isentrope_model::adapter::{BaseModel, Targets};
    use isentrope_model::checkpoint::Fingerprint;
    use std::fs;
    use std::path::Path;
    use std::sync::mpsc::channel;
    use tempfile::TempDir;

    #[test]
    fn models_take_turns_and_keep_their_order() {
        let mut queue = TrainingQueue::default();
        for (model, id) in ["a0", "a1", "a2", "a3", "b0", "c0", "b1"].map(|id| (&id[..1], id)) {
            let work = Work::Unload;
            queue.push(TrainTask { id: id.to_owned(), model: model.to_owned(), work });
        }
        queue.retain(|task| task.id != "a2");
        let order: Vec<String> = std::iter::from_fn(|| Some(queue.pop()?.id)).collect();
        assert_eq!(order, ["a0", "b0", "c0", "a1", "b1", "a3"]);
        assert!(queue.is_empty());
    }

    /// The parts of a server that its worker borrows.
    struct Server {
        tokenizer: Tokenizer,
        store: Store,
        promises: Promises,
        sessions: Sessions,
    }

    impl Server {
        fn new(dir: &Path) -> Self {
            let base = BaseModel::new("base", Fingerprint::of(&base_dir()).unwrap()).unwrap();
            Self {
                tokenizer: Tokenizer::read(&base_dir()).unwrap().unwrap(),
                store: Store { dir: dir.to_owned(), base_dir: base_dir(), base },
                promises: Promises::new(),
                sessions: Sessions::default(),
            }
        }

        /// A worker with one model, `model`.
        fn worker(&self, memory: usize, messages: Receiver<Message>) -> Worker<'_> {
            let base = Model::load_frozen(&base_dir(), cpu()).unwrap();
            Worker {
                base: Rc::new(SampledWeights::new(base, None)),
                tokenizer: &self.tokenizer,
                store: &self.store,
                limits: Limits { cache_bytes: 1 << 20, sequences: 1, prefill_tokens: 16 },
                passes: PassMemory { bytes: 1 << 26, micro_batch_tokens: 64 },
                memory: Memory::new(memory),
                promises: &self.promises,
                sessions: &self.sessions,
                messages,
                models: HashMap::from([("model".to_owned(), trainee(64))]),
                loaded: VecDeque::new(),
                training: TrainingQueue::default(),
                sampling: VecDeque::new(),
                looked: Instant::now(),
            }
        }
    }

    #[test]
    fn a_snapshot_that_is_refused_takes_no_other_with_it() {
        let server = Server::new(&base_dir());
        let bytes = trainee(64).snapshot_bytes();
        let mut worker = server.worker(bytes * 3 / 2, channel().1);
        let snapshot = |worker: &mut Worker<'_>, sampler: &str| {
            let work = Work::Snapshot { sampler: sampler.to_owned() };
            worker.outcome("model", work).err().map(|failure| failure.message)
        };
        assert_eq!(snapshot(&mut worker, "first"), None);
        let in_use = worker.models["model"].kept("first").unwrap();
        let message = snapshot(&mut worker, "second").unwrap();
        assert!(message.starts_with("a copy of the weights for a sampler takes"), "{message}");
        assert!(Rc::ptr_eq(&worker.models["model"].kept("first").unwrap(), &in_use));
        drop(in_use);
        assert_eq!(snapshot(&mut worker, "third"), None, "in the place of the first");
        assert!(worker.models["model"].kept("first").is_err());
    }

    #[test]
    fn weights_that_cannot_be_read_leave_the_former_ones() {
        let out = TempDir::new().unwrap();
        let server = Server::new(out.path());
        let adapter = AdapterConfig::new(3, 32.0, false, Targets::AllLinear);
        let bytes = server.worker(0, channel().1).training_bytes(Some(&adapter)).unwrap();
        let mut worker = server.worker(bytes * 3 / 2, channel().1);
        let state = SavedState {
            base_model: String::new(),
            train_attn: true,
            train_mlp: true,
            optimizer: None,
        };
        let create = Work::Create { adapter: Some(Box::new(adapter)), seed: 1, state };
        worker.outcome("own", create).unwrap();
        let path = WeightsPath::new("run", Kind::Training, "w").unwrap();
        worker.outcome("own", Work::Save { path: path.clone(), overwrite: false }).unwrap();
        let load = |worker: &mut Worker<'_>| {
            let work = Work::Load { path: path.clone(), with_optimizer: true };
            worker.outcome("own", work).map(drop)
        };
        for name in ["adapter_model.safetensors", "optimizer/model.safetensors"] {
            let file = out.path().join("run/weights/w").join(name);
            let whole = fs::read(&file).unwrap();
            fs::write(&file, &whole[..whole.len() - 4]).unwrap();
            let message = load(&mut worker).unwrap_err().message;
            assert!(!message.contains("is gone"), "{message}");
            assert!(worker.models.contains_key("own"), "{name}");
            fs::write(&file, whole).unwrap();
        }
        load(&mut worker).unwrap();
    }

    /// A pass that panics, here for want of an input, fails alone: its model
    /// goes on without the gradient.
    #[test]
    fn a_panic_ends_its_request_alone() {
        let server = Server::new(&base_dir());
        let (sender, messages) = channel();
        let train = |number: usize, work| {
            let id = number.to_string();
            assert!(server.promises.begin(&id, "session", 0).unwrap());
            let task = TrainTask { id, model: "model".to_owned(), work };
            sender.send(Message::Train(Box::new(task))).unwrap();
        };
        let pass = |loss| Work::Pass {
            data: vec![example(&[3, 4], &[4, 5], None, 1.0)],
            loss,
            backward: true,
        };
        train(0, pass(Loss::CrossEntropy));
        train(1, pass(Loss::ImportanceSampling));
        train(2, pass(Loss::CrossEntropy));
        train(3, Work::Step(OptimizerSettings::default()));
        sender.send(Message::End).unwrap();
        let mut worker = server.worker(0, messages);
        assert!(worker.receive(false).is_err(), "it takes all messages up to the last");
        while let Some(task) = worker.training.pop() {
            worker.train(task);
        }
        let outcome = |id: &str| server.promises.outcome(id).unwrap();
        assert!(matches!(outcome("0"), Outcome::Proto(_)));
        let Outcome::Json(failed) = outcome("1") else { panic!("it cannot be done") };
        assert_eq!(failed["category"], "server");
        assert!(failed["error"].as_str().unwrap().contains("the gradient since the last update"));
        assert!(matches!(outcome("2"), Outcome::Proto(_)));
        let Outcome::Json(stepped) = outcome("3") else { panic!("a step has metrics") };
        assert!(stepped["metrics"]["grad_norm"].as_f64().unwrap() > 0.0);
    }
}
