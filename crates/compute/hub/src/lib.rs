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
//!                           .files/<commit>            names of all files of the commit
//! <cache>/.locks/models--org--name/<etag>.lock         held while a blob is written
//! ```
//!
//! Data sets are in `datasets--org--name`. Only this crate reads `.files`: without it a cache that
//! holds some shards does not tell whether there are others.
//!
//! A file is checked against its checksum before it gets its final name, and a branch is recorded
//! last. So a run may die at any moment: what is in the cache is right, and the next run resumes.

mod cache;
mod client;
mod config;
mod download;
mod error;
mod fetch;
mod files;
mod gguf;
mod id;
mod listings;
mod retries;

use std::path::{Path, PathBuf};

use files::Parts;
use id::RepoId;

pub use config::HubConfig;
pub use error::{Error, Result};
pub use fetch::{Names, Select};
pub use id::neighbours;
pub use listings::Listings;

/// Listener to a download. `()` ignores everything.
pub trait Progress {
    /// `done` of the `total` bytes of `file` are on disk. A resumed file starts above 0.
    fn advance(&self, file: &str, done: u64, total: u64);
    /// The begin of something that may take a while.
    fn say(&self, message: &str);
    /// A retry, an outdated copy or the like: worth a line, but the download goes on.
    fn warn(&self, message: &str);
}

impl Progress for () {
    fn advance(&self, _file: &str, _done: u64, _total: u64) {}
    fn say(&self, _message: &str) {}
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

/// Like [`resolve`], but only for the files besides the weights: configuration, tokenizer and chat
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

/// Refuses a name that is neither an existing directory nor a hub id, and a directory that holds
/// only a GGUF file.
///
/// # Errors
/// [`Error::Hub`], which says what a model can be.
pub fn check_name(model: &str) -> Result<()> {
    if Path::new(model).is_dir() {
        return gguf::refuse_directory(Path::new(model));
    }
    RepoId::parse(model).map(drop)
}

/// Downloads the files that `select` chooses of the data set `id`, `[org/]name[@revision]`.
///
/// # Errors
/// [`Error::Hub`] when `id` is no id, the hub does not deliver or `select` finds nothing,
/// [`Error::Io`] when the cache cannot be written.
pub fn dataset_files(
    config: &HubConfig,
    id: &str,
    select: &Select<'_>,
    progress: &dyn Progress,
) -> Result<Vec<PathBuf>> {
    let snapshot = fetch::fetch(config, &RepoId::parse_dataset(id)?, select, true, progress)?;
    Ok(snapshot.names.iter().map(|name| snapshot.directory.join(name)).collect())
}

fn fetch_model(
    config: &HubConfig,
    model: &str,
    parts: Parts,
    progress: &dyn Progress,
) -> Result<PathBuf> {
    if Path::new(model).is_dir() {
        gguf::refuse_directory(Path::new(model))?;
        return Ok(model.into());
    }
    let select = |names: Names<'_>| files::select(names, parts);
    let is_all = parts == Parts::All;
    Ok(fetch::fetch(config, &RepoId::parse(model)?, &select, is_all, progress)?.directory)
}
