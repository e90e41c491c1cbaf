//! Failures to find or fetch a repository's files. Each message is one sentence.

use std::io;
use std::path::{Path, PathBuf};

use isentrope_files as files;

/// Failure to find or fetch files of the hub.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to read or write a file of the cache.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The hub or its cache cannot deliver a file, with the reason and the remedy.
    #[error("{0}")]
    Hub(String),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<files::Error> for Error {
    fn from(error: files::Error) -> Self {
        match error {
            files::Error::Io { path, source } => Self::Io { path, source },
            files::Error::Refused(why) => Self::Hub(why),
        }
    }
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}
