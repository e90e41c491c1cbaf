//! Results that clients fetch later. A request is answered with its id at once; its result stays
//! until the session ends, or for a while after it was fetched, since an answer may be lost on its
//! way.

use crate::error::{Cause, Failure, Result};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Time for which a fetched result stays.
const KEPT: Duration = Duration::from_secs(60);

/// A finished request.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Json(Value),
    Proto(Vec<u8>),
}

impl Outcome {
    fn bytes(&self) -> usize {
        match self {
            Self::Json(answer) => answer.to_string().len(),
            Self::Proto(bytes) => bytes.len(),
        }
    }

    /// The outcome of a failure, as JSON.
    pub fn failed(failure: &Failure) -> Self {
        let category = if failure.cause == Cause::Server { "server" } else { "user" };
        Self::Json(json!({"error": failure.message, "category": category}))
    }
}

/// Counts of the requests of one session or of all.
#[derive(Clone, Copy, Default)]
struct Held {
    /// Requests without an outcome.
    waiting: usize,
    /// All requests, with those whose outcome has not been fetched.
    requests: usize,
    /// Bytes, before and after requests are done.
    bytes: usize,
}

/// The most of a session.
const OF_SESSION: Held = Held { waiting: 4096, requests: 1 << 16, bytes: 1 << 28 };
/// All sessions together may have as much as this many with the most.
const FULL_SESSIONS: usize = 4;

impl Held {
    fn of<'p>(promises: impl Iterator<Item = &'p Promise>) -> Self {
        promises.fold(Self::default(), |held, promise| Self {
            waiting: held.waiting + usize::from(promise.outcome.is_none()),
            requests: held.requests + 1,
            bytes: held.bytes + promise.bytes,
        })
    }

    /// Whether a request of this many bytes fits what `sessions` sessions may hold.
    fn has_room(self, bytes: usize, sessions: usize) -> bool {
        self.waiting < sessions * OF_SESSION.waiting
            && self.requests < sessions * OF_SESSION.requests
            && self.bytes.saturating_add(bytes) <= sessions * OF_SESSION.bytes
    }
}

struct Promise {
    session: String,
    /// Bytes held for the request: what it asks for, and later its outcome.
    bytes: usize,
    outcome: Option<Outcome>,
    fetched: Option<Instant>,
}

/// The requests of all sessions.
pub(crate) struct Promises {
    all: Mutex<HashMap<String, Promise>>,
    /// The number of outcomes so far.
    finished: watch::Sender<u64>,
}

