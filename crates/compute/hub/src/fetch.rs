//! Chosen files of a repository, from the cache or the hub.

use std::path::PathBuf;

use crate::cache::RepoCache;
use crate::client::Client;
use crate::id::{Kind, RepoId};
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

/// Most retries to learn what a repository holds, of the hub's own or of a mistyped directory.
const LISTING_RETRIES: u32 = 2;

/// Files of one commit in the cache.
pub(crate) struct Snapshot {
    pub directory: PathBuf,
    /// Names of the chosen files.
    pub names: Vec<String>,
    /// Whether the files were chosen among all files of the commit.
    is_whole: bool,
}

/// Downloads the files that `select` chooses, unless the cache has them. Records the branch's
/// commit only if `is_all`: after a download of the description alone, the cache may still hold the
/// weights of an older commit.
pub(crate) fn fetch(
    config: &HubConfig,
    id: &RepoId,
    select: &Select<'_>,
    is_all: bool,
    progress: &dyn Progress,
) -> Result<Snapshot> {
    let cache = RepoCache::new(&config.cache, id);
    let cached = choose_cached(&cache, id, select)?;
    if config.offline {
        return cached.map_err(|missing| {
            id.error(format!(
                "{}{missing}, and HF_HUB_OFFLINE is set: check the spelling, or run once without \
                 it to download",
                id.no_directory()
            ))
        });
    }
    let is_known = |snapshot: &Snapshot| id.is_pinned() && snapshot.is_whole;
    let cached = match cached {
        Ok(snapshot) if is_known(&snapshot) => return Ok(snapshot),
        cached => cached.ok(),
    };

    let client = Client::new(config, id, progress)?;
    // An unreachable hub costs one attempt, not a minute of retries, when there is a complete copy,
    // or when the name has no owner: it is rather a mistyped directory than one of the few
    // repositories without one.
    let has_owner = id.repo.contains('/');
    let retries = match cached {
        None if has_owner => config.retries.min(LISTING_RETRIES),
        _ => 0,
    };
    let ask = || {
        if id.kind == Kind::Model && !cache.root().exists() {
            progress.say(&format!("there is no directory {id} here; asking {}", config.endpoint));
        }
        client.listing(retries)
    };
    let answer = config.listings.of(&config.endpoint, id, cached.is_some(), ask);
    let listing = match (answer, cached) {
        (Ok(listing), _) => listing,
        (Err(Failure::Transient(what)), Some(snapshot)) => {
            let copy = snapshot.directory.display();
            progress.warn(&format!("{id}: {what}; using the copy in {copy}"));
            return Ok(snapshot);
        }
        (Err(Failure::Transient(what)), None) => {
            let form = if has_owner { "" } else { " (names there are owner/name)" };
            return Err(id.error(format!(
                "{}the hub{form} cannot be asked: {what}; check the spelling, or run again",
                id.no_directory()
            )));
        }
        (Err(Failure::Fatal(error)), _) => return Err(error),
    };

    let commit = &listing.commit;
    let names = select(Names::All(&listing.names)).map_err(|why| id.error(why))?;
    for name in &names {
        download::fetch(&client, &cache, commit, name)?;
    }
    // A branch is recorded last, so that it never stands for files that an interrupted download
    // left out. A shared cache may be read-only and still have the files.
    let recorded = cache.record_names(commit, &listing.names).and_then(|()| {
        if id.is_pinned() || !is_all { Ok(()) } else { cache.record_commit(&id.revision, commit) }
    });
    if let Err(error) = recorded {
        progress.warn(&format!("{error}; the cache was not brought up to date"));
    }
    Ok(Snapshot { directory: cache.snapshot(commit), names, is_whole: true })
}

/// The chosen files if the cache has all of them; otherwise the missing ones, as part of a
/// sentence.
fn choose_cached(
    cache: &RepoCache,
    id: &RepoId,
    select: &Select<'_>,
) -> Result<Result<Snapshot, String>> {
    let Some(commit) = cache.commit(&id.revision)? else {
        let root = cache.root().display();
        return Ok(Err(format!("revision {} is not in the cache {root}", id.revision)));
    };
    let directory = cache.snapshot(&commit);
    let (chosen, is_whole) = match cache.names(&commit) {
        Some(names) => (select(Names::All(&names)), true),
        None => (select(Names::Cached(&cache.cached_names(&commit)?)), false),
    };
    let chosen = chosen.map_err(|why| format!("in the cache {}: {why}", directory.display()));
    Ok(chosen.and_then(|names| match names.iter().find(|name| !cache.has(&commit, name)) {
        Some(name) => Err(format!("{name} is missing from the cache {}", directory.display())),
        None => Ok(Snapshot { directory, names, is_whole }),
    }))
}
