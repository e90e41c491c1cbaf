//! What can go wrong on a disk.

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
        /// What the operating system said.
        source: io::Error,
    },
    /// What was asked for cannot be, as a sentence that says why and what to do.
    #[error("{0}")]
    Refused(String),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// For `map_err`: the error at `path`.
    pub(crate) fn at<E: Into<io::Error>>(path: &Path) -> impl Fn(E) -> Self {
        |source| Self::Io { path: path.to_owned(), source: source.into() }
    }
}

/// Leaves the place out, for whoever names it in words of their own.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io { source, .. } => source,
            Error::Refused(_) => Self::other(error),
        }
    }
}
