//! Failures that pass are waited out; others are final.

use std::thread;
use std::time::Duration;

use super::id::RepoId;
use super::{HubConfig, Progress};
use crate::Error;

/// Bound on a pause that the hub asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Why a request brought nothing.
pub(super) enum Failure {
    /// The hub is unreachable, overloaded or broken, which may pass.
    Transient {
        what: String,
        /// The pause that the hub asks for.
        pause: Option<Duration>,
        /// Whether the hub's name has no address, as where there is no network or the name is wrong.
        is_unresolved: bool,
    },
    /// Asking again will not help.
    Fatal(Error),
}

impl Failure {
    pub fn transient(what: impl Into<String>) -> Self {
        Self::Transient { what: what.into(), pause: None, is_unresolved: false }
    }

    /// What the user is told once this failure is final.
    pub fn into_error(self, id: &RepoId) -> Error {
        match self {
            Self::Transient { what, .. } => id.error(format!("{what}; run again to go on from here")),
            Self::Fatal(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

/// Counts failures in a row and pauses between them.
pub(super) struct Retries<'a> {
    config: &'a HubConfig,
    progress: &'a dyn Progress,
    limit: u32,
    /// Bound on the failures in a row of which the last is a name without an address.
    unresolved_limit: u32,
    failed: u32,
}

impl<'a> Retries<'a> {
    pub fn new(config: &'a HubConfig, progress: &'a dyn Progress, limit: u32) -> Self {
        Self { config, progress, limit, unresolved_limit: limit, failed: 0 }
    }

    /// Those of the first request to a host. If its name has no address, it is rarely one that will have one soon; once
    /// it has answered, its name is right.
    pub fn of_first_request(config: &'a HubConfig, progress: &'a dyn Progress, limit: u32) -> Self {
        Self { unresolved_limit: limit.min(1), ..Self::new(config, progress, limit) }
    }

    /// Forgets earlier failures, because something arrived since.
    pub fn reset(&mut self) {
        self.failed = 0;
    }

    /// The last failure, with the number of those before it.
    fn exhausted(&self, failure: Failure) -> Failure {
        let tried = match self.failed {
            0 => return failure,
            1 => "after 1 retry".to_owned(),
            failed => format!("after {failed} retries"),
        };
        match failure {
            Failure::Transient { what, pause, is_unresolved } => {
                Failure::Transient { what: format!("{what} ({tried})"), pause, is_unresolved }
            }
            fatal @ Failure::Fatal(_) => fatal,
        }
    }

    /// Waits until it is time to try again, or gives `failure` back when it is not to be tried again.
    pub fn pause(&mut self, failure: Failure) -> Result<(), Failure> {
        let Failure::Transient { what, pause, is_unresolved } = &failure else { return Err(failure) };
        let limit = if *is_unresolved { self.unresolved_limit } else { self.limit };
        if self.failed >= limit {
            return Err(self.exhausted(failure));
        }
        let HubConfig { backoff, timeout, .. } = self.config;
        let backoff = backoff.saturating_mul(1 << self.failed.min(16)).min(*timeout);
        let pause = pause.map_or(backoff, |pause| pause.min(LONGEST_PAUSE));
        self.failed += 1;
        let (failed, seconds) = (self.failed, pause.as_secs_f64());
        self.progress.warn(&format!("{what}; retry {failed} of {limit} in {seconds:.1} s"));
        thread::sleep(pause);
        Ok(())
    }
}
