//! Writing a file that is on disk when the writing is done.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// A file being written. Every error names it.
pub(super) struct NewFile {
    path: PathBuf,
    writer: BufWriter<File>,
}

impl NewFile {
    /// Creates the file, which must not exist.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create_new(path).map_err(|source| Error::io(path, source))?;
        Ok(Self { path: path.to_owned(), writer: BufWriter::with_capacity(1 << 20, file) })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).map_err(|source| Error::io(&self.path, source))
    }

    /// Returns once the content is on disk.
    pub fn finish(mut self) -> Result<()> {
        self.writer
            .flush()
            .and_then(|()| self.writer.get_ref().sync_all())
            .map_err(|source| Error::io(&self.path, source))
    }
}
