//! Results that clients fetch later. A request is answered with its id at once; its result stays
//! until the session ends, or for a while after it was fetched, since an answer may be lost on its
//! way.

use crate::error::{Cause, Failure, Result};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::mem;
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
struct RequestCounts {
    /// Requests without an outcome.
    waiting: usize,
    /// All requests, with those whose outcome has not been fetched.
    requests: usize,
    /// Bytes, before and after requests are done.
    bytes: usize,
}

/// The most of a session.
const SESSION_LIMIT: RequestCounts =
    RequestCounts { waiting: 4096, requests: 1 << 16, bytes: 1 << 28 };
/// All sessions together may have as much as this many with the most: one full session leaves the
/// others room, and four full ones fill the server.
const FULL_SESSIONS: usize = 4;

impl RequestCounts {
    fn add(&mut self, promise: &Promise) {
        self.waiting += usize::from(promise.outcome.is_none());
        self.requests += 1;
        self.bytes += promise.bytes;
    }

    fn subtract(&mut self, promise: &Promise) {
        self.waiting -= usize::from(promise.outcome.is_none());
        self.requests -= 1;
        self.bytes -= promise.bytes;
    }

    /// Whether a request of this many bytes fits what `sessions` sessions may hold.
    fn has_room(self, bytes: usize, sessions: usize) -> bool {
        self.waiting < sessions * SESSION_LIMIT.waiting
            && self.requests < sessions * SESSION_LIMIT.requests
            && self.bytes.saturating_add(bytes) <= sessions * SESSION_LIMIT.bytes
    }
}

struct Promise {
    session: String,
    /// Bytes held for the request: what it asks for, and later its outcome.
    bytes: usize,
    outcome: Option<Outcome>,
    fetched: Option<Instant>,
}

/// A result that has been fetched. Its request may have been forgotten since.
struct Fetched {
    at: Instant,
    id: String,
    session: String,
}

/// The requests of all sessions, counted as they come and go: a scan of them all for each new one
/// would hold up the others.
#[derive(Default)]
struct State {
    promises: HashMap<String, Promise>,
    /// Counts of the sessions that have requests.
    sessions: HashMap<String, RequestCounts>,
    total: RequestCounts,
    /// In the order of their times.
    fetched: VecDeque<Fetched>,
}

impl State {
    fn insert(&mut self, id: &str, promise: Promise) {
        self.total.add(&promise);
        self.sessions.entry(promise.session.clone()).or_default().add(&promise);
        self.promises.insert(id.to_owned(), promise);
    }

    fn remove(&mut self, id: &str) -> Option<Promise> {
        let promise = self.promises.remove(id)?;
        self.total.subtract(&promise);
        if let Some(counts) = self.sessions.get_mut(&promise.session) {
            counts.subtract(&promise);
            if counts.requests == 0 {
                self.sessions.remove(&promise.session);
            }
        }
        Some(promise)
    }

    /// Counts of a session, or of all.
    fn counts(&self, session: Option<&str>) -> RequestCounts {
        session
            .map_or(self.total, |session| self.sessions.get(session).copied().unwrap_or_default())
    }

    /// The outcome of a request, if it has one, which counts as fetched at this time.
    fn fetch(&mut self, id: &str, at: Instant) -> Result<Option<Outcome>> {
        let promise = self.promises.get_mut(id).ok_or_else(|| {
            Failure::unknown(format!("the request {id} is not known, or is over"))
        })?;
        if promise.outcome.is_some() && promise.fetched.is_none() {
            promise.fetched = Some(at);
            let (id, session) = (id.to_owned(), promise.session.clone());
            self.fetched.push_back(Fetched { at, id, session });
        }
        Ok(promise.outcome.clone())
    }

    /// Forgets a fetched result, unless its request was forgotten and has begun anew since.
    fn drop_fetched(&mut self, Fetched { at, id, .. }: &Fetched) {
        if self.promises.get(id).is_some_and(|promise| promise.fetched == Some(*at)) {
            self.remove(id);
        }
    }

    /// Forgets the results that were fetched some time ago.
    fn drop_expired(&mut self) {
        while self.fetched.front().is_some_and(|fetched| fetched.at.elapsed() >= KEPT) {
            let Some(fetched) = self.fetched.pop_front() else { break };
            self.drop_fetched(&fetched);
        }
    }

    /// Forgets the fetched results of a session, or of all.
    fn drop_all_fetched(&mut self, session: Option<&str>) {
        let goes = |fetched: &Fetched| session.is_none_or(|session| fetched.session == session);
        let (gone, others) = mem::take(&mut self.fetched).into_iter().partition(goes);
        self.fetched = others;
        let gone: VecDeque<Fetched> = gone;
        gone.iter().for_each(|fetched| self.drop_fetched(fetched));
    }
}

/// The requests of all sessions.
pub(crate) struct Promises {
    state: Mutex<State>,
    /// The number of outcomes so far.
    finished: watch::Sender<u64>,
}

