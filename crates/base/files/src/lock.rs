//! Locks, which keep other processes out.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::{Error, Result};

/// Lock that excludes other processes until it is dropped. A killed process loses its locks.
#[derive(Debug)]
#[must_use = "the lock ends when this is dropped"]
pub enum Lock {
    /// The locked file.
    Held(File),
    /// The file system has no locks, for this reason, so nothing is excluded.
    Unsupported(io::Error),
}

/// Tries to lock, and the pause between them. [`is_locked`] of another process holds the lock for a
/// moment.
const TRIES: usize = 5;
const MOMENT: Duration = Duration::from_millis(10);

/// Whether another process has locked a directory; `None` if the file system does not say.
pub fn is_locked(dir: &Path) -> Option<bool> {
    match File::open(dir).ok()?.try_lock_shared() {
        Ok(()) => Some(false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    }
}

/// Locks a directory; `None` while another process holds it.
///
/// # Errors
/// [`Error::Io`] when there is no such directory or it cannot be read.
fn try_lock_directory(dir: &Path) -> Result<Option<Lock>> {
    let file = File::open(dir).map_err(Error::at(dir))?;
    Ok(match file.try_lock() {
        Ok(()) => Some(Lock::Held(file)),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => Some(Lock::Unsupported(error)),
    })
}

/// Locks a directory. `doing` describes the process's work in it, for messages.
///
/// # Errors
/// [`Error::Refused`] while another process holds it; [`Error::Io`] where the directory cannot be
/// read.
pub fn lock_directory(dir: &Path, doing: &str) -> Result<Lock> {
    for _ in 1..TRIES {
        if let Some(lock) = try_lock_directory(dir)? {
            return Ok(lock);
        }
        thread::sleep(MOMENT);
    }
    try_lock_directory(dir)?.ok_or_else(|| {
        Error::Refused(format!(
            "another process is {doing} in {}; wait for it or end it",
            dir.display()
        ))
    })
}

/// Locks a file, which is created if missing. If another process holds it, calls `waits` and waits.
pub fn lock_file(path: &Path, waits: impl FnOnce()) -> Result<Lock> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = file.map_err(Error::at(path))?;
    let locked = match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            waits();
            file.lock()
        }
        Err(TryLockError::Error(error)) => Err(error),
        Ok(()) => Ok(()),
    };
    Ok(match locked {
        Ok(()) => Lock::Held(file),
        Err(error) => Lock::Unsupported(error),
    })
}
