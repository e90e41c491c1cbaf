//! Models by name: a directory on disk, or a Hugging Face hub id that is downloaded into the hub's own cache. Files of
//! data sets are fetched likewise.
//!
//! The cache is the one that `huggingface_hub` keeps, file for file, so that a model is downloaded once for
//! every program on the machine:
//!
//! ```text
//! <cache>/models--org--name/blobs/<etag>               contents, under the hub's checksum
//!                           blobs/<etag>.incomplete    contents so far
//!                           refs/<revision>            the commit that a branch or tag last stood for
//!                           snapshots/<commit>/<file>  relative symbolic links into blobs/
//!                           .no_exist/<commit>/<file>  files known not to be in that commit
//! <cache>/.locks/models--org--name/<etag>.lock         held while a blob is written
//! ```
//!
//! Data sets are in `datasets--org--name` beside the models. They have a file of our own, which `huggingface_hub` passes over:
//! `.files/<commit>`, the names of all files of that commit. A cache that has some of them does not tell which others there are,
//! and so not which are those of a split.
//!
//! Contents are checked against their checksum before they get their final name, small files are linked before
//! weights, and a branch is recorded last, so the process may die at any moment: what is there is right, and the
//! next run goes on from it.

mod cache;
mod checksum;
mod client;
mod config;
mod dataset;
mod download;
mod files;
mod id;
mod neighbours;
mod retries;
mod steady;
mod url;

use std::path::{Path, PathBuf};

use crate::Result;
use cache::RepoCache;
use client::{Client, Listing};
use files::Weights;
use id::RepoId;
use retries::Failure;

pub use config::HubConfig;
pub use dataset::{Names, Select, dataset_files, dataset_files_with};
pub use neighbours::neighbours;

/// Who is told how a download goes. `()` listens to nothing.
pub trait Progress {
    /// `done` of the `total` bytes of `file` are on disk. The first call for a resumed file starts above 0.
    fn advance(&self, file: &str, done: u64, total: u64);
    /// Something worth a line to the user that does not stop the download: a retry, an outdated copy.
    fn warn(&self, message: &str);
}

impl Progress for () {
    fn advance(&self, _file: &str, _done: u64, _total: u64) {}
    fn warn(&self, _message: &str) {}
}

/// The directory that holds `model`, which is an existing directory or a hub id `[org/]name[@revision]`. A hub id
/// is looked up and downloaded as the environment says ([`HubConfig::from_env`]).
///
/// # Errors
/// [`Error::Hub`](crate::Error::Hub) when `model` is neither or the hub does not deliver it,
/// [`Error::Io`](crate::Error::Io) when the cache cannot be written.
pub fn resolve(model: &str, progress: &dyn Progress) -> Result<PathBuf> {
    if Path::new(model).is_dir() {
        return Ok(model.into());
    }
    let id = RepoId::parse(model)?;
    fetch(&HubConfig::from_env()?, &id, Parts::All, progress)
}

/// Refuses what can be neither a directory nor a hub id.
///
/// # Errors
/// [`Error::Hub`](crate::Error::Hub), with what a model can be.
pub fn check_name(model: &str) -> Result<()> {
    if Path::new(model).is_dir() { Ok(()) } else { RepoId::parse(model).map(drop) }
}

/// As [`resolve_with`], but only what describes the model is fetched: its configuration, tokenizer and chat template. Weights
/// may or may not be there.
///
/// # Errors
/// As [`resolve`].
pub fn describe_with(config: &HubConfig, model: &str, progress: &dyn Progress) -> Result<PathBuf> {
    if Path::new(model).is_dir() {
        return Ok(model.into());
    }
    fetch(config, &RepoId::parse(model)?, Parts::Description, progress)
}

