//! Models and data sets of the Hugging Face hub, downloaded into the hub's own cache.
//!
//! The cache is the one that `huggingface_hub` keeps, file for file, so that every program on the
//! machine shares one copy of a model:
//!
//! ```text
//! <cache>/models--org--name/blobs/<etag>               contents, named by their checksum
//!                           blobs/<etag>.incomplete    contents so far
//!                           refs/<revision>            commit of a branch or tag when last asked
//!                           snapshots/<commit>/<file>  relative symbolic links into blobs/
//!                           .no_exist/<commit>/<file>  files that the commit does not have
//! <cache>/.locks/models--org--name/<etag>.lock         held while a blob is written
//! ```
//!
//! Data sets are in `datasets--org--name` and have one file that only this crate reads,
//! `.files/<commit>`: the names of all files of the commit. Without it a cache that holds some
//! shards of a split does not tell whether there are others.
//!
//! A file is checked against its checksum before it gets its final name, and a branch is recorded
//! last. So a run may die at any moment: what is in the cache is right, and the next run resumes.

mod cache;
mod client;
mod config;
mod dataset;
mod download;
mod error;
mod files;
mod id;
mod retries;

use std::path::{Path, PathBuf};

use cache::RepoCache;
use client::{Client, Listing};
use files::Weights;
use id::RepoId;
use retries::Failure;

pub use config::HubConfig;
pub use dataset::{Names, Select, dataset_files};
pub use error::{Error, Result};
pub use id::neighbours;

/// Listener to a download. `()` ignores everything.
pub trait Progress {
    /// `done` of the `total` bytes of `file` are on disk. A resumed file starts above 0.
    fn advance(&self, file: &str, done: u64, total: u64);
    /// A retry, an outdated copy or the like: worth a line, but the download goes on.
    fn warn(&self, message: &str);
}

impl Progress for () {
    fn advance(&self, _file: &str, _done: u64, _total: u64) {}
    fn warn(&self, _message: &str) {}
}

/// Returns the directory of `model`, an existing directory or a hub id `[org/]name[@revision]`,
/// and downloads what the cache lacks.
///
/// # Errors
/// [`Error::Hub`] when `model` is neither or the hub does not deliver it, [`Error::Io`] when the
/// cache cannot be written.
pub fn resolve(config: &HubConfig, model: &str, progress: &dyn Progress) -> Result<PathBuf> {
    fetch_model(config, model, Parts::All, progress)
}

/// Does what [`resolve`] does for the files besides the weights: configuration, tokenizer and chat
/// template. The weights may be missing.
///
/// # Errors
/// As [`resolve`].
pub fn describe(config: &HubConfig, model: &str, progress: &dyn Progress) -> Result<PathBuf> {
    fetch_model(config, model, Parts::Description, progress)
}

/// Fetches the weights of the model whose other files [`describe`] has put into `described`.
///
/// # Errors
/// As [`resolve`]; also when the revision has moved since to a commit with other weights.
pub fn complete(
    config: &HubConfig,
    model: &str,
    described: &Path,
    progress: &dyn Progress,
) -> Result<()> {
    if resolve(config, model, progress)? == described {
        return Ok(());
    }
    Err(Error::Hub(format!(
        "{model}: the hub got another revision of it while its files were read; run again"
    )))
}

/// Refuses a name that is neither an existing directory nor a hub id.
///
/// # Errors
/// [`Error::Hub`], which says what a model can be.
pub fn check_name(model: &str) -> Result<()> {
    if Path::new(model).is_dir() { Ok(()) } else { RepoId::parse(model).map(drop) }
}

/// The files of a repository to fetch.
#[derive(Clone, Copy, PartialEq)]
enum Parts {
    Description,
    All,
}

fn fetch_model(
    config: &HubConfig,
    model: &str,
    parts: Parts,
    progress: &dyn Progress,
) -> Result<PathBuf> {
    if Path::new(model).is_dir() {
        return Ok(model.into());
    }
    let id = RepoId::parse(model)?;
    let cache = RepoCache::new(&config.cache, &id);
    if id.is_pinned() && cache.is_fully_known(&id.revision)? {
        return Ok(cache.snapshot(&id.revision));
    }
    let cached = cache.complete_snapshot(&id)?;
    if config.offline {
        return cached.map_err(|missing| {
            id.error(format!(
                "there is no directory of this name{}, {missing}, and HF_HUB_OFFLINE is set: check \
                 the spelling, or run once without it to download",
                id.aside()
            ))
        });
    }

    let client = Client::new(config, &id, progress)?;
    // An unreachable hub costs one attempt, not a minute of retries, when there is a complete copy,
    // or when the name has no owner: it is rather a mistyped directory than one of the few models
    // without one.
    let has_owner = id.repo.contains('/');
    let retries = if cached.is_ok() || !has_owner { 0 } else { config.retries };
    let listing = match (client.listing(retries), cached) {
        (Ok(listing), _) => listing,
        (Err(Failure::Transient { what, .. }), Ok(snapshot)) => {
            progress.warn(&format!("{id}: {what}; using the copy in {}", snapshot.display()));
            return Ok(snapshot);
        }
        (Err(Failure::Transient { what, .. }), Err(_)) => {
            let form = if has_owner { "" } else { " (models there are named owner/name)" };
            return Err(id.error(format!(
                "there is no directory of this name{}, and the hub{form} cannot be asked: {what}; \
                 check the spelling, or run again",
                id.aside()
            )));
        }
        (Err(Failure::Fatal(error)), _) => return Err(error),
    };

    let commit = &listing.commit;
    let weights = files::weights(&listing.names).map_err(|what| id.error(what))?;
    for name in files::companions(&listing.names) {
        download::fetch(&client, &cache, commit, name)?;
    }
    if parts == Parts::Description {
        return Ok(cache.snapshot(commit)); // not recorded, as it may lack its weights
    }
    match weights {
        Weights::Single => download::fetch(&client, &cache, commit, files::SINGLE)?,
        Weights::Sharded => {
            download::fetch(&client, &cache, commit, files::INDEX)?;
            let index = cache.snapshot(commit).join(files::INDEX);
            for shard in files::shards(&index)? {
                if !listing.names.contains(&shard) {
                    let defect = format!(
                        "weight_map names the shard `{shard}`, which the repository does not have"
                    );
                    return Err(Error::invalid(&index, defect));
                }
                download::fetch(&client, &cache, commit, &shard)?;
            }
        }
    }
    // Last, so that a branch never stands for an incomplete snapshot. A shared cache may be
    // read-only and still have the files.
    if let Err(error) = record(&cache, &id, &listing) {
        progress.warn(&format!("{error}; the cache was not brought up to date"));
    }
    Ok(cache.snapshot(commit))
}

/// Records in the cache which files the commit lacks and which commit the revision stands for.
fn record(cache: &RepoCache, id: &RepoId, listing: &Listing) -> Result<()> {
    for name in files::COMPANIONS {
        if !listing.names.iter().any(|listed| listed == name) {
            cache.record_absence(&listing.commit, name)?;
        }
    }
    if id.is_pinned() { Ok(()) } else { cache.record_commit(&id.revision, &listing.commit) }
}
