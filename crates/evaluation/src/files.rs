//! Directories that one process writes to, and files that appear whole or not at all.

use crate::error::{Error, Result};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Names in a directory; none where it is not there.
pub fn names(dir: &Path) -> Result<Vec<OsString>> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| Error::io(dir, e))?,
    };
    entries.map(|entry| entry.map(|e| e.file_name()).map_err(|e| Error::io(dir, e))).collect()
}

/// Keeps other processes out of a directory for as long as the file lives, on systems where directories can be locked. The
/// lock of a process that was killed is gone. `doing` is what the process does in it.
pub fn lock(dir: &Path, doing: &str) -> Result<Option<File>> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let file = File::open(dir).map_err(|e| Error::io(dir, e))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let what = format!("another process is {doing} in {}; wait for it or end it", dir.display());
            Err(Error::Refused(what))
        }
        // A file system without locks: as before there were any.
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// The name of a file that is not complete.
pub fn partial(path: &Path) -> PathBuf {
    path.with_extension("partial")
}

/// Writes a value, indented, as a whole or not at all.
pub fn write_json(path: &Path, value: &Value) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|e| Error::io(path, e.into()))?;
    text.push(b'\n');
    write_atomically(path, &text)
}

/// Writes a file as a whole or not at all.
///
/// # Errors
/// [`Error::Io`].
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = partial(path);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|e| Error::io(path, e))
}