impl Promises {
    pub fn new() -> Self {
        Self { all: Mutex::default(), finished: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Promise>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request for which this number of bytes is held; false if it has begun before.
    ///
    /// # Errors
    /// When too many wait, or too much is held.
    pub fn begin(&self, id: &str, session: &str, bytes: usize) -> Result<bool> {
        let mut all = self.lock();
        all.retain(|_, promise| promise.fetched.is_none_or(|at| at.elapsed() < KEPT));
        if all.contains_key(id) {
            return Ok(false);
        }
        let own = |all: &HashMap<String, Promise>| {
            Held::of(all.values().filter(|promise| promise.session == session))
        };
        if !own(&all).has_room(bytes, 1) {
            all.retain(|_, promise| promise.session != session || promise.fetched.is_none());
        }
        let (of_session, of_all) = (own(&all), Held::of(all.values()));
        let (whose, held) = match of_session.has_room(bytes, 1) {
            false => ("of this session", of_session),
            true => ("of all sessions", of_all),
        };
        if !(of_session.has_room(bytes, 1) && of_all.has_room(bytes, FULL_SESSIONS)) {
            let Held { waiting, requests, bytes } = held;
            return Err(Failure::busy(format!(
                "{waiting} requests {whose} wait, and {bytes} bytes are held for them and for {} \
                 results: fetch results, or try later",
                requests - waiting
            )));
        }
        let session = session.to_owned();
        all.insert(id.to_owned(), Promise { session, bytes, outcome: None, fetched: None });
        Ok(true)
    }

    /// Sets the outcome of a request. One of an ended session is dropped.
    pub fn finish(&self, id: &str, outcome: Outcome) {
        if let Some(promise) = self.lock().get_mut(id) {
            promise.bytes = outcome.bytes();
            promise.outcome = Some(outcome);
        }
        self.finished.send_modify(|count| *count += 1);
    }

    /// The outcome of a request that is finished.
    #[cfg(test)]
    pub fn outcome(&self, id: &str) -> Option<Outcome> {
        self.lock().get(id)?.outcome.clone()
    }

    /// Whether somebody may still fetch a request's outcome.
    pub fn is_wanted(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// Forgets a session's requests.
    pub fn end_session(&self, session: &str) {
        self.lock().retain(|_, promise| promise.session != session);
        self.finished.send_modify(|count| *count += 1);
    }

    /// Forgets a request; true if its outcome had not been fetched.
    pub fn forget(&self, id: &str) -> bool {
        self.lock().remove(id).is_some_and(|promise| promise.fetched.is_none())
    }

    /// Waits for the outcome of a request: at most `patience`, and then it is none. The error is of
    /// a request that is not known.
    pub async fn wait(&self, id: &str, patience: Duration) -> Result<Option<Outcome>> {
        let mut finished = self.finished.subscribe();
        let waiting = async {
            loop {
                finished.mark_unchanged();
                {
                    let mut all = self.lock();
                    let promise = all.get_mut(id).ok_or_else(|| {
                        Failure::unknown(format!("the request {id} is not known, or is over"))
                    })?;
                    if let Some(outcome) = &promise.outcome {
                        promise.fetched.get_or_insert_with(Instant::now);
                        return Ok(Some(outcome.clone()));
                    }
                }
                let _ = finished.changed().await; // the sender lives as long as this
            }
        };
        tokio::time::timeout(patience, waiting).await.unwrap_or(Ok(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_for_a_session_is_bounded_and_so_is_all() {
        let promises = Promises::new();
        let most = OF_SESSION.bytes;
        let begin = |session: &str, id: &str| promises.begin(id, session, most / 2 + 1);
        assert!(begin("one", "a").unwrap());
        let failure = begin("one", "b").unwrap_err();
        assert_eq!(failure.cause, Cause::Busy);
        assert!(failure.message.starts_with("1 requests of this session wait"));
        promises.finish("a", Outcome::Proto(vec![0; most / 2]));
        assert_eq!(begin("one", "b").unwrap_err().cause, Cause::Busy);
        promises.finish("a", Outcome::Proto(vec![0; most / 4]));
        assert!(begin("one", "b").unwrap());
        assert!(Outcome::Json(json!({"error": "a".repeat(1000)})).bytes() > 1000);
        // Other sessions have as much, until all is held.
        for session in 1..FULL_SESSIONS {
            assert!(promises.begin(&session.to_string(), &session.to_string(), most).unwrap());
        }
        let failure = begin("last", "last").unwrap_err();
        assert!(failure.message.contains("requests of all sessions wait"));
        promises.end_session("one");
        assert!(begin("last", "last").unwrap());
    }

    #[test]
    fn results_that_nobody_fetches_are_bounded() {
        let promises = Promises::new();
        let result = || Promise {
            session: "session".into(),
            bytes: 0,
            outcome: Some(Outcome::Json(json!({}))),
            fetched: None,
        };
        let most = OF_SESSION.requests;
        promises.lock().extend((0..most).map(|number| (number.to_string(), result())));
        let failure = promises.begin("one more", "session", 0).unwrap_err();
        assert!(failure.message.contains("held for them and for 65536 results"));
        assert_eq!(failure.cause, Cause::Busy);
        assert!(promises.begin("of another", "other", 0).unwrap());
        // One that was fetched some time ago makes place.
        let long_ago = Instant::now().checked_sub(2 * KEPT);
        promises.lock().get_mut("7").unwrap().fetched = Some(long_ago.unwrap());
        assert!(promises.begin("one more", "session", 0).unwrap());
    }
}
