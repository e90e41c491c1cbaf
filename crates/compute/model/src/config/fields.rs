//! Typed and bounded access to the keys of config.json.

use std::ops::RangeInclusive;
use std::path::Path;

use serde_json::{Map, Value};

use crate::{Error, Result};

/// One JSON object of config.json: the whole, or the one under a key. A key that holds null counts
/// as absent.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub path: &'a Path,
    pub object: &'a Map<String, Value>,
    /// Prefix of keys in messages: empty, or the enclosing key and a dot.
    pub prefix: &'a str,
}

impl<'a> Fields<'a> {
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// A whole number within `bounds`.
    pub fn integer(&self, key: &str, bounds: RangeInclusive<usize>) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        match number.filter(|number| bounds.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.invalid(
                key,
                format!(
                    "is {}, not a whole number from {} to {}",
                    shown(value),
                    bounds.start(),
                    bounds.end()
                ),
            )),
        }
    }

    /// A number within `bounds`.
    pub fn number(&self, key: &str, bounds: RangeInclusive<f64>) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_f64().filter(|number| bounds.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.invalid(
                key,
                format!(
                    "is {}, not a number from {:?} to {:?}",
                    shown(value),
                    bounds.start(),
                    bounds.end()
                ),
            )),
        }
    }

    pub fn boolean(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value
            .as_bool()
            .map(Some)
            .ok_or_else(|| self.invalid(key, format!("is {}, not true or false", shown(value))))
    }

    pub fn text(&self, key: &str) -> Result<Option<&'a str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value
            .as_str()
            .map(Some)
            .ok_or_else(|| self.invalid(key, format!("is {}, not a string", shown(value))))
    }

    pub fn texts(&self, key: &str) -> Result<Option<Vec<&'a str>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let texts = value.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        texts
            .map(Some)
            .ok_or_else(|| self.invalid(key, format!("is {}, not a list of strings", shown(value))))
    }

    /// "`key` `what`" as [`Error::Invalid`].
    pub fn invalid(&self, key: &str, what: impl std::fmt::Display) -> Error {
        Error::invalid(self.path, format!("{}{key} {what}", self.prefix))
    }

    /// "`key` `what`" as [`Error::Unsupported`].
    pub fn unsupported(&self, key: &str, what: impl std::fmt::Display) -> Error {
        Error::unsupported(self.path, format!("{}{key} {what}", self.prefix))
    }
}

/// The value as JSON, cut to a length that fits a message.
pub(super) fn shown(value: &Value) -> String {
    const MAX_CHARS: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