impl Promises {
    pub fn new() -> Self {
        Self { state: Mutex::default(), finished: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request for which this number of bytes is held; false if it has begun before.
    ///
    /// # Errors
    /// When too many wait, or too much is held.
    pub fn begin(&self, id: &str, session: &str, bytes: usize) -> Result<bool> {
        let mut state = self.lock();
        state.drop_expired();
        if state.promises.contains_key(id) {
            return Ok(false);
        }
        for (of, sessions, whose) in
            [(Some(session), 1, "this session"), (None, FULL_SESSIONS, "all sessions")]
        {
            if !state.counts(of).has_room(bytes, sessions) {
                state.drop_all_fetched(of);
            }
            let counts = state.counts(of);
            if !counts.has_room(bytes, sessions) {
                return Err(full(whose, counts));
            }
        }
        let session = session.to_owned();
        state.insert(id, Promise { session, bytes, outcome: None, fetched: None });
        Ok(true)
    }

    /// Sets the outcome of a request. One of an ended session is dropped.
    pub fn finish(&self, id: &str, outcome: Outcome) {
        let bytes = outcome.bytes();
        let mut state = self.lock();
        if let Some(promise) = state.remove(id) {
            state.insert(id, Promise { bytes, outcome: Some(outcome), ..promise });
        }
        drop(state);
        self.finished.send_modify(|count| *count += 1);
    }

    /// The outcome of a request that is finished.
    #[cfg(test)]
    pub fn outcome(&self, id: &str) -> Option<Outcome> {
        self.lock().promises.get(id)?.outcome.clone()
    }

    /// Whether somebody may still fetch a request's outcome.
    pub fn is_wanted(&self, id: &str) -> bool {
        self.lock().promises.contains_key(id)
    }

    /// Forgets a session's requests.
    pub fn end_session(&self, session: &str) {
        let mut state = self.lock();
        let ids = state.promises.iter().filter(|(_, promise)| promise.session == session);
        let ids: Vec<String> = ids.map(|(id, _)| id.clone()).collect();
        for id in ids {
            state.remove(&id);
        }
        drop(state);
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
                if let Some(outcome) = self.lock().fetch(id, Instant::now())? {
                    return Ok(Some(outcome));
                }
                let _ = finished.changed().await; // the sender lives as long as this
            }
        };
        tokio::time::timeout(patience, waiting).await.unwrap_or(Ok(None))
    }
}

/// The refusal of a request for which there is no room.
fn full(whose: &str, RequestCounts { waiting, requests, bytes }: RequestCounts) -> Failure {
    let results = requests - waiting;
    Failure::busy(format!(
        "too much is held for {whose} (waiting requests: {waiting}, results: {results}, bytes: \
         {bytes}): fetch results, or try later"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_for_a_session_is_bounded_and_so_is_all() {
        let promises = Promises::new();
        let most = SESSION_LIMIT.bytes;
        let begin = |session: &str, id: &str| promises.begin(id, session, most / 2 + 1);
        assert!(begin("one", "a").unwrap());
        let failure = begin("one", "b").unwrap_err();
        assert_eq!(failure.cause, Cause::Busy);
        assert!(failure.message.contains("for this session (waiting requests: 1, results: 0,"));
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
        assert!(failure.message.contains("for all sessions (waiting requests: 4,"));
        promises.end_session("one");
        assert!(begin("last", "last").unwrap());
    }

    #[test]
    fn results_that_nobody_fetches_are_bounded() {
        let promises = Promises::new();
        let finish = |id: &str, session: &str| {
            assert!(promises.begin(id, session, 0).unwrap());
            promises.finish(id, Outcome::Json(json!({})));
        };
        (0..SESSION_LIMIT.requests).for_each(|number| finish(&number.to_string(), "session"));
        let failure = promises.begin("one more", "session", 0).unwrap_err();
        assert!(failure.message.contains("(waiting requests: 0, results: 65536, bytes: 131072)"));
        assert_eq!(failure.cause, Cause::Busy);
        finish("of another", "other");
        // A result that was fetched makes place at once, and of the own session alone.
        promises.lock().fetch("7", Instant::now()).unwrap();
        promises.lock().fetch("of another", Instant::now()).unwrap();
        assert!(promises.begin("one more", "session", 0).unwrap());
        assert!(!promises.is_wanted("7") && promises.is_wanted("of another"));
        promises.end_session("session");
        let state = promises.lock();
        assert_eq!((state.total.requests, state.sessions.len()), (1, 1));
    }

    #[test]
    fn a_fetched_result_stays_for_a_while() {
        let promises = Promises::new();
        let finish = |id: &str| {
            assert!(promises.begin(id, "session", 0).unwrap());
            promises.finish(id, Outcome::Json(json!({})));
        };
        let long_ago = Instant::now().checked_sub(2 * KEPT).unwrap();
        finish("a");
        finish("b");
        // One that was forgotten and has begun anew is another.
        promises.lock().fetch("a", long_ago).unwrap();
        assert!(!promises.forget("a"));
        finish("a");
        promises.lock().fetch("b", long_ago).unwrap();
        assert!(promises.begin("c", "session", 0).unwrap());
        assert!(promises.is_wanted("a") && !promises.is_wanted("b"));
        promises.lock().fetch("a", Instant::now()).unwrap();
        assert!(!promises.begin("a", "session", 0).unwrap(), "it stays");
        let state = promises.lock();
        assert_eq!((state.total.waiting, state.total.requests, state.total.bytes), (1, 2, 2));
    }
}
