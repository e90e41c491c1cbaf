//! A verifier of the user's own: a command whose processes judge responses, one JSON line in, one JSON line out.
//!
//! `protocol` has the lines, `worker` one process, `places` who may ask it, `processes` how workers begin and end, `supervisor`
//! what ends with them. A worker that does anything but answer is ended and replaced; the response it was asked about counts as
//! one that could not be judged.

mod places;
mod processes;
mod protocol;
#[cfg(unix)]
mod supervisor;
mod worker;

pub use processes::kill_all;
#[cfg(unix)]
pub use supervisor::supervision;

use std::io::ErrorKind;
use std::mem;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BatchVerifier, Error, Item, Judgement, Verdict};
use places::{Place, Places};
use protocol::Misconduct;
use worker::{Remains, Worker};

/// How long a fresh worker is watched before the run begins. A program that cannot work, such as one whose script is
/// not there, mostly ends within it.
const WATCHED: Duration = Duration::from_millis(200);

/// How long workers may take to end by themselves when the run is over.
const GRACE: Duration = Duration::from_secs(2);

/// Workers that may fail at their first question, one after the other in the same place, before the run is stopped.
const MAX_FAILURES: u32 = 8;

/// Failures among the last 64 questions at which the run is stopped: workers that answer and then fail are no better than
/// workers that never answer.
const MAX_RECENT_FAILURES: u32 = 32;

/// A command whose processes judge responses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSettings {
    /// The program and its arguments, such as `["python3", "reward.py"]`. Paths are relative to the current directory.
    pub command: Vec<String>,
    /// Processes that judge at the same time.
    #[serde(default = "default_workers")]
    #[schemars(range(min = 1, max = 1024))]
    pub workers: usize,
    /// Longest time for an answer, in seconds; a worker that takes longer is replaced.
    #[serde(default = "default_timeout_s")]
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub timeout_s: f64,
    /// What a fresh worker's first answer may take beyond that, in seconds, for what it loads.
    #[serde(default = "default_startup_s")]
    #[schemars(range(min = 0.0, max = 86400.0))]
    pub startup_s: f64,
}

fn default_workers() -> usize {
    2
}

fn default_timeout_s() -> f64 {
    10.0
}

fn default_startup_s() -> f64 {
    20.0
}

impl CommandSettings {
    /// Checks what ranges do not say; `key` is the recipe's key below `reward`, for messages.
    ///
    /// # Errors
    /// [`Error`] naming what is wrong.
    pub(crate) fn check(&self, key: &str) -> Result<(), Error> {
        if self.command.first().is_some_and(|program| !program.is_empty()) {
            return Ok(());
        }
        Err(Error {
            key: format!("{key}.command"),
            value: format!("{:?}", self.command),
            expected: "it must be a program and its arguments, such as [\"python3\", \"reward.py\"]".into(),
        })
    }
}

/// A command cannot judge any more, or never could.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{key} = {command:?}: {problem}{}", tail(.stderr.as_deref()))]
pub struct VerifierError {
    /// The recipe's key.
    pub key: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What happened.
    pub problem: String,
    /// The end of the last worker's standard error, if there was a worker.
    pub stderr: Option<String>,
}

fn tail(stderr: Option<&str>) -> String {
    match stderr {
        None => String::new(),
        Some("") => "; it wrote nothing to standard error".into(),
        Some(text) => format!("; its standard error ends with:\n  {}", text.replace('\n', "\n  ")),
    }
}

/// The verifier. Its processes end with it.
pub(crate) struct CommandVerifier {
    settings: CommandSettings,
    key: String,
    places: Places,
    /// The last 64 questions, a bit each, in the order in which they were done with: 1 where the worker failed.
    recent: AtomicU64,
}

impl CommandVerifier {
    /// Starts the workers; `key` is the recipe's key of the table with the command, for messages.
    ///
    /// # Errors
    /// When they cannot be started, or end or speak before they are asked.
    pub(crate) fn start(settings: CommandSettings, key: &str) -> Result<Self, VerifierError> {
        let key = format!("{key}.command");
        let places = Places::default();
        let mut verifier = Self { settings, key, places, recent: AtomicU64::new(0) };
        for _ in 0..verifier.workers() {
            let place = Place { worker: Some(verifier.worker()?), failures: 0 };
            verifier.places.all().push(place);
        }
        let deadline = Instant::now() + WATCHED;
        let unasked = |worker: &Worker| worker.unasked(deadline);
        let failed = verifier.places.all().iter_mut().find_map(|place| {
            let misconduct = place.worker.as_ref().and_then(unasked)?;
            Some((misconduct, place.worker.take()?))
        });
        match failed {
            None => Ok(verifier),
            Some((misconduct, worker)) => {
                let remains = worker.end(&misconduct);
                let did = with_status(&misconduct, &remains);
                let problem = format!("a worker {did} before it was asked anything");
                Err(verifier.error(problem, Some(remains.stderr)))
            }
        }
    }

