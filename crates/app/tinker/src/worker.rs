//! The thread that owns all weights. Training requests are done one by one, in the order of their
//! arrival. Sampling requests of the same weights share the batches of one engine; other weights
//! wait for their turn. Between two steps of the engine there is at most one training request.

use crate::error::{Failure, Result, contain};
use crate::example::Example;
use crate::loss::Loss;
use crate::promises::{Outcome, Promises};
use crate::sampling::{Running, SampleTask};
use crate::sessions::{Sessions, Weights};
use crate::store::{SavedState, Store, WeightsPath};
use crate::training::Trainee;
use isentrope_budget::PassLimits;
use isentrope_model::Model;
use isentrope_model::adapter::AdapterConfig;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_rollout::{Engine, Limits};
use isentrope_train::settings::OptimizerSettings;
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// Saved weights that are kept loaded for sampling.
const LOADED: usize = 4;
/// Time between two looks for what is not wanted any more.
const LOOK: Duration = Duration::from_secs(5);

/// A message to the thread.
pub(crate) enum Message {
    Train(Box<TrainTask>),
    Sample(Box<SampleTask>),
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
        config: Box<AdapterConfig>,
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
    pub base: Arc<Model>,
    pub tokenizer: &'a Tokenizer,
    pub store: &'a Store,
    pub limits: Limits,
    pub passes: PassLimits,
    pub promises: &'a Promises,
    pub sessions: &'a Sessions,
    pub messages: Receiver<Message>,
    pub models: HashMap<String, Trainee>,
    pub loaded: VecDeque<(WeightsPath, Arc<Model>)>,
    pub training: VecDeque<TrainTask>,
    pub sampling: VecDeque<SampleTask>,
    pub looked: Instant,
}

/// The server is to end.
struct Ending;

