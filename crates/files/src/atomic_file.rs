//! A file that appears whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::TempPath;

use crate::directory::{names, parent, sync_directory};
use crate::lock::{lock_open, try_lock_file};
use crate::{Error, Lock, NewFile, Result};

/// What the names of files begin with that are nobody else's until they are complete.
const PREFIX: &str = ".isentrope-";

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
    /// Nobody else's: the file goes unless it becomes complete. It is locked for as long as that is open, which tells others
    /// from what a kill has left.
    Unique(TempPath, Lock),
    /// Known: a file that does not become complete stays, and the next one of the name begins it anew.
    Named(PathBuf),
}

impl AtomicFile {
    /// Starts the file that is to become `target`, under a name beside it that nobody else uses, of the same ending. Dropped
    /// without [`commit`](Self::commit), it is removed; a kill leaves `.isentrope-*` behind, which goes when the next file is
    /// started beside it.
    ///
    /// # Errors
    /// [`Error::Io`] naming the target, when its directory cannot be written to.
    pub fn create(target: &Path) -> Result<Self> {
        let mut ending = OsString::new();
        if let Some(extension) = target.extension() {
            ending.push(".");
            ending.push(extension);
        }
        remove_abandoned(parent(target));
        loop {
            let (file, temporary) = tempfile::Builder::new()
                .prefix(PREFIX)
                .suffix(&ending)
                .make_in(parent(target), |path| File::create_new(path)) // with the permissions of any other new file
                .map_err(Error::at(target))?
                .into_parts();
            // Another process may have found it before it was locked, and have removed it.
            let lock = lock_open(file.try_clone().map_err(Error::at(target))?);
            if temporary.exists() {
                return Ok(Self {
                    file: NewFile::over(file, target),
                    temporary: Temporary::Unique(temporary, lock),
                });
            }
        }
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
        if let Temporary::Unique(mut temporary, _lock) = self.temporary {
            temporary.disable_cleanup(true); // nothing of that name is left
        }
        Ok(())
    }
}

impl Temporary {
    fn path(&self) -> &Path {
        match self {
            Self::Unique(path, _) => path,
            Self::Named(path) => path,
        }
    }
}

/// Removes the files in `dir` that killed processes have left. Those of processes that run are locked; where there are no
/// locks, all stay.
fn remove_abandoned(dir: &Path) {
    for name in names(dir).unwrap_or_default() {
        let path = dir.join(&name);
        let is_ours = name.to_string_lossy().starts_with(PREFIX)
            && fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
        if is_ours && let Some(_lock) = try_lock_file(&path) {
            let _ = fs::remove_file(&path); // it may be somebody else's
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_has_left_goes_and_what_others_write_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mut other = AtomicFile::create(&at("other.jsonl")).unwrap();
        for name in [".isentrope-dead.jsonl", ".isentropes", "mine"] {
            fs::write(at(name), "x").unwrap();
        }
        fs::create_dir(at(".isentrope-directory")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(at("mine"), at(".isentrope-link")).unwrap();
        let file = AtomicFile::create(&at("file.jsonl")).unwrap();
        assert!(!at(".isentrope-dead.jsonl").exists());
        for name in [".isentropes", "mine", ".isentrope-directory"] {
            assert!(at(name).exists(), "{name}");
        }
        assert!(other.temporary().exists());
        other.write(b"whole").unwrap();
        file.commit().unwrap();
        other.commit().unwrap();
        assert_eq!(fs::read(at("other.jsonl")).unwrap(), b"whole");
        AtomicFile::create(&at("third")).unwrap();
        assert!(at("file.jsonl").exists() && at("other.jsonl").exists());
    }
}
