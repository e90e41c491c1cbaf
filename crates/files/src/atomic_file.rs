//! A file that appears whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::TempPath;

use crate::directory::{parent, sync_directory};
use crate::{Error, NewFile, Result};

/// A file under a temporary name until [`commit`](Self::commit) gives it its own, in place of a file that has that name.
/// Once it is started, every error names the file's own.
#[derive(Debug)]
pub struct AtomicFile {
    file: NewFile,
    temporary: Temporary,
}

/// The name of a file that is not complete.
#[derive(Debug)]
enum Temporary {
    /// Nobody else's: the file goes unless it becomes complete.
    Unique(TempPath),
    /// Known: a file that does not become complete stays, and the next one of the name begins it anew.
    Named(PathBuf),
}

impl AtomicFile {
    /// Starts the file that is to become `target`, under a name beside it that nobody else uses, of the same ending. Dropped
    /// without [`commit`](Self::commit), it is removed; a kill leaves `.isentrope-*` behind.
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
            .prefix(".isentrope-")
            .suffix(&ending)
            .make_in(parent(target), |path| File::create_new(path)) // with the permissions of any other new file
            .map_err(Error::at(target))?
            .into_parts();
        Ok(Self { file: NewFile::over(file, target), temporary: Temporary::Unique(temporary) })
    }

    /// Starts the file that is to become `target` under the name `temporary`, in the same file system. What has that name is
    /// overwritten: one process at a time may write the file. Without [`commit`](Self::commit) it stays as far as it came,
    /// after a failure as after a kill.
    ///
    /// # Errors
    /// [`Error::Io`] naming the temporary file, when it cannot be made.
    pub fn create_as(target: &Path, temporary: PathBuf) -> Result<Self> {
        let file = File::create(&temporary).map_err(Error::at(&temporary))?;
        Ok(Self { file: NewFile::over(file, target), temporary: Temporary::Named(temporary) })
    }

    /// Where the file is meanwhile.
    pub fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write(bytes)
    }

    /// As [`NewFile::json_line`].
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        self.file.json_line(value)
    }

    /// As [`NewFile::json`].
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        self.file.json(value)
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// [`Error::Io`]; what had the name before is untouched then.
    pub fn commit(self) -> Result<()> {
        let target = self.file.path.clone();
        self.commit_as(&target)
    }

    /// Gives the file another name than the one that it was started for, in the same file system. Errors name this one.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_as(mut self, target: &Path) -> Result<()> {
        target.clone_into(&mut self.file.path);
        self.file.finish()?;
        give_name(self.temporary.path(), target)?;
        if let Temporary::Unique(mut temporary) = self.temporary {
            temporary.disable_cleanup(true); // nothing of that name is left
        }
        Ok(())
    }
}

impl Temporary {
    fn path(&self) -> &Path {
        match self {
            Self::Unique(path) => path,
            Self::Named(path) => path,
        }
    }
}

/// The name that a file has beside its own until it is complete, where the next process is to know what a kill has left.
/// Files of responses are `NAME.jsonl.partial` meanwhile: people look into them while they grow, and see what they hold.
pub fn partial(path: &Path) -> PathBuf {
    path.with_extension("partial")
}

/// Writes a file, as [`partial`] until it is complete.
///
/// # Errors
/// [`Error::Io`]; what had the name before is untouched then.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create_as(path, partial(path))?;
    file.write(bytes)?;
    file.commit()
}

/// Writes a value as indented JSON, as [`write_file`].
///
/// # Errors
/// As [`write_file`].
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut file = AtomicFile::create_as(path, partial(path))?;
    file.json(value)?;
    file.commit()
}

/// Gives a complete file, whose contents need not be on disk yet, the name `target` in the same file system, in place of
/// a file that has it.
///
/// # Errors
/// [`Error::Io`] naming the target, which is untouched then.
pub fn put_in_place(file: &File, path: &Path, target: &Path) -> Result<()> {
    file.sync_all().map_err(Error::at(target))?;
    give_name(path, target)
}

fn give_name(path: &Path, target: &Path) -> Result<()> {
    fs::rename(path, target).map_err(Error::at(target))?;
    // Some file systems cannot. The contents are on disk by now: at worst a crash brings back what had the name before.
    let _ = sync_directory(parent(target));
    Ok(())
}
