//! Files of a data set on the hub.

use std::path::PathBuf;

use super::cache::RepoCache;
use super::client::Client;
use super::id::RepoId;
use super::retries::Failure;
use super::{HubConfig, Progress, download};
use crate::Result;

/// Names of a repository's files, `/` between folders.
#[derive(Clone, Copy, Debug)]
pub enum Names<'a> {
    /// Those of all its files.
    All(&'a [String]),
    /// Those of the files that are in the cache, where it is not known which others there are.
    Cached(&'a [String]),
}

/// Chooses among the names of a repository's files; an error is why none can be chosen, as part of a sentence.
pub type Select<'a> = dyn Fn(Names<'_>) -> Result<Vec<String>, String> + 'a;

/// The files that `select` chooses of the data set `id`, `[org/]name[@revision]`, downloaded as the environment says
/// ([`HubConfig::from_env`]).
///
/// # Errors
/// [`Error::Hub`](crate::Error::Hub) when `id` is none, the hub does not deliver or `select` finds nothing,
/// [`Error::Io`](crate::Error::Io) when the cache cannot be written.
pub fn dataset_files(id: &str, select: &Select<'_>, progress: &dyn Progress) -> Result<Vec<PathBuf>> {
    dataset_files_with(&HubConfig::from_env()?, id, select, progress)
}

/// [`dataset_files`] with settings of the caller's in place of the environment's.
///
/// # Errors
/// As [`dataset_files`].
pub fn dataset_files_with(
    config: &HubConfig,
    id: &str,
    select: &Select<'_>,
    progress: &dyn Progress,
) -> Result<Vec<PathBuf>> {
    let id = &RepoId::parse_dataset(id)?;
    let cache = RepoCache::new(&config.cache, id);
    let cached = cached(&cache, id, select)?;
    if config.offline || (id.is_pinned() && cached.is_ok()) {
        return cached.map_err(|missing| {
            id.error(format!("{missing}, and HF_HUB_OFFLINE is set: run once without it to download"))
        });
    }
    let client = Client::new(config, id, progress)?;
    let attempts = if cached.is_ok() { 0 } else { config.retries };
    let listing = match (client.listing(attempts), cached) {
        (Ok(listing), _) => listing,
        (Err(Failure::Transient { what, .. }), Ok(files)) => {
            progress.warn(&format!("{id}: {what}; using the copy in {}", cache.root().display()));
            return Ok(files);
        }
        (Err(failure), _) => return Err(failure.into_error(id)),
    };
    let commit = &listing.commit;
    let chosen = select(Names::All(&listing.names)).map_err(|why| id.error(why))?;
    if let Err(error) = cache.record_names(commit, &listing.names) {
        progress.warn(&format!("{error}; the cache was not brought up to date"));
    }
    for name in &chosen {
        download::fetch(&client, &cache, commit, name)?;
    }
    // Last, so that a branch never stands for files that an interrupted download left out.
    if !id.is_pinned()
        && let Err(error) = cache.record_commit(&id.revision, commit)
    {
        progress.warn(&format!("{error}; the cache was not brought up to date"));
    }
    Ok(chosen.iter().map(|name| cache.snapshot(commit).join(name)).collect())
}

/// The chosen files, if all of them are here, else what is missing. What is here does not tell what would be chosen: an earlier
/// run may have asked for another split, or been interrupted between two shards.
fn cached(cache: &RepoCache, id: &RepoId, select: &Select<'_>) -> Result<Result<Vec<PathBuf>, String>> {
    let missing = format!("revision {} is not in the cache {}", id.revision, cache.root().display());
    let Some(commit) = cache.commit(&id.revision)? else { return Ok(Err(missing)) };
    let snapshot = cache.snapshot(&commit);
    let chosen = match cache.names(&commit)? {
        Some(names) => select(Names::All(&names)),
        None => select(Names::Cached(&cache.cached_names(&commit)?)),
    };
    let chosen = chosen.map_err(|why| format!("in the cache {}: {why}", snapshot.display()));
    Ok(chosen.and_then(|names| match names.iter().find(|name| !cache.has(&commit, name)) {
        Some(name) => Err(format!("{name} is missing from the cache {}", snapshot.display())),
        None => Ok(names.iter().map(|name| snapshot.join(name)).collect()),
    }))
}
