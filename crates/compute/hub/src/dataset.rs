//! Files of a data set on the hub.

use std::path::PathBuf;

use crate::cache::RepoCache;
use crate::client::Client;
use crate::id::RepoId;
use crate::retries::Failure;
use crate::{HubConfig, Progress, Result, download};

/// Names of a repository's files, with `/` between folders.
#[derive(Clone, Copy, Debug)]
pub enum Names<'a> {
    /// All files of the repository.
    All(&'a [String]),
    /// The files in the cache; it is not known which others the repository has.
    Cached(&'a [String]),
}

/// Chooses among a repository's files. An error is the reason why none can be chosen, as a part of
/// a sentence.
pub type Select<'a> = dyn Fn(Names<'_>) -> Result<Vec<String>, String> + 'a;

/// Downloads the files that `select` chooses of the data set `id`, `[org/]name[@revision]`.
///
/// # Errors
/// [`Error::Hub`](crate::Error::Hub) when `id` is no id, the hub does not deliver or `select` finds
/// nothing, [`Error::Io`](crate::Error::Io) when the cache cannot be written.
pub fn dataset_files(
    config: &HubConfig,
    id: &str,
    select: &Select<'_>,
    progress: &dyn Progress,
) -> Result<Vec<PathBuf>> {
    let id = &RepoId::parse_dataset(id)?;
    let cache = RepoCache::new(&config.cache, id);
    let cached = choose_cached(&cache, id, select)?;
    if config.offline || (id.is_pinned() && cached.is_ok()) {
        return cached.map_err(|missing| {
            id.error(format!(
                "{missing}, and HF_HUB_OFFLINE is set: run once without it to download"
            ))
        });
    }
    let client = Client::new(config, id, progress)?;
    let retries = if cached.is_ok() { 0 } else { config.retries };
    let listing = match (client.listing(retries), cached) {
        (Ok(listing), _) => listing,
        (Err(Failure::Transient { what, .. }), Ok(files)) => {
            let root = cache.root().display();
            progress.warn(&format!("{id}: {what}; using the copy in {root}"));
            return Ok(files);
        }
        (Err(failure), _) => return Err(failure.into_error(id)),
    };
    let commit = &listing.commit;
    let chosen = select(Names::All(&listing.names)).map_err(|why| id.error(why))?;
    let record = |result: Result<()>| {
        if let Err(error) = result {
            progress.warn(&format!("{error}; the cache was not brought up to date"));
        }
    };
    record(cache.record_names(commit, &listing.names));
    for name in &chosen {
        download::fetch(&client, &cache, commit, name)?;
    }
    // Last, so that a branch never stands for files that an interrupted download left out.
    if !id.is_pinned() {
        record(cache.record_commit(&id.revision, commit));
    }
    Ok(chosen.iter().map(|name| cache.snapshot(commit).join(name)).collect())
}

/// The chosen files if the cache has all of them, else what is missing.
fn choose_cached(
    cache: &RepoCache,
    id: &RepoId,
    select: &Select<'_>,
) -> Result<Result<Vec<PathBuf>, String>> {
    let Some(commit) = cache.commit(&id.revision)? else {
        let root = cache.root().display();
        return Ok(Err(format!("revision {} is not in the cache {root}", id.revision)));
    };
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