impl Worker<'_> {
    /// Works until the server is to end.
    pub fn work(mut self) {
        while self.receive(false).is_ok() {
            if let Some(task) = self.training.pop_front() {
                self.train(task);
            }
            let Some(next) = self.sampling.front() else { continue };
            let weights = next.weights.clone();
            let ended = match contain(|| self.weights(&weights)).flatten() {
                Ok(model) => self.sample(&model, &weights),
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
                Ok(Message::Train(task)) => self.training.push_back(*task),
                Ok(Message::Sample(task)) => self.sampling.push_back(*task),
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
            for model in self.sessions.end(&session).unwrap_or_default() {
                self.models.remove(&model);
            }
            self.promises.end_session(&session);
        }
        let promises = self.promises;
        self.training.retain(|task| promises.is_wanted(&task.id));
        self.sampling.retain(|task| promises.is_wanted(&task.id));
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
        let Self { base, store, passes, .. } = self;
        let answer = match work {
            Work::Create { config, seed, state } => {
                let trainee = Trainee::new(base, *config, seed, state, *passes)?;
                self.models.insert(id.to_owned(), trainee);
                json!({"type": "create_model", "model_id": id})
            }
            Work::Load { path, with_optimizer } => {
                let mut trainee = Trainee::load(base, store, &path, with_optimizer, *passes)?;
                if let Some(former) = self.models.remove(id) {
                    trainee.take_snapshots(former);
                }
                self.sessions.set_rank(id, trainee.rank());
                self.models.insert(id.to_owned(), trainee);
                json!({"type": "load_weights", "path": path.to_string(), "model_id": id})
            }
            Work::Pass { data, loss, backward } => {
                return self.model(id)?.pass(&data, loss, backward);
            }
            Work::Step(settings) => return self.model(id)?.step(settings),
            Work::Save { path, overwrite } => {
                let store = *store;
                self.model(id)?.save(store, &path, overwrite)?;
                self.loaded.retain(|(loaded, _)| *loaded != path);
                json!({"path": path.to_string()})
            }
            Work::Snapshot { sampler } => {
                self.model(id)?.keep(&sampler)?;
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

    fn model(&mut self, id: &str) -> Result<&mut Trainee> {
        self.models.get_mut(id).ok_or_else(|| {
            Failure::user(format!("the model {id} is not there: making it has failed"))
        })
    }

    /// The model with a sampler's weights.
    fn weights(&mut self, weights: &Weights) -> Result<Arc<Model>> {
        match weights {
            Weights::Base => Ok(Arc::clone(&self.base)),
            Weights::Saved(path) => {
                if let Some((_, model)) = self.loaded.iter().find(|(loaded, _)| loaded == path) {
                    return Ok(Arc::clone(model));
                }
                let model = Arc::new(self.store.load(path, &self.base)?);
                if self.loaded.len() == LOADED {
                    self.loaded.pop_front();
                }
                self.loaded.push_back((path.clone(), Arc::clone(&model)));
                Ok(model)
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

    /// Whether a loaded model still is what its weights' name stands for: other weights may have
    /// been saved under the path.
    fn is_current(&self, model: &Arc<Model>, weights: &Weights) -> bool {
        let Weights::Saved(path) = weights else { return true };
        self.loaded.iter().any(|(of, loaded)| of == path && Arc::ptr_eq(loaded, model))
    }

    /// Samples for all waiting requests of these weights, and for those that come before any of
    /// others.
    fn sample(&mut self, model: &Arc<Model>, weights: &Weights) -> std::result::Result<(), Ending> {
        let (tokenizer, limits) = (Some(self.tokenizer), self.limits);
        let engine = contain(|| Engine::new(model, tokenizer, limits).map_err(Failure::server));
        let mut running = match engine.flatten() {
            Ok(engine) => Running::new(model, engine, self.promises),
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
            while self.is_current(model, weights)
                && self.sampling.front().is_some_and(|task| task.weights == *weights)
            {
                let Some(task) = self.sampling.pop_front() else { break };
                running.begin(task);
            }
            if !running.step() {
                return Ok(());
            }
            self.receive(true)?;
            if let Some(task) = self.training.pop_front() {
                self.train(task);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::tests::{base_dir, example, trainee};
    use isentrope_kernels::{Cpu, Isa};
    use isentrope_model::adapter::BaseModel;
    use std::sync::mpsc::channel;

    /// A pass that panics, here for want of an input, fails alone: its model
    /// goes on without the gradient.
    #[test]
    fn a_panic_ends_its_request_alone() {
        let dir = base_dir();
        let base = Model::load_frozen(&dir, Arc::new(Cpu::new(Isa::available()[0], 1).unwrap()));
        let tokenizer = Tokenizer::read(&dir).unwrap().unwrap();
        let base_model = BaseModel::of("base", &dir).unwrap();
        let store = Store { dir: dir.clone(), base_dir: dir, base: base_model };
        let (promises, sessions) = (Promises::new(), Sessions::default());
        let (sender, messages) = channel();
        let train = |number: usize, work| {
            let id = number.to_string();
            assert!(promises.begin(&id, "session", 0).unwrap());
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
        let mut worker = Worker {
            base: Arc::new(base.unwrap()),
            tokenizer: &tokenizer,
            store: &store,
            limits: Limits { cache_bytes: 1 << 20, sequences: 1, prefill_tokens: 16 },
            passes: PassLimits { micro_batch_tokens: 64, tape_bytes: 1 << 26, activation_slots: 0 },
            promises: &promises,
            sessions: &sessions,
            messages,
            models: HashMap::from([("model".to_owned(), trainee(64))]),
            loaded: VecDeque::new(),
            training: VecDeque::new(),
            sampling: VecDeque::new(),
            looked: Instant::now(),
        };
        assert!(worker.receive(false).is_err(), "it takes all messages up to the last");
        while let Some(task) = worker.training.pop_front() {
            worker.train(task);
        }
        let outcome = |id: &str| promises.outcome(id).unwrap();
        assert!(matches!(outcome("0"), Outcome::Proto(_)));
        let Outcome::Json(failed) = outcome("1") else { panic!("it cannot be done") };
        assert_eq!(failed["category"], "server");
        assert!(failed["error"].as_str().unwrap().contains("the gradient since the last update"));
        assert!(matches!(outcome("2"), Outcome::Proto(_)));
        let Outcome::Json(stepped) = outcome("3") else { panic!("a step has metrics") };
        assert!(stepped["metrics"]["grad_norm"].as_f64().unwrap() > 0.0);
    }
}
