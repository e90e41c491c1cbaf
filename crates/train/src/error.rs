//! What can go wrong while training. Every message is a sentence for the user that says what to do.

use isentrope_rollout::AFTER_TRAINING;
use std::io;
use std::path::{Path, PathBuf};

/// Failure to train.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting of the recipe is out of range or contradicts another.
    #[error("{key} {what}")]
    Setting {
        /// The recipe's key.
        key: &'static str,
        /// What is wrong with it and what it may be: the rest of a sentence.
        what: String,
    },
    /// The operating system refused to read or write a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory concerned.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file was read, and what it holds is malformed.
    #[error("{}: {what}", path.display())]
    Invalid {
        /// The file concerned.
        path: PathBuf,
        /// The defect.
        what: String,
    },
    /// The run cannot go on.
    #[error("{0}")]
    Run(String),
    /// A file of metrics that a new run would write is there already.
    #[error("{}: is there already; resume that run, or choose another directory", .0.display())]
    Exists(PathBuf),
    /// The rewards' settings are wrong.
    #[error(transparent)]
    Reward(#[from] isentrope_reward::Error),
    /// The verifier can judge nothing.
    #[error(transparent)]
    Verifier(#[from] isentrope_reward::VerifierError),
    /// A setting is out of the range that its type states, or one of the objective's does not fit another.
    #[error(transparent)]
    Range(#[from] isentrope_settings::Error),
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] isentrope_data::Error),
    /// The model failed.
    #[error(transparent)]
    Model(#[from] isentrope_model::Error),
    /// Sampling or judging failed.
    #[error(transparent)]
    Rollout(isentrope_rollout::Error),
    /// The model's numbers are not finite. What was said of it is part of the message, so that it is no source of its own.
    #[error("{}{AFTER_TRAINING}", .0)]
    NotFinite(isentrope_rollout::Error),
    /// Evaluation failed.
    #[error(transparent)]
    Evaluation(#[from] isentrope_evaluation::Error),
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

impl From<isentrope_files::Error> for Error {
    fn from(error: isentrope_files::Error) -> Self {
        match error {
            isentrope_files::Error::Io { path, source } => Self::Io { path, source },
            isentrope_files::Error::Refused(what) => Self::Run(what),
        }
    }
}

impl Error {
    /// Whether weights that training has damaged may be the cause.
    pub(crate) fn doubts_weights(&self) -> bool {
        matches!(self, Self::NotFinite(_) | Self::Evaluation(isentrope_evaluation::Error::NotFinite(_)))
    }

    pub(crate) fn setting(key: &'static str, what: impl Into<String>) -> Self {
        Self::Setting { key, what: what.into() }
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// For `map_err` where a file is made that must not be there yet.
    pub(crate) fn creating(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        |source| match source.kind() {
            io::ErrorKind::AlreadyExists => Self::Exists(path.to_owned()),
            _ => Self::io(path, source),
        }
    }

    pub(crate) fn invalid(path: &Path, what: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_are_not_finite_are_blamed_on_training_too() {
        let said = Error::from(isentrope_rollout::Error::NotFinite { position: 7 }).to_string();
        for part in ["not finite after 7 tokens", "damaged", "optimizer.learning_rate", "optimizer.eps"] {
            assert!(said.contains(part), "{part:?} is not in: {said}");
        }
        let other = isentrope_rollout::Error::Prompt("no room".into());
        assert_eq!(Error::from(other).to_string(), "no room");
    }
}
