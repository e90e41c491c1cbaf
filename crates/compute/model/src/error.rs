//! Errors between a directory on disk and a running model. Every message is one sentence that names
//! the file and, if there is one, the key or tensor.

use isentrope_kernels::OutOfMemory;
use std::io;
use std::path::{Path, PathBuf};

/// Failure to find, read, understand or write a model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be opened, read or written.
    #[error(transparent)]
    File(#[from] isentrope_files::Error),
    /// A file was read, and its contents are malformed or contradict each other.
    #[error("{}: {what}", path.display())]
    Invalid {
        /// The file concerned.
        path: PathBuf,
        /// The defect, naming the key, tensor or line.
        what: String,
    },
    /// A file asks, correctly, for something that isentrope cannot run.
    #[error("{}: {what}", path.display())]
    Unsupported {
        /// The file concerned.
        path: PathBuf,
        /// The unsupported feature, and the supported ones.
        what: String,
    },
    /// There is no memory for weights, a gradient, a cache or an activation cache.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// An argument does not fit the model (a token outside the vocabulary, a sequence beyond the
    /// context).
    #[error("{0}")]
    Input(String),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An [`Error::File`] about `path`.
    pub fn io(path: &Path, source: io::Error) -> Self {
        isentrope_files::Error::at(path)(source).into()
    }

    /// An [`Error::Invalid`] about `path`.
    pub fn invalid(path: &Path, what: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), what: what.into() }
    }

    /// An [`Error::Unsupported`] about `path`.
    pub fn unsupported(path: &Path, what: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_owned(), what: what.into() }
    }

    /// The error with what to do about it, if it is about the contents of a file.
    pub(crate) fn with_remedy(mut self, remedy: &str) -> Self {
        if let Self::Invalid { what, .. } | Self::Unsupported { what, .. } = &mut self {
            *what = format!("{what}: {remedy}");
        }
        self
    }
}
