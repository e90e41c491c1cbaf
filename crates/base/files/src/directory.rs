//! Directories: creating, listing, and syncing the names in them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The directory that holds `path`; the current one if `path` is a bare name.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

/// Target of the first dangling link on the way to `path`.
pub fn dangling(path: &Path) -> Option<PathBuf> {
    path.ancestors().filter(|above| *above != Path::new("")).find_map(|above| {
        let leads_to = fs::read_link(above).ok()?;
        (!above.exists()).then_some(leads_to)
    })
}

/// Refuses a path with a dangling link, because "no such file" would confuse if the name is
/// visible.
///
/// # Errors
/// [`Error::Io`] of kind [`ErrorKind::NotFound`], with the link's target.
pub fn refuse_dangling(path: &Path) -> Result<()> {
    dangling(path).map_or(Ok(()), |leads_to| {
        let what = format!("leads by a link to {}, which is not there", leads_to.display());
        Err(Error::at(path)(io::Error::new(ErrorKind::NotFound, what)))
    })
}

/// Creates a directory and its ancestors, and syncs the new names.
pub fn make_directory(dir: &Path) -> Result<()> {
    let missing: Vec<&Path> =
        dir.ancestors().take_while(|above| *above != Path::new("") && !above.exists()).collect();
    fs::create_dir_all(dir).map_err(Error::at(dir))?;
    missing.into_iter().try_for_each(|made| sync_directory(parent(made)))
}

/// Syncs the names in `dir`: a file with synced contents can still lose its name. Does nothing if
/// the file system cannot do that.
///
/// # Errors
/// [`Error::Io`] when the directory cannot be read or the disk fails.
pub fn sync_directory(dir: &Path) -> Result<()> {
    let file = File::open(dir).map_err(Error::at(dir))?;
    as_far_as_supported(file.sync_all()).map_err(Error::at(dir))
}

/// Syncs a file that other writes have completed; does nothing if it was removed.
///
/// # Errors
/// [`Error::Io`] when it cannot be opened or the disk fails.
pub fn sync_file(path: &Path) -> Result<()> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        file => file.and_then(|file| file.sync_all()).map_err(Error::at(path)),
    }
}

/// Some network and container file systems cannot sync directories and return one of these errors.
fn as_far_as_supported(synced: io::Result<()>) -> io::Result<()> {
    match synced {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            Ok(())
        }
        synced => synced,
    }
}

/// The names in a directory, in no order; empty if it does not exist.
pub fn names(dir: &Path) -> Result<Vec<OsString>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::at(dir))?,
    };
    entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(Error::at(dir))).collect()
}

/// Removes a file, or a directory with its contents, if it exists.
pub fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::at(path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_cannot_synchronise_directories_is_no_failure_and_a_broken_disk_is() {
        let (invalid, unsupported, broken) = (22, 95, 5); // EINVAL, EOPNOTSUPP, EIO
        let synced = |code| as_far_as_supported(Err(io::Error::from_raw_os_error(code)));
        assert!(synced(invalid).is_ok());
        assert!(!cfg!(target_os = "linux") || synced(unsupported).is_ok());
        assert_eq!(synced(broken).unwrap_err().raw_os_error(), Some(broken));
        let dir = tempfile::tempdir().unwrap();
        sync_directory(dir.path()).unwrap();
        assert!(sync_directory(&dir.path().join("none")).is_err());
    }
}
