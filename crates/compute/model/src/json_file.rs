//! Small files of a model directory, mostly JSON. They are untrusted, so their size is limited.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use crate::{Error, Result};

/// Largest JSON file, in bytes, far above any real config.json or index.
const MAX_BYTES: u64 = 64 << 20;

/// Reads the file at `path`, which must hold one JSON object.
///
/// # Errors
/// [`Error::File`] when it cannot be read, [`Error::Invalid`] when it is no regular file, is larger
/// than 64 MiB, holds something else or has a key twice in one object.
pub(crate) fn read_object(path: &Path) -> Result<Map<String, Value>> {
    find_object(path)?.ok_or_else(|| {
        Error::io(path, io::Error::new(ErrorKind::NotFound, "there is no such file"))
    })
}

/// Like [`read_object`], but returns `None` if there is no file.
pub(crate) fn find_object(path: &Path) -> Result<Option<Map<String, Value>>> {
    let Some(bytes) = find_bytes(path, MAX_BYTES)? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(Distinct(Value::Object(object))) => Ok(Some(object)),
        Ok(_) => Err(Error::invalid(path, "the top level is not a JSON object")),
        Err(error) => {
            let what = format!("not valid JSON: {error}; mend it or copy it again");
            Err(Error::invalid(path, what))
        }
    }
}

/// Reads the UTF-8 text of the file at `path`, or `None` if there is no file.
pub(crate) fn find_text(path: &Path, max_bytes: u64) -> Result<Option<String>> {
    let Some(bytes) = find_bytes(path, max_bytes)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|error| {
        Error::invalid(path, format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
    })?;
    Ok(Some(text))
}

/// Reads the regular file at `path`, or `None` if there is no file.
///
/// More than `max_bytes` is an [`Error::Invalid`], found without reading further.
pub(crate) fn find_bytes(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>> {
    match isentrope_files::read_regular(path, max_bytes).map_err(io::Error::from) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound => Ok(None),
            ErrorKind::InvalidInput | ErrorKind::FileTooLarge => {
                Err(Error::invalid(path, error.to_string()))
            }
            _ => Err(Error::io(path, error)),
        },
    }
}

/// A JSON value without duplicate keys. Readers differ in which duplicate counts: the tokenizers
/// library could read another value than the one checked here.
#[derive(Debug)]
pub(crate) struct Distinct(pub Value);

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DistinctVisitor).map(Self)
    }
}

struct DistinctVisitor;

impl<'de> Visitor<'de> for DistinctVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Distinct(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(de::Error::custom(format!("the key {} occurs twice", quoted(&key))));
            }
            let Distinct(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// Quotes the beginning of a text from a file, for messages.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Describes a JSON value of the wrong type, for messages.
pub(crate) fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
