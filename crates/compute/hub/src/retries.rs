//! Which failures are retried, how often and after which pause.

use std::thread;

use crate::id::RepoId;
use crate::{Error, HubConfig, Progress};

/// Failure of one request.
pub(crate) enum Failure {
    /// The hub is unreachable, overloaded or broken, which may pass.
    Transient(String),
    /// Asking again will not help.
    Fatal(Error),
}

impl Failure {
    /// The error for the user once there are no retries left.
    pub fn into_error(self, id: &RepoId) -> Error {
        match self {
            Self::Transient(what) => id.error(format!("{what}; run again to go on from here")),
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
pub(crate) struct Retries<'a> {
    config: &'a HubConfig,
    progress: &'a dyn Progress,
    limit: u32,
    failed: u32,
}

impl<'a> Retries<'a> {
    pub fn new(config: &'a HubConfig, progress: &'a dyn Progress, limit: u32) -> Self {
        Self { config, progress, limit, failed: 0 }
    }

    /// Forgets earlier failures, because something arrived since.
    pub fn reset(&mut self) {
        self.failed = 0;
    }

    /// Waits until it is time to try again, or returns `failure` if it is final.
    pub fn pause(&mut self, failure: Failure) -> Result<(), Failure> {
        let Failure::Transient(what) = failure else { return Err(failure) };
        if self.failed >= self.limit {
            let tried = match self.failed {
                0 => String::new(),
                1 => " (after 1 retry)".to_owned(),
                failed => format!(" (after {failed} retries)"),
            };
            return Err(Failure::Transient(format!("{what}{tried}")));
        }
        let HubConfig { backoff, timeout, .. } = self.config;
        let pause = backoff.saturating_mul(1 << self.failed.min(16)).min(*timeout);
        self.failed += 1;
        let (failed, limit, seconds) = (self.failed, self.limit, pause.as_secs_f64());
        self.progress.warn(&format!("{what}; retry {failed} of {limit} in {seconds:.1} s"));
        thread::sleep(pause);
        Ok(())
    }
}
