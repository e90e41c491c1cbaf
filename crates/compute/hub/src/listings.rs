//! The hub's answers to what a revision holds: a process asks for each once.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::Error;
use crate::client::Listing;
use crate::id::RepoId;
use crate::retries::Failure;

/// An answer of a hub.
struct Answer {
    listing: Result<Listing, Failure>,
    /// Whether it was asked for without retries, since a copy was there.
    has_copy: bool,
}

/// Answers by the hub's address and the revision.
type Answers = BTreeMap<(String, String), Answer>;

/// The answers of hubs so far, failures included. Copies share them.
#[derive(Clone, Default)]
pub struct Listings(Arc<Mutex<Answers>>);

impl Listings {
    /// The answers that this process has had. A sweep's runs name the same models and data.
    pub(crate) fn of_process() -> Self {
        static OF_PROCESS: LazyLock<Listings> = LazyLock::new(Listings::default);
        OF_PROCESS.clone()
    }

    /// The answer of the hub at `endpoint`; `ask` is called if there is none yet. A passing failure
    /// that a caller with a copy has met does not count for one without: it asks with retries.
    pub(crate) fn of(
        &self,
        endpoint: &str,
        id: &RepoId,
        has_copy: bool,
        ask: impl FnOnce() -> Result<Listing, Failure>,
    ) -> Result<Listing, Failure> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key =
            (endpoint.to_owned(), format!("{}/{}@{}", id.kind.plural(), id.repo, id.revision));
        if !has_copy && answers.get(&key).is_some_and(Answer::is_hasty) {
            answers.remove(&key);
        }
        let answer = answers.entry(key).or_insert_with(|| Answer { listing: ask(), has_copy });
        match &answer.listing {
            Ok(listing) => Ok(listing.clone()),
            Err(Failure::Transient(what)) => Err(Failure::Transient(what.clone())),
            Err(Failure::Fatal(error)) => Err(Failure::Fatal(Error::Hub(error.to_string()))),
        }
    }
}

impl Answer {
    /// Whether another attempt may have gone well.
    fn is_hasty(&self) -> bool {
        self.has_copy && matches!(self.listing, Err(Failure::Transient(_)))
    }
}