/// Fetches the weights of what [`describe_with`] has put into `described`.
///
/// # Errors
/// As [`resolve`]; when the hub has got another revision meanwhile, whose weights would not be those described.
pub fn complete_with(
    config: &HubConfig,
    model: &str,
    described: &Path,
    progress: &dyn Progress,
) -> Result<()> {
    if resolve_with(config, model, progress)? == described {
        return Ok(());
    }
    let what = format!("{model}: the hub got another revision of it while its files were read; run again");
    Err(crate::Error::Hub(what))
}

/// [`resolve`] with settings of the caller's in place of the environment's.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_with(config: &HubConfig, model: &str, progress: &dyn Progress) -> Result<PathBuf> {
    if Path::new(model).is_dir() {
        return Ok(model.into());
    }
    fetch(config, &RepoId::parse(model)?, Parts::All, progress)
}

/// What of a repository is fetched.
#[derive(Clone, Copy, PartialEq)]
enum Parts {
    /// What weights are accompanied by.
    Description,
    /// Weights too.
    All,
}

/// The snapshot directory of `id`, brought up to date with the hub where that is possible.
fn fetch(config: &HubConfig, id: &RepoId, parts: Parts, progress: &dyn Progress) -> Result<PathBuf> {
    let cache = RepoCache::new(&config.cache, id);
    if id.is_pinned() && cache.is_fully_known(&id.revision)? {
        return Ok(cache.snapshot(&id.revision));
    }
    if config.offline {
        return cache.complete_snapshot(id)?.map_err(|missing| {
            id.error(format!(
                "there is no directory of this name{}, {missing}, and HF_HUB_OFFLINE is set: check the spelling, or run \
                 once without it to download",
                id.aside()
            ))
        });
    }

    let client = Client::new(config, id, progress)?;
    let cached = cache.complete_snapshot(id)?.ok();
    // With a complete copy at hand an unreachable hub costs one attempt, not a minute of back-off. So it does for a name
    // without an owner, which is rather a mistyped directory than one of the hub's few such models.
    let is_likely = id.repo.contains('/');
    let retries = if cached.is_some() || !is_likely { 0 } else { config.retries };
    let listing = match (client.listing(retries), cached) {
        (Ok(listing), _) => listing,
        (Err(Failure::Transient { what, .. }), Some(snapshot)) => {
            progress.warn(&format!("{id}: {what}; using the copy in {}", snapshot.display()));
            return Ok(snapshot);
        }
        (Err(Failure::Transient { what, .. }), None) => {
            let form = if is_likely { "" } else { " (models there are named owner/name)" };
            return Err(id.error(format!(
                "there is no directory of this name{}, and the hub{form} cannot be asked: {what}; check the spelling, or run \
                 again",
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
        return Ok(cache.snapshot(commit)); // which is not recorded: it may lack its weights
    }
    match weights {
        Weights::Single => download::fetch(&client, &cache, commit, files::SINGLE)?,
        Weights::Sharded => {
            download::fetch(&client, &cache, commit, files::INDEX)?;
            let index = cache.snapshot(commit).join(files::INDEX);
            for shard in files::shards(&index)? {
                if !listing.names.contains(&shard) {
                    let what =
                        format!("weight_map names the shard `{shard}`, which the repository does not have");
                    return Err(crate::Error::invalid(&index, what));
                }
                download::fetch(&client, &cache, commit, &shard)?;
            }
        }
    }
    // Last, so that a branch never stands for a snapshot that an interrupted download left incomplete while the
    // one before it was whole. A cache that others share may be read-only, and still has the files.
    if let Err(error) = record(&cache, id, &listing) {
        progress.warn(&format!("{error}; the cache was not brought up to date"));
    }
    Ok(cache.snapshot(commit))
}

/// Notes in the cache what the hub said about the revision and its commit.
fn record(cache: &RepoCache, id: &RepoId, listing: &Listing) -> Result<()> {
    for name in files::COMPANIONS {
        if !listing.names.iter().any(|listed| listed == name) {
            cache.record_absence(&listing.commit, name)?;
        }
    }
    if id.is_pinned() { Ok(()) } else { cache.record_commit(&id.revision, &listing.commit) }
}
