//! Hashes of data files, to find out later whether they changed.

use std::path::{Path, PathBuf};

use isentrope_files::sha256_of_file;

use crate::{Error, Result};

/// A data file and the hash of its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHash {
    /// The file.
    pub path: PathBuf,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

impl FileHash {
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let failed = |error: isentrope_files::Error| Error::Io {
            path: path.to_owned(),
            source: error.into(),
        };
        let sha256 = sha256_of_file(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), sha256 })
    }
}
