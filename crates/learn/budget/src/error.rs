//! Errors of planning.

/// Failure to plan a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run does not fit: a sentence with the settings that would make it fit.
    #[error("{0}")]
    TooLarge(String),
    /// A setting asks for more than fits.
    #[error("{key} {what}")]
    Setting {
        /// The recipe's key.
        key: &'static str,
        /// The defect: the rest of a sentence that begins with the setting.
        what: String,
    },
    /// The device has failed.
    #[error(transparent)]
    Model(#[from] isentrope_model::Error),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