    fn worker(&self) -> Result<Worker, VerifierError> {
        Worker::start(&self.settings.command).map_err(|e| {
            let is_line = |program: &String| program.contains(char::is_whitespace);
            let hint = match self.settings.command.first() {
                Some(program) if e.kind() == ErrorKind::NotFound && is_line(program) => {
                    "; each word must be an entry of its own, as in [\"python3\", \"reward.py\"]"
                }
                _ => "",
            };
            let problem = format!("the command cannot be started: {e}{hint}");
            self.error(problem, None)
        })
    }

    fn error(&self, problem: String, stderr: Option<String>) -> VerifierError {
        VerifierError { key: self.key.clone(), command: self.settings.command.clone(), problem, stderr }
    }

    /// Takes down whether a worker failed at its question; how many of the last 64 that makes.
    fn recent_failures(&self, failed: bool) -> u32 {
        let add = |recent: u64| recent << 1 | u64::from(failed);
        let (Ok(before) | Err(before)) =
            self.recent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |recent| Some(add(recent)));
        add(before).count_ones()
    }

    /// Asks the worker of a place, a fresh one if need be.
    fn judge(
        &self,
        place: &mut Place,
        item: &Item<'_>,
        response: &str,
    ) -> Result<Judgement, VerifierError> {
        let mut worker = match place.worker.take() {
            Some(worker) => worker,
            None => self.worker()?,
        };
        let startup = if worker.has_answered { 0.0 } else { self.settings.startup_s };
        let limit = Duration::from_secs_f64(self.settings.timeout_s + startup);
        let (id, line) = protocol::question(item, response);
        let misconduct = match worker.ask(line, limit).and_then(|line| protocol::answer(&line, id)) {
            Ok(judgement) => {
                worker.has_answered = true;
                self.recent_failures(false);
                *place = Place { worker: Some(worker), failures: 0 };
                return Ok(judgement);
            }
            Err(misconduct) => misconduct,
        };
        place.failures = if worker.has_answered { 0 } else { place.failures + 1 };
        let remains = worker.end(&misconduct);
        let did = with_status(&misconduct, &remains);
        if place.failures == MAX_FAILURES {
            let problem = format!(
                "{MAX_FAILURES} fresh workers in a row failed at their first question; the last {did}"
            );
            return Err(self.error(problem, Some(remains.stderr)));
        }
        let recent = self.recent_failures(true);
        if recent >= MAX_RECENT_FAILURES {
            let problem = format!("workers failed at {recent} of the last 64 questions; the last {did}");
            return Err(self.error(problem, Some(remains.stderr)));
        }
        let verdict =
            if matches!(misconduct, Misconduct::TimedOut(_)) { Verdict::TimedOut } else { Verdict::Fault };
        Ok(Judgement::new(verdict, None, format!("the worker {}", told(&misconduct, &remains))))
    }
}

/// What a worker did, as it follows "the worker": of one that ended, with how.
fn with_status(misconduct: &Misconduct, remains: &Remains) -> String {
    match (misconduct, remains.status) {
        (Misconduct::Ended, Some(status)) => format!("{misconduct} ({status})"),
        (Misconduct::Ended, None) => "closed its standard output".to_owned(),
        _ => misconduct.to_string(),
    }
}

/// The same in one line, of one that ended with the last that it said.
fn told(misconduct: &Misconduct, remains: &Remains) -> String {
    let last = match misconduct {
        Misconduct::Ended => remains.stderr.lines().last(),
        _ => None,
    };
    with_status(misconduct, remains) + &last.map_or(String::new(), |line| format!(": {line}"))
}

impl BatchVerifier for CommandVerifier {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut judged = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some((item, response)) = batch.get(index) else { return Ok(judged) };
                match self.judge(&mut self.places.take().place, item, response) {
                    Ok(judgement) => judged.push((index, judgement)),
                    Err(error) => {
                        next.store(batch.len(), Ordering::Relaxed); // the others need not go on
                        return Err(error);
                    }
                }
            }
        };
        let parts: Vec<Result<Vec<(usize, Judgement)>, VerifierError>> = thread::scope(|scope| {
            // The calling thread is one of them.
            let others = 1..self.workers().min(batch.len());
            let others: Vec<_> = others.map(|_| scope.spawn(work)).collect();
            let mut parts = vec![work()];
            parts.extend(others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))));
            parts
        });
        let mut judged = Vec::with_capacity(batch.len());
        for part in parts {
            judged.extend(part?);
        }
        judged.sort_by_key(|(index, _)| *index);
        Ok(judged.into_iter().map(|(_, judgement)| judgement).collect())
    }

    fn workers(&self) -> usize {
        self.settings.workers.max(1)
    }
}

impl Drop for CommandVerifier {
    fn drop(&mut self) {
        let deadline = Instant::now() + GRACE;
        let places = mem::take(self.places.all());
        let workers: Vec<Worker> = places.into_iter().filter_map(|place| place.worker).collect();
        // All are asked to end before one is waited for.
        thread::scope(|scope| {
            for worker in workers {
                scope.spawn(move || worker.dismiss(deadline));
            }
        });
    }
}
