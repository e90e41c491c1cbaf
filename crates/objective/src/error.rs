//! What can be wrong with settings.

/// A setting that is out of range or does not fit another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}: {expected}")]
pub struct Error {
    /// The recipe's key, such as `objective.covariance.fraction`.
    pub key: &'static str,
    /// What it was set to.
    pub value: String,
    /// What it may be, and what to do.
    pub expected: &'static str,
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Fails with the key, its value and what is expected unless `good`.
pub(crate) fn require(good: bool, key: &'static str, value: f64, expected: &'static str) -> Result<()> {
    if good { Ok(()) } else { Err(Error { key, value: value.to_string(), expected }) }
}
