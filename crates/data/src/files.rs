//! Data files as rows of JSON values, whatever their format.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use isentrope_files::sha256_of_file;
use serde_json::{Map, Value};

use crate::{Error, Result, parquet_rows};

/// A row: its columns by name.
pub(crate) type Row = Map<String, Value>;

/// What is told of every row: where it is, and what it holds or why it cannot be read.
pub(crate) type EachRow<'a> = dyn FnMut(String, Result<Row, String>) + 'a;

/// Longest line of a JSONL file, in bytes.
const MAX_LINE: usize = 16 << 20;

/// Most names of columns kept for messages.
const MAX_NAMES: usize = 32;

/// A data file's format, by the ending of its name.
#[derive(Clone, Copy)]
pub(crate) enum Format {
    Jsonl,
    Parquet,
}

impl Format {
    pub(crate) fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("jsonl") => Ok(Self::Jsonl),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(Error::file(path, "the name of a data file must end in .parquet or .jsonl")),
        }
    }
}

/// A data file and what was in it when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHash {
    /// The file.
    pub path: PathBuf,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

impl FileHash {
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let failed =
            |error: isentrope_files::Error| Error::Io { path: path.to_owned(), source: error.into() };
        let sha256 = sha256_of_file(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), sha256 })
    }
}

/// What the origins of rows call each file: its name, or its whole path where another has that name too.
pub(crate) fn names(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for path in paths {
        *count.entry(short(path)).or_default() += 1;
    }
    let name = |path| Some(short(path)).filter(|name| count[name] == 1);
    paths.iter().map(|path| name(path).unwrap_or_else(|| path.display().to_string())).collect()
}

/// Tells of every row in order; `name` is what origins call the file. Of parquet files only the `wanted` columns are read.
/// Returns the names of the columns.
pub(crate) fn read(path: &Path, name: &str, wanted: &[&str], each: &mut EachRow<'_>) -> Result<Vec<String>> {
    let file = File::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    match Format::of(path)? {
        Format::Jsonl => read_jsonl(BufReader::new(file), name, each)
            .map_err(|source| Error::Io { path: path.to_owned(), source }),
        Format::Parquet => parquet_rows::read(file, name, wanted, each)
            .map_err(|problem| Error::file(path, format!("not a readable parquet file: {problem}"))),
    }
}

fn read_jsonl(mut reader: impl BufRead, name: &str, each: &mut EachRow<'_>) -> io::Result<Vec<String>> {
    let mut columns = BTreeSet::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if reader.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let row = if line.len() > MAX_LINE {
            if line.last() != Some(&b'\n') {
                reader.skip_until(b'\n')?;
            }
            Err(format!("the line is longer than {} MiB", MAX_LINE >> 20))
        } else if number == 1 && line.starts_with(b"\xef\xbb\xbf") {
            parse(&line[3..])
        } else if line.trim_ascii().is_empty() {
            continue;
        } else {
            parse(&line)
        };
        if let Ok(row) = &row {
            columns.extend(row.keys().take(MAX_NAMES - columns.len().min(MAX_NAMES)).cloned());
        }
        each(format!("{name} line {number}"), row);
    }
    Ok(columns.into_iter().collect())
}

fn parse(line: &[u8]) -> Result<Row, String> {
    let text = std::str::from_utf8(line).map_err(|error| format!("the line is not UTF-8: {error}"))?;
    match serde_json::from_str(text) {
        Ok(Value::Object(row)) => Ok(row),
        Ok(_) => Err("the line is not a JSON object".into()),
        Err(error) => Err(format!("the line is not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[u8]) -> Vec<(String, Result<Row, String>)> {
        let mut rows = Vec::new();
        read_jsonl(text, "a.jsonl", &mut |origin, row| rows.push((origin, row))).unwrap();
        rows
    }

    #[test]
    fn lines_are_numbered_and_bad_ones_do_not_stop_the_reading() {
        let text = b"\xef\xbb\xbf{\"a\": 1}\n\n  \r\n[1]\n{\"a\": \xff}\n{\"a\"\n{\"a\": 2}\r\n{\"a\": 3}";
        let rows = rows(text);
        let summary: Vec<_> = rows
            .iter()
            .map(|(origin, row)| match row {
                Ok(row) => format!("{origin} {}", row["a"]),
                Err(problem) => format!("{origin} {problem}"),
            })
            .collect();
        assert_eq!(summary[0], "a.jsonl line 1 1");
        assert_eq!(summary[1], "a.jsonl line 4 the line is not a JSON object");
        assert!(summary[2].starts_with("a.jsonl line 5 the line is not UTF-8"), "{}", summary[2]);
        assert!(summary[3].starts_with("a.jsonl line 6 the line is not JSON"), "{}", summary[3]);
        assert_eq!(summary[4..], ["a.jsonl line 7 2", "a.jsonl line 8 3"]);
    }

    #[test]
    fn huge_lines_and_deep_nesting_are_bad_rows() {
        let mut text = vec![b' '; MAX_LINE + 10];
        text.extend(b"\n{\"a\": 1}\n");
        text.extend(b"{\"a\":");
        text.extend([b'['; 100_000]);
        text.extend(b"\n{\"a\": 2}\n");
        let rows = rows(&text);
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0].1, Err("the line is longer than 16 MiB".into()));
        assert!(rows[1].1.is_ok() && rows[2].1.is_err() && rows[3].1.is_ok());
        assert_eq!(rows[3].0, "a.jsonl line 4");
        // Exactly the longest, and one byte longer with the line's end as that byte.
        for (spaces, good) in [(MAX_LINE - 3, true), (MAX_LINE - 2, false)] {
            let mut text = b"{}".to_vec();
            text.extend(vec![b' '; spaces]);
            text.extend(b"\n{}");
            let rows = self::rows(&text);
            assert_eq!((rows.len(), rows[0].1.is_ok(), rows[1].1.is_ok()), (2, good, true));
        }
    }
}
