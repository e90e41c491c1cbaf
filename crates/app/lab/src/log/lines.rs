//! Reads lines of JSON, with Python's words for numbers that JSON lacks.

use super::points::MAX_STEP;
use crate::{Error, Result};
use isentrope_files::open_regular;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line that is read, in bytes.
const MAX_LINE: usize = 8 << 20;

/// A line's object.
pub(crate) type Row = Map<String, Value>;

/// Calls `take` with each line that is an object, and returns a note if the last line is
/// incomplete.
///
/// # Errors
/// When the file cannot be read; a line that is malformed or too long, or that `take` refuses, is
/// named.
pub(crate) fn each_row(
    path: &Path,
    take: &mut dyn FnMut(Row) -> Result<(), String>,
) -> Result<Option<String>> {
    let mut reader = BufReader::new(open_regular(path)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut line);
        if read.map_err(isentrope_files::Error::at(path))? == 0 {
            break;
        }
        let is_whole = line.last() == Some(&b'\n');
        let invalid = |what: String| Error::invalid(path, format!("line {number}: {what}"));
        if !is_whole && line.len() == MAX_LINE {
            return Err(invalid(format!("longer than {MAX_LINE} bytes")));
        }
        let text = if number == 1 { without_mark(&line) } else { &line };
        if text.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice(&python_numbers(text)) {
            Ok(row) => take(row).map_err(invalid)?,
            Err(_) if !is_whole => {
                let path = path.display();
                return Ok(Some(format!("{path}: line {number} is cut off and is left out")));
            }
            Err(error) => return Err(invalid(without_line(&error))),
        }
    }
    Ok(None)
}

/// The objects of the first lines, up to the first line that is not an object.
pub(super) fn first_rows(path: &Path, count: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let _ = each_row(path, &mut |row| {
        rows.push(row);
        if rows.len() < count { Ok(()) } else { Err("these are enough".into()) }
    });
    rows
}

/// The defect of a line, without the line number, which the parser does not know.
pub(crate) fn without_line(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "it breaks off before its end".to_owned();
    }
    error.to_string().replace(" at line 1 column", " at column")
}

/// Text without the byte order mark that some programs begin it with.
pub(super) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Python's and W&B's words for numbers that are not finite.
const NOT_FINITE: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// A value's number, NaN for Python's words; None for other values, also `null`.
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) if NOT_FINITE.contains(&text.as_str()) => Some(f64::NAN),
        _ => None,
    }
}

/// Python's JSON with NaN, Infinity and -Infinity, which JSON lacks, turned into texts. `null`
/// would mean that nothing was measured.
pub(super) fn python_numbers(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.windows(3).any(|word| matches!(word, b"NaN" | b"Inf")) {
        return Cow::Borrowed(text);
    }
    let mut clean = Vec::with_capacity(text.len() + 16);
    let (mut rest, mut in_string) = (text, false);
    while let [first, behind @ ..] = rest {
        let word = NOT_FINITE.into_iter().find(|word| rest.starts_with(word.as_bytes()));
        match (in_string, first, word) {
            (false, _, Some(word)) => {
                clean.extend([b"\"", word.as_bytes(), b"\""].concat());
                rest = &rest[word.len()..];
                continue;
            }
            (true, b'\\', _) => {
                clean.push(*first);
                clean.extend(behind.first());
                rest = behind.get(1..).unwrap_or_default();
                continue;
            }
            (_, b'"', _) => in_string = !in_string,
            _ => {}
        }
        clean.push(*first);
        rest = behind;
    }
    Cow::Owned(clean)
}

/// A step: a whole number from 0, or a float with a whole value, such as 12.0.
pub(super) fn whole(value: &Value) -> Option<u64> {
    value.as_u64().filter(|step| *step <= MAX_STEP).or_else(|| value.as_f64().and_then(whole_f64))
}

/// As [`whole`], of a float.
pub(crate) fn whole_f64(value: f64) -> Option<u64> {
    let is_step = value.fract() == 0.0 && (0.0..=MAX_STEP as f64).contains(&value);
    is_step.then_some(value as u64)
}
