//! Reads rows of CSV tables.

use super::lines;
use crate::{Error, Result};
use csv::StringRecord;
use flate2::read::GzDecoder;
use isentrope_files::read_regular;
use std::io::Read;
use std::path::Path;

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// Spellings of a missing value, in small letters.
const MISSING: [&str; 9] = ["", "null", "none", "nan", "n/a", "#n/a", "na", "-", "<na>"];

/// Reads a table. `heads` makes a state from the columns' headings; `take` adds each row to it.
/// Cells come without surrounding blanks.
///
/// # Errors
/// When it cannot be read; malformed rows, and those that `take` refuses, are named by file and
/// line.
pub(crate) fn read<T>(
    path: &Path,
    heads: impl FnOnce(&StringRecord) -> Result<T, String>,
    mut take: impl FnMut(&mut T, &StringRecord) -> Result<(), String>,
) -> Result<T> {
    let text = unpacked(read_regular(path, MAX_FILE)?, path)?;
    let text = lines::without_mark(&text);
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
    let malformed = |error: csv::Error| Error::invalid(path, without_record(&error));
    let mut columns =
        heads(reader.headers().map_err(malformed)?).map_err(|what| Error::invalid(path, what))?;
    let mut row = StringRecord::new();
    while reader.read_record(&mut row).map_err(malformed)? {
        take(&mut columns, &row).map_err(|what| {
            let line = row.position().map_or(0, |position| first_line(text, position));
            Error::invalid(path, format!("line {line}: {what}"))
        })?;
    }
    Ok(columns)
}

/// The text of a file, which may be compressed with gzip.
fn unpacked(bytes: Vec<u8>, path: &Path) -> Result<Vec<u8>> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut text = Vec::new();
    let read = GzDecoder::new(&bytes[..]).take(MAX_FILE + 1).read_to_end(&mut text);
    read.map_err(isentrope_files::Error::at(path))?;
    if text.len() as u64 > MAX_FILE {
        return Err(Error::invalid(path, format!("more than {MAX_FILE} bytes when unpacked")));
    }
    Ok(text)
}

/// Whether a cell stands for a missing value.
pub(crate) fn is_missing(cell: &str) -> bool {
    MISSING.iter().any(|missing| cell.eq_ignore_ascii_case(missing))
}

/// The beginning of a cell.
pub(crate) fn short(cell: &str) -> String {
    cell.chars().take(40).collect()
}

/// The step in a cell.
///
/// # Errors
/// When it is no whole number from 0.
pub(crate) fn step(cell: &str) -> Result<u64, String> {
    let number = cell.parse().ok().and_then(lines::whole_f64);
    number.ok_or_else(|| format!("the step must be a whole number from 0, not {:?}", short(cell)))
}

/// The number in a cell.
///
/// # Errors
/// When the cell has no number; the error names the column.
pub(crate) fn number(head: &str, cell: &str) -> Result<f64, String> {
    let what = || format!("column {:?} must have a number, not {:?}", short(head), short(cell));
    cell.parse().map_err(|_| what())
}

/// The line on which a row begins. The library counts from the empty lines before it.
fn first_line(text: &[u8], position: &csv::Position) -> u64 {
    let behind = text.get(position.byte() as usize..).unwrap_or_default();
    let empty = behind
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace())
        .filter(|byte| **byte == b'\n')
        .count();
    position.line() + empty as u64
}

/// The defect, in the words of the library without its record numbers.
fn without_record(error: &csv::Error) -> String {
    let line = error.position().map_or(0, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("line {line}: {len} fields, where the heads of the columns are {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => format!("line {line}: not UTF-8"),
        _ => error.to_string(),
    }
}
