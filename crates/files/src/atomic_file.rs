//! A file that appears whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Serialize;
use tempfile::TempPath;

use crate::directory::{names, parent, sync_directory};
use crate::lock::{lock_open, try_lock_file};
use crate::{Error, Lock, NewFile, Result};

/// Checks that files can be made in a directory, or in the nearest above it that is there, by making one.
///
/// # Errors
/// [`Error::Refused`]: that one cannot, where and why, as it follows "and".
pub fn check_writable(dir: &Path) -> Result<()> {
    let mut named = dir.ancestors().map(|above| if above == Path::new("") { Path::new(".") } else { above });
    let Some(existing) = named.find(|above| above.exists()) else { return Ok(()) };
    AtomicFile::create(&existing.join("file")).map(drop).map_err(|error| {
        Error::Refused(format!("one cannot write in {}: {}", existing.display(), io::Error::from(error)))
    })
}

/// What the names of this machine's files begin with that are nobody else's until they are complete. In a directory that
/// machines share, a file of another one that is not locked here may be growing there: locks need not reach so far. The number
/// of the running system tells whose it is; containers share it, as they share the locks, and not the machine's name.
static PREFIX: LazyLock<String> = LazyLock::new(|| {
    // Another one with every start of the machine; other systems do not say.
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!(".isentrope-{}", boot.get(..8).unwrap_or("local"))
});

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
    /// started beside it on the same machine.
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
                .prefix(&*PREFIX)
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
    /// [`Error::Io`]; what had the name before is untouched then. Where only the name cannot be given, the complete file stays,
    /// and the error says under which name.
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
        let named = give_name(self.temporary.path(), target).map_err(|error| {
            let error = io::Error::from(error);
            let what = format!("{error}; what was to have this name is {}", self.temporary.keep().display());
            Error::at(target)(io::Error::new(error.kind(), what))
        });
        if let Temporary::Unique(mut temporary, _lock) = self.temporary {
            temporary.disable_cleanup(true); // nothing of that name is left, or what is left is complete
        }
        named
    }
}

impl Temporary {
    fn path(&self) -> &Path {
        match self {
            Self::Unique(path, _) => path,
            Self::Named(path) => path,
        }
    }

    /// Where the complete file stays: under a name by which it is seen, and not taken for what a kill has left.
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

/// Removes the files in `dir` that killed processes have left. Those of processes that run are locked; where there are no
/// locks, all stay.
fn remove_abandoned(dir: &Path) {
    for name in names(dir).unwrap_or_default() {
        let path = dir.join(&name);
        let is_ours = name.to_string_lossy().starts_with(&*PREFIX)
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
    // No failure: the contents are on disk by now, and the name is given. At worst a crash brings back what had the name before.
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
        let ours = |name: &str| dir.path().join(format!("{}{name}", *PREFIX));
        let others = at(if cfg!(target_os = "linux") { ".isentrope-01234567x.jsonl" } else { ".isentropes" });
        for path in [&ours("dead.jsonl"), &others, &at("mine")] {
            fs::write(path, "x").unwrap();
        }
        fs::create_dir(ours("directory")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(at("mine"), ours("link")).unwrap();
        let file = AtomicFile::create(&at("file.jsonl")).unwrap();
        assert!(!ours("dead.jsonl").exists());
        for path in [others, at("mine"), ours("directory")] {
            assert!(path.exists(), "{}", path.display());
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
