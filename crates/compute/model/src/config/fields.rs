//! Typed and bounded access to the keys of config.json.

use std::ops::RangeInclusive;
use std::path::Path;

use serde_json::{Map, Value};

use crate::{Error, Result};

/// One JSON object of config.json: the whole, or the one under a key. A key that holds null counts
/// as absent.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
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
        let expected = format!("a whole number from {} to {}", bounds.start(), bounds.end());
        self.read(key, &expected, |value| {
            let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
            number.filter(|number| bounds.contains(number))
        })
    }

    /// A number within `bounds`.
    pub fn number(&self, key: &str, bounds: RangeInclusive<f64>) -> Result<Option<f64>> {
        let expected = format!("a number from {:?} to {:?}", bounds.start(), bounds.end());
        self.read(key, &expected, |value| value.as_f64().filter(|number| bounds.contains(number)))
    }

    /// A list of numbers within `bounds`.
    pub fn numbers(&self, key: &str, bounds: RangeInclusive<f64>) -> Result<Option<Vec<f64>>> {
        let expected = format!("a list of numbers from {:?} to {:?}", bounds.start(), bounds.end());
        let number = |value: &Value| value.as_f64().filter(|number| bounds.contains(number));
        self.read(key, &expected, |value| value.as_array()?.iter().map(number).collect())
    }

    pub fn boolean(&self, key: &str) -> Result<Option<bool>> {
        self.read(key, "true or false", Value::as_bool)
    }

    pub fn text(&self, key: &str) -> Result<Option<&'a str>> {
        self.read(key, "a string", Value::as_str)
    }

    pub fn texts(&self, key: &str) -> Result<Option<Vec<&'a str>>> {
        self.read(key, "a list of strings", |value| {
            value.as_array()?.iter().map(Value::as_str).collect()
        })
    }

    fn read<T>(
        &self,
        key: &str,
        expected: &str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let what = || format!("is {}, not {expected}", shown(value));
        convert(value).map(Some).ok_or_else(|| self.invalid(key, what()))
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
pub(crate) fn shown(value: &Value) -> String {
    const MAX_CHARS: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
