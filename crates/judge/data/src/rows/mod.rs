//! Data files as rows of JSON values, whatever their format.
//!
//! [`Rows`] opens a file. `format.rs` has the formats, `jsonl.rs`, `json.rs`, `separated.rs` and
//! `parquet/` read them, `limits.rs` bounds their sizes.

mod format;
mod json;
mod jsonl;
mod limits;
mod parquet;
mod separated;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use isentrope_files::open_regular;
use serde_json::{Map, Value};

use crate::schema::PROMPT;
use crate::{Error, Result};
use format::{Compression, disguise};
use json::{Document, Failure};
use jsonl::Lines;
use limits::{UnpackedReader, ValueBudget};
use parquet::ParquetRows;
use separated::Separated;

pub use format::Format;
pub(crate) use format::{ENDINGS, Form};
pub(crate) use limits::text_bytes;

/// A row: its columns by name.
pub type Row = Map<String, Value>;

/// Most names of columns that are kept for messages.
const MAX_NAMES: usize = 32;

/// Iterator over the rows of a data file, each with its number. An inner error is a row's defect;
/// an outer error ends the reading.
pub struct Rows {
    supply: Supply,
    path: PathBuf,
    columns: Vec<String>,
    /// Budget of the rows.
    values: ValueBudget,
    ended: bool,
}

enum Supply {
    Lines(Lines),
    Document(Document),
    Separated(Box<Separated>),
    Parquet(Box<ParquetRows>),
}

impl Rows {
    /// Opens a data file. Of a parquet file it reads the `wanted` columns and the `further` ones
    /// (None: all). An unreadable wanted column makes a bad row or file; an unreadable further
    /// column is null.
    ///
    /// # Errors
    /// When the file cannot be read, or has another format than its name says.
    pub(crate) fn open(path: &Path, wanted: &[&str], further: Option<&[&str]>) -> Result<Self> {
        Self::open_as(path, Format::of(path)?, wanted, further)
    }

    /// Opens a file. An unknown ending stands for JSON lines.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open_any(path: &Path) -> Result<Self> {
        Self::open_as(path, Format::of(path).unwrap_or(Format::LINES), PROMPT, None)
    }

    /// Reads JSON lines, which messages call `name`.
    pub fn lines(reader: impl BufRead + 'static, name: &Path) -> Self {
        Self::new(Supply::Lines(Lines::new(Box::new(reader))), name, ValueBudget::unlimited())
    }

    fn new(supply: Supply, path: &Path, values: ValueBudget) -> Self {
        Self { supply, path: path.to_owned(), columns: Vec::new(), values, ended: false }
    }

    fn open_as(
        path: &Path,
        format: Format,
        wanted: &[&str],
        further: Option<&[&str]>,
    ) -> Result<Self> {
        let io = |source: io::Error| Error::Io { path: path.to_owned(), source };
        let file = open_regular(path).map_err(|error| io(error.into()))?;
        let values = ValueBudget::of(file.metadata().map_err(io)?.len());
        if format.form == Form::Parquet {
            let rows = ParquetRows::open(file, wanted, further).map_err(|problem| {
                Error::file(path, format!("not a readable parquet file: {problem}"))
            })?;
            return Ok(Self {
                columns: rows.columns().take(MAX_NAMES).collect(),
                ..Self::new(Supply::Parquet(Box::new(rows)), path, values)
            });
        }
        let mut reader = unpacked(file, format.compression).map_err(io)?;
        let beginning = reader.fill_buf().map_err(io)?;
        if let Some(what) = disguise(beginning) {
            return Err(Error::file(path, what));
        }
        let is_array = is_array_of_objects(beginning);
        let mut columns = Vec::new();
        let supply = match format.form {
            Form::Separated(delimiter) => {
                let rows = Separated::open(reader, delimiter);
                let rows = rows.map_err(|problem| Error::file(path, problem))?;
                columns = rows.columns().take(MAX_NAMES).collect();
                Supply::Separated(Box::new(rows))
            }
            Form::Document => {
                Supply::Document(Document::open(reader).map_err(|failure| failed(path, failure))?)
            }
            _ if is_array => {
                let what = "is a JSON array, not JSON lines: its name must end in .json";
                return Err(Error::file(path, what));
            }
            _ => Supply::Lines(Lines::new(reader)),
        };
        Ok(Self { columns, ..Self::new(supply, path, values) })
    }

    /// Raises the limit on rows from 32 MiB to `bytes`, but not in JSON documents.
    pub(crate) fn allow_rows_of(&mut self, bytes: usize) {
        self.values.row_bytes = bytes;
        if let Supply::Lines(lines) | Supply::Document(Document::Lines(lines)) = &mut self.supply {
            lines.longest = bytes;
        }
    }

    /// Word for a row: line, item or row.
    pub fn unit(&self) -> &'static str {
        match self.supply {
            Supply::Lines(_) | Supply::Document(Document::Lines(_)) => "line",
            Supply::Document(Document::Items(_)) => "item",
            Supply::Document(Document::Rows(_)) | Supply::Separated(_) | Supply::Parquet(_) => {
                "row"
            }
        }
    }

    /// Defects of the columns of the latest row that could not be read and are null.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = &str> {
        let parquet = match &self.supply {
            Supply::Parquet(rows) => Some(rows.unread()),
            _ => None,
        };
        parquet.into_iter().flatten()
    }

    /// The names of the columns: in the order of a table's file, else of the rows so far, sorted.
    pub(crate) fn columns(&self) -> Vec<&str> {
        let mut columns: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        if !matches!(self.supply, Supply::Parquet(_) | Supply::Separated(_)) {
            columns.sort_unstable();
        }
        columns
    }

    fn read(&mut self) -> Result<Option<(usize, Result<Row, String>)>> {
        let io = |source| Error::Io { path: self.path.clone(), source };
        Ok(match &mut self.supply {
            Supply::Lines(lines) => lines.next().map_err(io)?.map(|row| (lines.number, row)),
            Supply::Document(document) => document.next().map_err(io)?,
            Supply::Separated(rows) => rows.next().map_err(io)?,
            Supply::Parquet(rows) => {
                let row = rows.next().map_err(|problem| {
                    Error::file(&self.path, format!("not a readable parquet file: {problem}"))
                })?;
                return Ok(row.map(|row| (rows.number, row)));
            }
        })
    }
}

