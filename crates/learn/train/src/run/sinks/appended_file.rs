//! A file that a run appends to until it ends.

use crate::error::{Error, Result};
use isentrope_files::remove;
use std::fs::{self, File, Metadata};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An open file and its path. If someone removes or replaces the file at the path, the open file
/// still has all bytes.
#[derive(Debug)]
pub(super) struct AppendedFile {
    path: PathBuf,
    file: File,
}

impl AppendedFile {
    /// Creates a file, which must not exist.
    pub fn create(path: PathBuf) -> Result<Self> {
        let created = File::options().read(true).append(true).create_new(true).open(&path);
        let file = created.map_err(|e| Error::io(&path, e))?;
        Ok(Self { path, file })
    }

    /// Opens a file for appending, or creates it.
    pub fn open(path: PathBuf) -> Result<Self> {
        let opened = File::options().read(true).append(true).create(true).open(&path);
        let file = opened.map_err(|e| Error::io(&path, e))?;
        Ok(Self { path, file })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Appends bytes; they are with the operating system when this returns.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| Error::io(&self.path, e))
    }

    /// Waits until all bytes are on the disk.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io(&self.path, e))
    }

    /// Puts the file back if it was removed or replaced. Returns its path if so.
    pub fn restore(&mut self) -> Result<Option<&Path>> {
        let io = |e| Error::io(&self.path, e);
        let own = self.file.metadata().map_err(io)?;
        if fs::metadata(&self.path).is_ok_and(|found| is_same(&own, &found)) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0)).map_err(io)?;
        self.file.read_to_end(&mut bytes).map_err(io)?;
        remove(&self.path)?;
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir).map_err(|e| Error::io(dir, e))?;
        }
        *self = Self::create(std::mem::take(&mut self.path))?;
        self.append(&bytes)?;
        Ok(Some(&self.path))
    }
}

#[cfg(unix)]
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// On other systems an open file cannot be removed or replaced.
#[cfg(not(unix))]
fn is_same(_: &Metadata, found: &Metadata) -> bool {
    found.is_file()
}
