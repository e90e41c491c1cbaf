//! A directory that appears whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::directory::{parent, sync_directory};
use crate::{Error, Result};

/// A directory under a temporary name beside its target. Dropped without [`Self::commit`], it is
/// removed with its contents; a killed process leaves `.NAME.*` behind.
#[derive(Debug)]
pub struct AtomicDirectory {
    target: PathBuf,
    staging: TempDir,
}

impl AtomicDirectory {
    /// Starts the directory that will become `target`, whose parent must exist.
    ///
    /// # Errors
    /// [`Error::Refused`] when `target` exists and is not an empty directory, or has no name;
    /// [`Error::Io`] when its parent cannot be written.
    pub fn create(target: &Path) -> Result<Self> {
        refuse_occupied(target)?;
        Self::beside(target)
    }

    /// As [`create`](Self::create), for a `target` that may exist until [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`Error::Refused`] when `target` has no name, [`Error::Io`] when its parent refuses.
    pub fn beside(target: &Path) -> Result<Self> {
        let Some(name) = target.file_name() else {
            return Err(Error::Refused(format!(
                "{} does not name a new directory",
                target.display()
            )));
        };
        let parent = parent(target);
        let staging = tempfile::Builder::new()
            .prefix(&format!(".{}.", name.to_string_lossy()))
            .tempdir_in(parent)
            .map_err(Error::at(parent))?;
        Ok(Self { target: target.to_owned(), staging })
    }

    /// Path to write into until then.
    pub fn path(&self) -> &Path {
        self.staging.path()
    }

    /// Syncs the names of all files below the directory. The writers must have synced the files'
    /// contents.
    ///
    /// # Errors
    /// [`Error::Io`] when the operating system refuses.
    pub fn sync(&self) -> Result<()> {
        let all = directories(self.staging.path())?;
        all.iter().try_for_each(|directory| sync_directory(directory))
    }

    /// [`sync`](Self::sync)s the directory and gives it its name.
    ///
    /// # Errors
    /// [`Error::Refused`] when the target exists by now, [`Error::Io`] when the operating system
    /// refuses.
    pub fn commit(self) -> Result<()> {
        self.sync()?;
        refuse_occupied(&self.target)?;
        fs::rename(self.staging.path(), &self.target).map_err(Error::at(&self.target))?;
        // The temporary name is gone, so there is nothing to remove on drop.
        let _moved = self.staging.keep();
        sync_directory(parent(&self.target))
    }
}

fn refuse_occupied(target: &Path) -> Result<()> {
    let occupied = match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(Error::at(target)(error)),
        Ok(metadata) if metadata.is_dir() => {
            fs::read_dir(target).map_err(Error::at(target))?.next().is_some()
        }
        Ok(_) => true,
    };
    if occupied {
        return Err(Error::Refused(format!(
            "{} exists; name a new or an empty directory",
            target.display()
        )));
    }
    Ok(())
}

/// `dir` and every directory below it, children first.
fn directories(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::at(dir))? {
        let entry = entry.map_err(Error::at(dir))?;
        if entry.file_type().map_err(Error::at(&entry.path()))?.is_dir() {
            all.extend(directories(&entry.path())?);
        }
    }
    all.push(dir.to_owned());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_below_is_found_before_the_one_that_holds_it() {
        let parent = tempfile::tempdir().unwrap();
        let staged = AtomicDirectory::create(&parent.path().join("step")).unwrap();
        let root = staged.path().to_owned();
        for below in ["trainer/moments", "trainer/weights"] {
            fs::create_dir_all(root.join(below)).unwrap();
        }
        fs::write(root.join("trainer/state.json"), "{}").unwrap();
        let found = directories(&root).unwrap();
        let place = |name: &str| found.iter().position(|dir| *dir == root.join(name)).unwrap();
        assert_eq!((found.len(), place("trainer")), (4, 2));
        assert!(place("trainer/moments") < 2 && place("trainer/weights") < 2);
        assert_eq!(found.last(), Some(&root));
    }
}
