//! A file that appears whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::TempPath;

use crate::directory::{parent, sync_directory};
use crate::{Error, NewFile, Result};

/// Checks that files can be created in a directory, or in its nearest existing ancestor, by
/// creating one.
///
/// # Errors
/// [`Error::Refused`], as a clause that follows "and": place and reason.
pub fn check_writable(dir: &Path) -> Result<()> {
    let mut named =
        dir.ancestors().map(|above| if above == Path::new("") { Path::new(".") } else { above });
    let Some(existing) = named.find(|above| above.exists()) else { return Ok(()) };
    AtomicFile::create(&existing.join("file")).map(drop).map_err(|error| {
        Error::Refused(format!(
            "one cannot write in {}: {}",
            existing.display(),
            io::Error::from(error)
        ))
    })
}

/// Prefix of unique temporary names.
const PREFIX: &str = ".isentrope-";

/// A file under a temporary name until [`commit`](Self::commit) renames it, over an existing file
/// if there is one. Errors name the final path.
#[derive(Debug)]
pub struct AtomicFile {
    file: NewFile,
    temporary: Temporary,
}

/// Name of an incomplete file.
#[derive(Debug)]
enum Temporary {
    /// A unique name. The file is removed unless it becomes complete.
    Unique(TempPath),
    /// A fixed name. An incomplete file stays, and the next file of the name replaces it.
    Named(PathBuf),
}

impl AtomicFile {
    /// Starts the file that will become `target`, under a unique name beside it with the same
    /// extension. Dropped without [`commit`](Self::commit), it is removed; a killed process leaves
    /// `.isentrope-*` behind.
    ///
    /// # Errors
    /// [`Error::Io`] naming the target, when its directory cannot be written to.
    pub fn create(target: &Path) -> Result<Self> {
        let mut ending = OsString::new();
        if let Some(extension) = target.extension() {
            ending.push(".");
            ending.push(extension);
        }
        let (file, temporary) = tempfile::Builder::new()
            .prefix(PREFIX)
            .suffix(&ending)
            // The file gets the permissions of any other new file.
            .make_in(parent(target), |path| File::create_new(path))
            .map_err(Error::at(target))?
            .into_parts();
        Ok(Self { file: NewFile::over(file, target), temporary: Temporary::Unique(temporary) })
    }

    /// Starts the file that will become `target` under the name `temporary`, in the same file
    /// system, and overwrites a file of that name: only one process at a time may write it. Without
    /// [`commit`](Self::commit) the incomplete file stays.
    ///
    /// # Errors
    /// [`Error::Io`] naming the temporary file, when it cannot be created.
    pub fn create_as(target: &Path, temporary: PathBuf) -> Result<Self> {
        let file = File::create(&temporary).map_err(Error::at(&temporary))?;
        Ok(Self { file: NewFile::over(file, target), temporary: Temporary::Named(temporary) })
    }

    /// The temporary path.
    pub fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write(bytes)
    }

    /// Appends a value as a line of JSON ([`NewFile::json_line`]).
    pub fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        self.file.json_line(value)
    }

    /// Appends a value as indented JSON ([`NewFile::json`]).
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        self.file.json(value)
    }

    /// Renames the complete file to its final name.
    ///
    /// # Errors
    /// [`Error::Io`]; an older file of the name is then untouched. If only the renaming fails, the
    /// complete file stays under a name that the error tells.
    pub fn commit(self) -> Result<()> {
        let target = self.file.path.clone();
        self.commit_as(&target)
    }

    /// Renames the complete file to another name in the same file system. Errors have that name.
    pub fn commit_as(mut self, target: &Path) -> Result<()> {
        target.clone_into(&mut self.file.path);
        self.file.finish()?;
        self.temporary.become_complete(target)?;
        // This failure does no harm: contents and name are right. At worst a crash brings back the
        // older file.
        let _ = sync_directory(parent(target));
        Ok(())
    }

    /// Renames the complete file to its final name without syncing it, so without waiting for the
    /// disk: until the file and its directory are synced, a power cut may leave it empty.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_unsynced(self) -> Result<()> {
        let target = self.file.path.clone();
        self.file.finish_unsynced()?;
        self.temporary.become_complete(&target)
    }
}

impl Temporary {
    fn path(&self) -> &Path {
        match self {
            Self::Unique(path) => path,
            Self::Named(path) => path,
        }
    }

    /// Renames the complete file to `target`.
    fn become_complete(mut self, target: &Path) -> Result<()> {
        let named = fs::rename(self.path(), target).map_err(|error| {
            let what = format!("{error}; what was to have this name is {}", self.keep().display());
            Error::at(target)(io::Error::new(error.kind(), what))
        });
        if let Self::Unique(temporary) = &mut self {
            temporary.disable_cleanup(true); // if a file of that name is left, it is complete
        }
        named
    }

    /// Keeps the complete file under a visible name.
    fn keep(&self) -> PathBuf {
        let path = self.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let seen = path.with_file_name(name.trim_start_matches('.'));
        match self {
            Self::Unique(..) if fs::rename(path, &seen).is_ok() => seen,
            _ => path.to_owned(),
        }
    }
}

/// Temporary name of a file that a later process or a person should find: files of responses are
/// `NAME.jsonl.partial` while they grow.
pub fn partial(path: &Path) -> PathBuf {
    path.with_extension("partial")
}

/// Writes a file, which is called [`partial`] until it is complete.
///
/// # Errors
/// [`Error::Io`]; an older file of the name is then untouched.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create_as(path, partial(path))?;
    file.write(bytes)?;
    file.commit()
}

/// Writes a value as indented JSON by [`write_file`].
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut file = AtomicFile::create_as(path, partial(path))?;
    file.json(value)?;
    file.commit()
}

/// Syncs a complete file and renames it to `target`, in the same file system, over an existing
/// file.
///
/// # Errors
/// [`Error::Io`] naming the target, which is then untouched.
pub fn put_in_place(file: &File, path: &Path, target: &Path) -> Result<()> {
    file.sync_all().map_err(Error::at(target))?;
    fs::rename(path, target).map_err(Error::at(target))?;
    let _ = sync_directory(parent(target)); // as in `commit_as`
    Ok(())
}
