//! JSON lines in: each error names the file and the line.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest line that is read: a context of a million tokens fits many times.
const MAX_LINE: u64 = 64 << 20;

/// One line of a file.
pub struct Line {
    file: PathBuf,
    number: usize,
    object: Map<String, Value>,
}

/// The objects in a file of JSON lines; blank lines are passed over.
///
/// # Errors
/// When the file cannot be read, is empty, or a line is not a JSON object.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    if file.metadata().with_context(|| path.display().to_string())?.is_dir() {
        bail!("{}: is a directory, not a file of JSON lines", path.display());
    }
    let mut reader = BufReader::new(file);
    let mut lines = Vec::new();
    for number in 1.. {
        let mut bytes = Vec::new();
        let at = || format!("{}:{number}", path.display());
        if reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes).with_context(at)? == 0 {
            break;
        }
        if bytes.len() as u64 == MAX_LINE {
            bail!("{}: the line is longer than {} MiB", at(), MAX_LINE >> 20);
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(object)) => lines.push(Line { file: path.to_owned(), number, object }),
            Ok(_) => bail!("{}: the line is not a JSON object", at()),
            Err(e) => bail!("{}: the line is not valid JSON ({})", at(), without_line(&e)),
        }
    }
    if lines.is_empty() {
        bail!("{}: the file has no lines", path.display());
    }
    Ok(lines)
}

/// serde_json counts lines within the text it was given, which is always line 1 here.
fn without_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column", " at column").replace(" at line 2 column 0", " at its end")
}

impl Line {
    /// An error about this line.
    pub fn error(&self, what: impl std::fmt::Display) -> anyhow::Error {
        anyhow!("{}:{}: {what}", self.file.display(), self.number)
    }

    /// Which of `keys` the line has: exactly one, or an error that names them all.
    pub fn one_of(&self, keys: &[&'static str]) -> Result<&'static str> {
        let present: Vec<&'static str> =
            keys.iter().copied().filter(|&k| self.object.contains_key(k)).collect();
        match present[..] {
            [key] => Ok(key),
            [] => Err(self.error(format_args!("expected one of the keys {}", keys.join(", ")))),
            [first, second, ..] => {
                Err(self.error(format_args!("has both {first} and {second}; one is expected")))
            }
        }
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.object.get(key)
    }

    pub fn text(&self, key: &str) -> Result<&str> {
        match self.object.get(key) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(self.error(format_args!("\"{key}\" must be a string"))),
        }
    }

    pub fn tokens(&self, key: &str) -> Result<Vec<u32>> {
        let wrong =
            || self.error(format_args!("\"{key}\" must be a list of token ids (whole numbers from 0)"));
        let Some(Value::Array(values)) = self.object.get(key) else { return Err(wrong()) };
        values.iter().map(|v| v.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(wrong)).collect()
    }

    pub fn messages(&self) -> Result<&[Value]> {
        match self.object.get("messages") {
            Some(Value::Array(messages)) if !messages.is_empty() && messages.iter().all(Value::is_object) => {
                Ok(messages)
            }
            _ => Err(self.error(
                "\"messages\" must be a list of objects such as {\"role\": \"user\", \"content\": \"...\"}",
            )),
        }
    }
}
