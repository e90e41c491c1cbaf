//! Errors of reading runs' files. Every message is a sentence for the user with the remedy.

use std::path::{Path, PathBuf};

/// Failure to read a run's files, or to compute something from them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] isentrope_files::Error),
    /// A file was read, and its contents are malformed.
    #[error("{}: {what}", path.display())]
    Invalid {
        /// The file concerned.
        path: PathBuf,
        /// The defect, with its line if the file has lines.
        what: String,
    },
    /// The request cannot be met.
    #[error("{0}")]
    Refused(String),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A malformed file.
    pub fn invalid(path: &Path, what: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), what: what.into() }
    }
}
