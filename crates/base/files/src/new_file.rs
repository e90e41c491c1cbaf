//! A file that is synced when its writing is done.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::{Error, Result, open_regular};

/// Bytes of weights to buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// A file that is being written. Every error is an [`Error::Io`] that names it.
#[derive(Debug)]
pub struct NewFile {
    /// Path that errors name.
    pub(crate) path: PathBuf,
    writer: BufWriter<File>,
}

impl NewFile {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    /// [`Error::Io`] when it exists or cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create_new(path).map_err(Error::at(path))?;
        Ok(Self { path: path.to_owned(), writer: BufWriter::with_capacity(BUFFER_BYTES, file) })
    }

    /// Writes to an open file, with errors that name `path`. The buffer is small, so that readers
    /// see new lines soon.
    pub(crate) fn over(file: File, path: &Path) -> Self {
        Self { path: path.to_owned(), writer: BufWriter::new(file) }
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).map_err(Error::at(&self.path))
    }

    /// Appends the contents of a regular file, however large.
    ///
    /// # Errors
    /// [`Error::Io`] naming `from` where it cannot be opened, else this file.
    pub fn copy(&mut self, from: &Path) -> Result<()> {
        io::copy(&mut open_regular(from)?, &mut self.writer)
            .map(drop)
            .map_err(Error::at(&self.path))
    }

    /// Appends a value as a line of JSON, without spaces.
    pub fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut self.writer, value).map_err(Error::at(&self.path))?;
        self.write(b"\n")
    }

    /// Appends a value as JSON indented by two spaces, with a line's end.
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer_pretty(&mut self.writer, value).map_err(Error::at(&self.path))?;
        self.write(b"\n")
    }

    /// Syncs the contents.
    pub fn finish(self) -> Result<()> {
        let path = self.path.clone();
        self.finish_unsynced()?.sync_all().map_err(Error::at(&path))
    }

    /// Hands the contents to the operating system, which writes them to the disk in its own time.
    pub(crate) fn finish_unsynced(self) -> Result<File> {
        let Self { path, writer } = self;
        writer.into_inner().map_err(|error| Error::at(&path)(error.into_error()))
    }
}
