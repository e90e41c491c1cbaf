//! Errors of settings.

use isentrope_settings::Error;
use std::fmt::Display;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Fails with the key, its value and what is expected unless `good`.
pub(crate) fn require(good: bool, key: &str, value: f64, expected: &str) -> Result<()> {
    if good { Ok(()) } else { refuse(key, value, expected) }
}

/// Fails with the key, its value and what is expected.
pub(crate) fn refuse(key: &str, value: impl Display, expected: &str) -> Result<()> {
    Err(Error { key: key.to_owned(), value: value.to_string(), expected: expected.to_owned() })
}
