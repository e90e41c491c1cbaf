//! Sessions: the models in training and the samplers of a client, for as long as it is heard.

use crate::error::{Failure, Result};
use crate::store::WeightsPath;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time without a heartbeat or another request after which a session ends. Clients send a heartbeat
/// every 10 s.
pub(crate) const SILENCE: Duration = Duration::from_secs(120);
/// Most sessions at a time.
const SESSIONS: usize = 256;
/// Most models in training at a time, of all sessions together.
const MODELS: usize = 16;
/// Most samplers of a session.
const SAMPLERS: usize = 1 << 16;

/// A model in training, as requests know it.
#[derive(Clone, Debug)]
pub(crate) struct ModelInfo {
    /// The rank of its adapter; none if all weights are trained.
    pub rank: Option<usize>,
    /// The number of its last request.
    last_seq: i64,
}

/// The weights of a sampler.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Weights {
    /// The base's.
    Base,
    Saved(WeightsPath),
    /// A copy that a model in training made for this sampler.
    Snapshot {
        model: String,
        sampler: String,
    },
}

struct Session {
    heard: Instant,
    models: HashMap<String, ModelInfo>,
    samplers: HashMap<String, Weights>,
}

/// All sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    all: Mutex<HashMap<String, Session>>,
    /// Sessions made so far.
    made: AtomicU64,
}

