//! A directory that appears whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Error, Result};

/// A directory under a temporary name beside its target. Dropped without [`Self::commit`], it is removed with
/// all that was written into it.
#[derive(Debug)]
pub struct AtomicDirectory {
    target: PathBuf,
    parent: PathBuf,
    staging: TempDir,
}

impl AtomicDirectory {
    /// Starts the directory that is to become `target`, whose parent must exist.
    ///
    /// # Errors
    /// [`Error::Input`] when `target` exists and is not an empty directory, or has no name of its own;
    /// [`Error::Io`] when its parent cannot be written.
    pub fn create(target: &Path) -> Result<Self> {
        let Some(name) = target.file_name() else {
            return Err(Error::Input(format!("{} does not name a new directory", target.display())));
        };
        refuse_occupied(target)?;
        let parent = match target.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let staging = tempfile::Builder::new()
            .prefix(&format!(".{}.", name.to_string_lossy()))
            .tempdir_in(&parent)
            .map_err(|source| Error::io(&parent, source))?;
        Ok(Self { target: target.to_owned(), parent, staging })
    }

    /// Where to write meanwhile.
    pub fn path(&self) -> &Path {
        self.staging.path()
    }

    /// Gives the directory its name. Files in it should have been synchronised by whoever wrote them.
    ///
    /// # Errors
    /// [`Error::Input`] when the target has come to exist meanwhile, [`Error::Io`] when the operating system
    /// refuses.
    pub fn commit(self) -> Result<()> {
        sync_directory(self.staging.path())?;
        refuse_occupied(&self.target)?;
        fs::rename(self.staging.path(), &self.target).map_err(|source| Error::io(&self.target, source))?;
        // Nothing of that name is left for the drop to remove.
        let _moved = self.staging.keep();
        sync_directory(&self.parent)
    }
}

fn refuse_occupied(target: &Path) -> Result<()> {
    let occupied = match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(source) => return Err(Error::io(target, source)),
        Ok(metadata) if metadata.is_dir() => {
            fs::read_dir(target).map_err(|source| Error::io(target, source))?.next().is_some()
        }
        Ok(_) => true,
    };
    if occupied {
        return Err(Error::Input(format!("{} exists; name a new or an empty directory", target.display())));
    }
    Ok(())
}

/// Puts the names in `dir` on disk.
fn sync_directory(dir: &Path) -> Result<()> {
    // Only Unix opens directories, and only there is this needed.
    if cfg!(unix) {
        File::open(dir).and_then(|file| file.sync_all()).map_err(|source| Error::io(dir, source))?;
    }
    Ok(())
}
