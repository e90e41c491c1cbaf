//! Errors of the laboratory. Every message is a sentence that tells the user what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Failure to read or to interpret a run's files.
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
    /// A file has malformed content.
    #[error("{}: {what}", path.display())]
    Invalid {
        /// The file concerned.
        path: PathBuf,
        /// The defect, with its line where the file has lines.
        what: String,
    },
    /// A request that cannot be met; the sentence says why.
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
    pub(crate) fn invalid(path: &Path, what: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), what: what.into() }
    }
}
