//! The hub's cache on disk, in the layout of the [crate's page](crate).

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{process, thread};

use isentrope_files::{AtomicFile, Lock, lock_file};

use crate::id::{RepoId, is_commit, is_plain_path};
use crate::{Error, Progress, Result};

/// One repository's part of the cache. Callers have checked the names and etags they pass.
pub(crate) struct RepoCache {
    root: PathBuf,
    locks: PathBuf,
}

impl RepoCache {
    /// The repository's part of `cache`. Creates nothing.
    pub fn new(cache: &Path, id: &RepoId) -> Self {
        let folder = format!("{}--{}", id.kind.plural(), id.repo.replace('/', "--"));
        Self { root: cache.join(&folder), locks: cache.join(".locks").join(&folder) }
    }

    /// The repository's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Directory of a commit's files.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.root.join("snapshots").join(commit)
    }

    /// Whether the cache has the commit's file with its contents.
    pub fn has(&self, commit: &str, name: &str) -> bool {
        self.snapshot(commit).join(name).exists()
    }

    /// Path of the complete contents with this etag.
    pub fn blob(&self, etag: &str) -> PathBuf {
        self.root.join("blobs").join(etag)
    }

    /// Path of the incomplete contents with this etag.
    pub fn partial(&self, etag: &str) -> PathBuf {
        self.root.join("blobs").join(format!("{etag}.incomplete"))
    }

    /// Takes the lock that `huggingface_hub` takes to write the contents with this etag.
    pub fn lock(&self, etag: &str, progress: &dyn Progress) -> Result<Lock> {
        create_dir(&self.locks)?;
        create_dir(&self.root.join("blobs"))?;
        let path = self.locks.join(format!("{etag}.lock"));
        let lock = lock_file(&path, || {
            progress.warn(&format!("waiting for another download to release {}", path.display()));
        })?;
        if let Lock::Unsupported(error) = &lock {
            // Checksums still keep two writers from leaving a wrong file.
            progress.warn(&format!("going on without a lock: {}: {error}", path.display()));
        }
        Ok(lock)
    }

    /// Makes the contents with this etag the commit's file `name`.
    pub fn link(&self, commit: &str, name: &str, etag: &str) -> Result<()> {
        let path = self.snapshot(commit).join(name);
        create_dir(path.parent().unwrap_or(&self.root))?;
        let up = "../".repeat(2 + name.matches('/').count());
        let target = PathBuf::from(format!("{up}blobs/{etag}"));
        match symlink(&target, &path) {
            // Another run may have made the same link and be reading through it.
            Err(_) if fs::read_link(&path).is_ok_and(|present| present == target) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&path).and_then(|()| symlink(&target, &path))
            }
            result => result,
        }
        .map_err(|error| Error::io(&path, error))
    }

    /// Records the names of all files of the commit.
    pub fn record_names(&self, commit: &str, names: &[String]) -> Result<()> {
        if self.names(commit).as_deref() == Some(names) {
            return Ok(());
        }
        let path = self.listing(commit);
        create_dir(path.parent().unwrap_or(&self.root))?;
        let mut file = AtomicFile::create(&path)?;
        // No name has a line break in it.
        file.write(names.join("\n").as_bytes())?;
        Ok(file.commit()?)
    }

    /// The names of all files of the commit, if recorded.
    pub fn names(&self, commit: &str) -> Option<Vec<String>> {
        let text = fs::read_to_string(self.listing(commit)).ok()?;
        let names: Vec<String> = text.lines().map(str::to_owned).collect();
        Some(names).filter(|names| names.iter().all(|name| is_plain_path(name)))
    }

    fn listing(&self, commit: &str) -> PathBuf {
        self.root.join(".files").join(commit)
    }

    /// The names of the commit's files that the cache has, sorted.
    pub fn cached_names(&self, commit: &str) -> Result<Vec<String>> {
        let snapshot = self.snapshot(commit);
        let mut names = Vec::new();
        if snapshot.is_dir() {
            list(&snapshot, "", &mut names)?;
        }
        names.sort();
        Ok(names)
    }

    /// Records the commit that `revision` stands for.
    pub fn record_commit(&self, revision: &str, commit: &str) -> Result<()> {
        if self.commit(revision)?.as_deref() == Some(commit) {
            return Ok(());
        }
        let path = self.root.join("refs").join(revision);
        create_dir(path.parent().unwrap_or(&self.root))?;
        // Readers take every file under refs/ for a revision, so the temporary name lies outside.
        let writer = format!("{}-{:?}", process::id(), thread::current().id());
        let new = self.root.join(format!(".ref-{commit}-{writer}"));
        let mut file = AtomicFile::create_as(&path, new)?;
        file.write(commit.as_bytes())?;
        Ok(file.commit()?)
    }

    /// The commit that `revision` stood for when last looked up.
    pub fn commit(&self, revision: &str) -> Result<Option<String>> {
        if is_commit(revision) {
            return Ok(Some(revision.to_owned()));
        }
        let path = self.root.join("refs").join(revision);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned()).filter(|commit| is_commit(commit))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(&path, error)),
        }
    }
}

/// Appends the names of all files below `dir` that have contents.
fn list(dir: &Path, above: &str, names: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(|error| Error::io(dir, error))? {
        let entry = entry.map_err(|error| Error::io(dir, error))?;
        let path = entry.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = format!("{above}{name}");
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&path, &format!("{name}/"), names)?;
        } else if path.exists() {
            names.push(name);
        }
    }
    Ok(())
}

fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io(path, error))
}
