//! Errors of files and directories.

use std::io;
use std::path::{Path, PathBuf};

/// Failure to read or write, with the place.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A refusal, as a sentence with reason and remedy.
    #[error("{0}")]
    Refused(String),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Makes an [`Error::Io`] about `path`, for `map_err`.
    pub fn at<E: Into<io::Error>>(path: &Path) -> impl Fn(E) -> Self {
        |source| Self::Io { path: path.to_owned(), source: source.into() }
    }
}

/// Drops the path, for a caller that names it in its own words.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io { source, .. } => source,
            Error::Refused(_) => Self::other(error),
        }
    }
}
