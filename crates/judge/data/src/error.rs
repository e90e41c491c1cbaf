//! Errors of reading data.

use std::path::{Path, PathBuf};

/// Failure to provide data.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is out of range or impossible together with others.
    #[error("{key} is {value}: {expected}")]
    Setting {
        /// The recipe's key.
        key: String,
        /// Its value.
        value: String,
        /// The values it may have.
        expected: String,
    },
    /// A file cannot be read.
    #[error("data file {path}, which data.files names, cannot be read: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is malformed or of the wrong kind.
    #[error("data file {path}: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// The defect and its remedy, as a sentence.
        problem: String,
    },
    /// A place holds no files.
    #[error("{place}: {problem}")]
    Location {
        /// The place as written.
        place: String,
        /// The defect and its remedy, as a sentence.
        problem: String,
    },
    /// The hub does not deliver a data set, as a sentence that names it.
    #[error("{0}")]
    Hub(String),
    /// A file has no row that can be used.
    #[error(
        "data file {path}: {problem}, or the columns named by data.columns.prompt and \
         data.columns.answer"
    )]
    NoUsableRow {
        /// The file.
        path: PathBuf,
        /// The file's columns and the expected ones, as a sentence without its end.
        problem: String,
    },
    /// The model can use none of the rows.
    #[error("no row of data.files is left: {reasons}")]
    NothingLeft {
        /// The number of unusable rows and the reasons, as a sentence without its end.
        reasons: String,
    },
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<isentrope_settings::Error> for Error {
    fn from(isentrope_settings::Error { key, value, expected }: isentrope_settings::Error) -> Self {
        Self::Setting { key, value, expected }
    }
}

impl Error {
    pub(crate) fn setting(
        key: &'static str,
        value: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Setting { key: key.to_owned(), value: value.to_string(), expected: expected.into() }
    }

    pub(crate) fn place(place: &str, problem: impl Into<String>) -> Self {
        Self::Location { place: place.to_owned(), problem: problem.into() }
    }

    pub(crate) fn file(path: &Path, problem: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), problem: problem.into() }
    }
}