fn unknown(what: &str, id: &str) -> Failure {
    Failure::unknown(format!(
        "there is no {what} {id}: its session has ended, or the server was started anew; go on \
         from saved weights"
    ))
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a session. No two sessions of a directory of weights have the same id, since it is
    /// made of the time and a number, which counts a server's sessions.
    pub fn create(&self) -> Result<String> {
        let mut all = self.lock();
        if all.len() >= SESSIONS {
            return Err(Failure::user(format!(
                "there are {SESSIONS} sessions already, the most at a time: those whose scripts \
                 have ended are over after {} s",
                SILENCE.as_secs()
            )));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let id = format!("{now:x}-{}", self.made.fetch_add(1, Ordering::Relaxed));
        let (models, samplers) = (HashMap::new(), HashMap::new());
        all.insert(id.clone(), Session { heard: Instant::now(), models, samplers });
        Ok(id)
    }

    /// Notes that a session is alive; false if there is none.
    pub fn hear(&self, id: &str) -> bool {
        let mut all = self.lock();
        all.get_mut(id).map(|session| session.heard = Instant::now()).is_some()
    }

    /// Ends a session, and returns its models.
    pub fn end(&self, id: &str) -> Option<Vec<String>> {
        let session = self.lock().remove(id)?;
        Some(session.models.into_keys().collect())
    }

    /// The sessions that have been silent for too long.
    pub fn silent(&self) -> Vec<String> {
        let all = self.lock();
        let silent = all.iter().filter(|(_, session)| session.heard.elapsed() > SILENCE);
        silent.map(|(id, _)| id.clone()).collect()
    }

    /// Adds a model if `begin` begins the request that makes it; false if it is there already or
    /// the request had begun before.
    pub fn add_model(
        &self,
        session: &str,
        model: &str,
        rank: Option<usize>,
        begin: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        let mut all = self.lock();
        let models: usize = all.values().map(|session| session.models.len()).sum();
        let of = all.get_mut(session).ok_or_else(|| unknown("session", session))?;
        of.heard = Instant::now();
        if of.models.contains_key(model) {
            return Ok(false);
        }
        if models >= MODELS {
            return Err(Failure::user(format!(
                "{MODELS} models are in training already, the most at a time: end a session with \
                 ServiceClient.close, or wait {} s for one whose script has ended",
                SILENCE.as_secs()
            )));
        }
        let is_new = begin()?;
        if is_new {
            of.models.insert(model.to_owned(), ModelInfo { rank, last_seq: 0 });
        }
        Ok(is_new)
    }

    /// Forgets a model.
    pub fn remove_model(&self, model: &str) {
        self.lock().values_mut().for_each(|session| _ = session.models.remove(model));
    }

    /// A model.
    pub fn model(&self, id: &str) -> Result<ModelInfo> {
        let all = self.lock();
        let found = all.values().find_map(|session| session.models.get(id));
        found.cloned().ok_or_else(|| unknown("model in training", id))
    }

    /// All models, each with the rank of its adapter and the time when its session was heard.
    pub fn models(&self) -> Vec<(String, Option<usize>, Instant)> {
        let all = self.lock();
        let of = |session: &Session| {
            let heard = session.heard;
            let of_model = move |(id, info): (&String, &ModelInfo)| (id.clone(), info.rank, heard);
            session.models.iter().map(of_model).collect::<Vec<_>>()
        };
        all.values().flat_map(of).collect()
    }

    /// Sets the rank of a model that has got other weights.
    pub fn set_rank(&self, model: &str, rank: Option<usize>) {
        let mut all = self.lock();
        if let Some(info) = all.values_mut().find_map(|session| session.models.get_mut(model)) {
            info.rank = rank;
        }
    }

    /// Takes note of a model's next request if `begin` begins it in the session. False if the
    /// request is not new: a client that has lost an answer sends its request again. One that could
    /// not begin has not had its turn.
    pub fn take_turn(
        &self,
        model: &str,
        seq: i64,
        begin: impl FnOnce(&str) -> Result<bool>,
    ) -> Result<bool> {
        let mut all = self.lock();
        let found = all.iter_mut().find_map(|(id, session)| {
            Some((id, &mut session.heard, session.models.get_mut(model)?))
        });
        let (id, heard, model) = found.ok_or_else(|| unknown("model in training", model))?;
        *heard = Instant::now();
        if seq <= model.last_seq {
            return Ok(false);
        }
        let is_new = begin(id)?;
        model.last_seq = seq;
        Ok(is_new)
    }

    /// Adds a sampler, and returns its id.
    pub fn add_sampler(&self, session: &str, number: u64, weights: Weights) -> Result<String> {
        let mut all = self.lock();
        let of = all.get_mut(session).ok_or_else(|| unknown("session", session))?;
        if of.samplers.len() >= SAMPLERS {
            return Err(Failure::user(format!("the session has {SAMPLERS} samplers already")));
        }
        of.heard = Instant::now();
        let id = sampler_id(session, number);
        of.samplers.insert(id.clone(), weights);
        Ok(id)
    }

    /// The session and the weights of a sampler.
    pub fn sampler(&self, id: &str) -> Result<(String, Weights)> {
        let mut all = self.lock();
        let found = all.iter_mut().find_map(|(session, of)| {
            let weights = of.samplers.get(id)?.clone();
            of.heard = Instant::now();
            Some((session.clone(), weights))
        });
        found.ok_or_else(|| unknown("sampler", id))
    }
}

/// The id of a session's sampler.
pub(crate) fn sampler_id(session: &str, number: u64) -> String {
    format!("{session}:sample:{number}")
}

/// The id of a session's model, which clients make too.
pub(crate) fn model_id(session: &str, number: u64) -> String {
    format!("{session}:train:{number}")
}

/// Settings that clients ask for when they begin. Anything that would need more of the protocol is
/// off.
pub(crate) fn client_config() -> Value {
    json!({
        "pjwt_auth_enabled": false,
        "credential_default_source": "api_key",
        "parallel_fwdbwd_chunks": false,
        "proto_compress_fwdbwd": false,
        "sample_max_concurrent_requests": 256,
        "sample_use_retrieve_futures": false,
        "custom_loss_server_side": false,
        "sample_join_sampling_session": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_could_not_begin_begins_when_it_is_sent_again() {
        let sessions = Sessions::default();
        let id = sessions.create().unwrap();
        let busy = || Err(Failure::busy("full"));
        sessions.add_model(&id, "m", Some(4), busy).unwrap_err();
        assert!(sessions.add_model(&id, "m", Some(4), || Ok(true)).unwrap());
        assert!(!sessions.add_model(&id, "m", Some(4), || Ok(true)).unwrap());
        sessions.take_turn("m", 1, |_| busy()).unwrap_err();
        assert!(sessions.take_turn("m", 1, |session| Ok(session == id)).unwrap());
        assert!(!sessions.take_turn("m", 1, |_| Ok(true)).unwrap());
    }
}
