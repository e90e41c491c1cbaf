//! Errors of measuring a policy. Every message is a sentence that tells the user what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Failure to evaluate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is out of range or contradicts another.
    #[error("{key} {what}")]
    Setting {
        /// The recipe's key.
        key: &'static str,
        /// The defect and the allowed values: the rest of a sentence that begins with the setting.
        what: String,
    },
    /// A setting is out of the range that its type states.
    #[error(transparent)]
    Range(#[from] isentrope_settings::Error),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] isentrope_files::Error),
    /// A file was read, and its contents are malformed.
    #[error("{}: {what}", path.display())]
    Invalid {
        /// The file concerned.
        path: PathBuf,
        /// The defect.
        what: String,
    },
    /// The evaluation cannot begin or go on.
    #[error("{0}")]
    Refused(String),
    /// The verifier cannot be made.
    #[error(transparent)]
    Verifier(#[from] isentrope_reward::VerifierError),
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] isentrope_data::Error),
    /// Sampling or judging failed.
    #[error(transparent)]
    Rollout(isentrope_rollout::Error),
    /// The model's numbers are not finite, and its weights may have been trained here. Sampling's
    /// error is part of the message, so it is not also a source.
    #[error(
        "{0}; where training has damaged them, lower optimizer.learning_rate or raise \
         optimizer.eps, and go on from an earlier checkpoint"
    )]
    NotFinite(isentrope_rollout::Error),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<isentrope_rollout::Error> for Error {
    fn from(error: isentrope_rollout::Error) -> Self {
        match error {
            error @ isentrope_rollout::Error::NotFinite { .. } => Self::NotFinite(error),
            other => Self::Rollout(other),
        }
    }
}

impl Error {
    /// [`Error::Setting`].
    pub fn setting(key: &'static str, what: impl Into<String>) -> Self {
        Self::Setting { key, what: what.into() }
    }

    /// [`Error::File`] at `path`.
    pub fn io(path: &Path, source: io::Error) -> Self {
        isentrope_files::Error::at(path)(source).into()
    }

    /// [`Error::Invalid`] at `path`.
    pub fn invalid(path: &Path, what: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), what: what.into() }
    }
}
