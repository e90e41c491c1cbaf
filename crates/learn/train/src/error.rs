//! Errors of training. Every message is a sentence that tells the user what to do.

use isentrope_evaluation::Error as CommonError;
use std::io;
use std::path::Path;

/// Failure to train.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error that measuring a policy can have too: of settings, files, data, sampling or
    /// judging.
    #[error(transparent)]
    Common(#[from] CommonError),
    /// The run cannot go on.
    #[error("{0}")]
    Run(String),
    /// The model failed.
    #[error(transparent)]
    Model(#[from] isentrope_model::Error),
    /// The ranks cannot go on together, because another has failed or fell silent.
    #[error("{0}")] // with its source, which says whether starting again may help
    Ranks(#[from] isentrope_ranks::Error),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! common {
    ($($error:ty),+) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::Common(error.into())
            }
        }
    )+};
}

common!(
    isentrope_data::Error,
    isentrope_files::Error,
    isentrope_reward::VerifierError,
    isentrope_rollout::Error,
    isentrope_settings::Error
);

impl From<isentrope_budget::Error> for Error {
    fn from(error: isentrope_budget::Error) -> Self {
        match error {
            isentrope_budget::Error::TooLarge(what) => Self::Run(what),
            isentrope_budget::Error::Setting { key, what } => Self::setting(key, what),
            isentrope_budget::Error::Model(error) => Self::Model(error),
        }
    }
}

/// The remedy that an error names if the disk is full.
pub const FREE_SPACE: &str = "free some space";

impl Error {
    /// Whether damaged weights may be the cause.
    pub(crate) fn doubts_weights(&self) -> bool {
        matches!(self, Self::Common(CommonError::NotFinite(_)))
    }

    /// Adds the remedy if the disk is full.
    pub fn or_free_space(self) -> Self {
        let mut cause: Option<&dyn std::error::Error> = Some(&self);
        while let Some(error) = cause {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            if let Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) = kind {
                return Self::Run(format!(
                    "{self}; {FREE_SPACE}, then --resume goes on from the last checkpoint, if one \
                     was saved"
                ));
            }
            cause = error.source();
        }
        self
    }

    pub(crate) fn setting(key: &'static str, what: impl Into<String>) -> Self {
        CommonError::setting(key, what).into()
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        CommonError::io(path, source).into()
    }

    pub(crate) fn invalid(path: &Path, what: impl Into<String>) -> Self {
        CommonError::invalid(path, what).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_are_not_finite_are_blamed_on_training_too() {
        let message = Error::from(isentrope_rollout::Error::NotFinite { position: 7 }).to_string();
        for part in
            ["not finite after 7 tokens", "damaged", "optimizer.learning_rate", "optimizer.eps"]
        {
            assert!(message.contains(part), "{part:?} is not in: {message}");
        }
        let other = isentrope_rollout::Error::Prompt("no room".into());
        assert_eq!(Error::from(other).to_string(), "no room");
    }

    #[test]
    fn only_a_full_disk_is_to_be_freed() {
        let message = |kind: io::ErrorKind| {
            Error::io(Path::new("out/model"), kind.into())
                .or_free_space()
                .or_free_space()
                .to_string()
        };
        let remedy =
            "free some space, then --resume goes on from the last checkpoint, if one was saved";
        for full in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let error = io::Error::from(full);
            assert_eq!(message(full), format!("out/model: {error}; {remedy}"));
        }
        let other = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(message(io::ErrorKind::PermissionDenied), format!("out/model: {other}"));
    }
}
