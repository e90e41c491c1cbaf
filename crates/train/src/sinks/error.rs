//! What can go wrong while metrics are written.

use std::io;
use std::path::{Path, PathBuf};

/// Failure to write metrics, or to go on with a file of them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that a new run would write is there already.
    #[error("{}: is there already; resume that run, or choose another directory", .0.display())]
    Exists(PathBuf),
    /// A line of a file to go on with is not what this sink writes.
    #[error("{}:{line}: {reason}; repair or remove the line to resume", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// Result with this module's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// For `map_err`: the error at a path.
    pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        |source| match source.kind() {
            io::ErrorKind::AlreadyExists => Self::Exists(path.to_owned()),
            _ => Self::Io { path: path.to_owned(), source },
        }
    }
}
