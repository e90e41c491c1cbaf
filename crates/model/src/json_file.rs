//! Small files of a model directory, mostly JSON, read whole and with a limit: whatever lies on disk is untrusted.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use serde_json::{Map, Value};

use crate::{Error, Result};

/// Far above any real config.json or index, and little enough to hold in memory.
const MAX_BYTES: u64 = 64 << 20;

/// Reads the file at `path`, which must hold one JSON object.
///
/// # Errors
/// [`Error::Io`] when it cannot be read, [`Error::Invalid`] when it is no regular file, is larger than 64 MiB or
/// holds something else.
pub(crate) fn read_object(path: &Path) -> Result<Map<String, Value>> {
    find_object(path)?
        .ok_or_else(|| Error::io(path, io::Error::new(ErrorKind::NotFound, "there is no such file")))
}

/// As [`read_object`], but `None` where there is no file.
pub(crate) fn find_object(path: &Path) -> Result<Option<Map<String, Value>>> {
    let Some(bytes) = find_bytes(path, MAX_BYTES)? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(Error::invalid(path, "the top level is not a JSON object")),
        Err(error) => Err(Error::invalid(path, format!("not valid JSON: {error}"))),
    }
}

/// The UTF-8 text of the file at `path`, or `None` where there is no file.
pub(crate) fn find_text(path: &Path, max_bytes: u64) -> Result<Option<String>> {
    let Some(bytes) = find_bytes(path, max_bytes)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|error| {
        Error::invalid(path, format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
    })?;
    Ok(Some(text))
}

/// The bytes of the regular file at `path`, or `None` where there is no file.
///
/// More than `max_bytes` is an [`Error::Invalid`], found without reading further.
pub(crate) fn find_bytes(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>> {
    let file = match isentrope_files::open_regular(path).map_err(io::Error::from) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            return Err(Error::invalid(path, error.to_string()));
        }
        Err(error) => return Err(Error::io(path, error)),
    };
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(|error| Error::io(path, error))?;
    if bytes.len() as u64 > max_bytes {
        return Err(Error::invalid(path, format!("larger than the limit of {max_bytes} bytes")));
    }
    Ok(Some(bytes))
}

/// What a JSON value is, for messages about one of the wrong type.
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
