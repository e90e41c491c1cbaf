//! Data files as rows of JSON values, whatever their format.

mod jsonl;
mod parquet;
mod row;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

pub(crate) use row::{EachRow, Row};

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
        Format::Jsonl => jsonl::read(BufReader::new(file), name, each)
            .map_err(|source| Error::Io { path: path.to_owned(), source }),
        Format::Parquet => parquet::read(file, name, wanted, each)
            .map_err(|problem| Error::file(path, format!("not a readable parquet file: {problem}"))),
    }
}