impl Rows {
    /// Counts a row against the limits.
    fn counted(
        &mut self,
        row: Option<(usize, Result<Row, String>)>,
    ) -> Result<Option<(usize, Result<Row, String>)>> {
        let Some((number, Ok(row))) = row else { return Ok(row) };
        let fits = self.values.take(&row).map_err(|problem| Error::file(&self.path, problem))?;
        Ok(Some((number, fits.map(|()| row))))
    }
}

impl Iterator for Rows {
    type Item = Result<(usize, Result<Row, String>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let row = self.read().and_then(|row| self.counted(row)).transpose();
        self.ended = !matches!(row, Some(Ok(_)));
        if let Some(Ok((_, Ok(row)))) = &row
            && self.columns.len() < MAX_NAMES
        {
            let new =
                row.keys().filter(|name| !self.columns.contains(name)).take(MAX_NAMES).cloned();
            let new: Vec<String> = new.collect();
            self.columns.extend(new);
        }
        row
    }
}

/// Opens the unpacked contents of a file.
fn unpacked(file: File, compression: Compression) -> io::Result<Box<dyn BufRead>> {
    let packed = file.metadata()?.len();
    let file = BufReader::new(file);
    Ok(match compression {
        Compression::None => Box::new(file),
        Compression::Gzip => Box::new(UnpackedReader::buffered(MultiGzDecoder::new(file), packed)),
        Compression::Zstandard => Box::new(UnpackedReader::buffered(
            zstd::stream::read::Decoder::with_buffer(file)?,
            packed,
        )),
    })
}

/// Whether a file begins as a JSON array of objects, which is not JSON lines.
fn is_array_of_objects(beginning: &[u8]) -> bool {
    let text = jsonl::without_mark(beginning).trim_ascii_start();
    text.strip_prefix(b"[").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"{"))
}

fn failed(path: &Path, failure: Failure) -> Error {
    match failure {
        Failure::Io(source) => Error::Io { path: path.to_owned(), source },
        Failure::Document(problem) => Error::file(path, problem),
    }
}

/// Names of files in the origins of rows: the file name, or the whole path if another file has that
/// name.
pub(crate) fn names(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| {
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    };
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for path in paths {
        *count.entry(short(path)).or_default() += 1;
    }
    let name = |path| Some(short(path)).filter(|name| count[name] == 1);
    paths.iter().map(|path| name(path).unwrap_or_else(|| path.display().to_string())).collect()
}
