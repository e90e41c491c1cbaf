//! Files of a data set on the hub.

use std::fs;
use std::path::{Path, PathBuf};

use super::cache::RepoCache;
use super::client::Client;
use super::id::RepoId;
use super::retries::Failure;
use super::{HubConfig, Progress, download};
use crate::{Error, Result};

/// Chooses among the names of a repository's files, `/` between folders; an error is why none can be chosen, as part of
/// a sentence.
pub type Select<'a> = dyn Fn(&[String]) -> Result<Vec<String>, String> + 'a;

/// The files that `select` chooses of the data set `id`, `[org/]name[@revision]`, downloaded as the environment says
/// ([`HubConfig::from_env`]).
///
/// # Errors
/// [`Error::Hub`] when `id` is none, the hub does not deliver or `select` finds nothing, [`Error::Io`] when the cache
/// cannot be written.
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
    let chosen = select(&listing.names).map_err(|why| id.error(why))?;
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

/// The chosen among the files that are here, else what is missing.
fn cached(cache: &RepoCache, id: &RepoId, select: &Select<'_>) -> Result<Result<Vec<PathBuf>, String>> {
    let missing = format!("revision {} is not in the cache {}", id.revision, cache.root().display());
    let Some(commit) = cache.commit(&id.revision)? else { return Ok(Err(missing)) };
    let snapshot = cache.snapshot(&commit);
    let mut names = Vec::new();
    if snapshot.is_dir() {
        list(&snapshot, "", &mut names)?;
    }
    names.sort();
    let chosen = select(&names).map_err(|why| format!("in the cache {}: {why}", snapshot.display()));
    Ok(chosen.map(|names| names.iter().map(|name| snapshot.join(name)).collect()))
}

/// Names of all files below a directory whose contents are there.
fn list(dir: &Path, above: &str, names: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(|error| Error::io(dir, error))? {
        let entry = entry.map_err(|error| Error::io(dir, error))?;
        let path = entry.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = format!("{above}{name}");
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&path, &format!("{name}/"), names)?;
        } else if path.exists() {
            names.push(name);
        }
    }
    Ok(())
}
