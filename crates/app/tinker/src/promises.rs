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

/// Most requests without an outcome.
const PENDING: usize = 4096;
/// Most requests, with those whose outcome has not been fetched.
const REQUESTS: usize = 1 << 16;
/// Most bytes of what is held for requests, before and after they are done.
const HELD_BYTES: usize = 1 << 30;

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
        if all.len() >= REQUESTS {
            all.retain(|_, promise| promise.fetched.is_none());
        }
        let count = all.values().filter(|promise| promise.outcome.is_none()).count();
        let held: usize = all.values().map(|promise| promise.bytes).sum();
        if count >= PENDING || all.len() >= REQUESTS || held + bytes > HELD_BYTES {
            return Err(Failure::busy(format!(
                "{count} requests wait, and {held} bytes are held for them and for {} results: \
                 fetch results, or try later",
                all.len() - count
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
    fn what_is_held_for_requests_and_results_is_bounded() {
        let promises = Promises::new();
        let begin = |id: &str| promises.begin(id, "session", HELD_BYTES / 2 + 1);
        assert!(begin("a").unwrap());
        assert_eq!(begin("b").unwrap_err().cause, Cause::Busy);
        promises.finish("a", Outcome::Proto(vec![0; HELD_BYTES / 2]));
        assert_eq!(begin("b").unwrap_err().cause, Cause::Busy);
        promises.finish("a", Outcome::Proto(vec![0; HELD_BYTES / 4]));
        assert!(begin("b").unwrap());
        assert!(Outcome::Json(json!({"error": "a".repeat(1000)})).bytes() > 1000);
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
        promises.lock().extend((0..REQUESTS).map(|number| (number.to_string(), result())));
        let failure = promises.begin("one more", "session", 0).unwrap_err();
        assert!(failure.message.contains("held for them and for 65536 results"));
        assert_eq!(failure.cause, Cause::Busy);
        // One that was fetched some time ago makes place.
        let long_ago = Instant::now().checked_sub(2 * KEPT);
        promises.lock().get_mut("7").unwrap().fetched = Some(long_ago.unwrap());
        assert!(promises.begin("one more", "session", 0).unwrap());
    }
}
