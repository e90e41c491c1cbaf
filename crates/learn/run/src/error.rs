//! Errors of reading runs' files. Every message is a sentence for the user with the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// Failure to read a run's files, or to compute something from them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to read or write a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory concerned.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
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

impl From<isentrope_files::Error> for Error {
    fn from(error: isentrope_files::Error) -> Self {
        match error {
            isentrope_files::Error::Io { path, source } => Self::Io { path, source },
            isentrope_files::Error::Refused(what) => Self::Refused(what),
        }
    }
}

impl Error {
    /// A malformed file.
    pub fn invalid(path: &Path, what: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), what: what.into() }
    }
}
