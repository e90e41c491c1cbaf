//! Whether ranks see the same directory.

use crate::error::{Error, Result};
use crate::world::World;
use isentrope_files::AtomicFile;
use std::io::{self, ErrorKind};
use std::path::Path;

impl World {
    /// Ranks that do not see a file that rank 0 puts into a directory for a moment; none if rank 0
    /// cannot write there.
    pub fn without_directory(&self, dir: &Path) -> Result<Option<Vec<usize>>> {
        let trace = if self.is_first() { leave_trace(dir).ok() } else { None };
        let name =
            trace.as_ref().and_then(|trace| trace.temporary().file_name()).unwrap_or_default();
        let name = self.broadcast(name.as_encoded_bytes())?;
        let sees = dir.join(String::from_utf8_lossy(&name).as_ref()).is_file();
        let all = self.gather(&[u8::from(sees)])?;
        let blind = (0..all.len()).filter(|&rank| all[rank] != [1]).collect();
        Ok((!name.is_empty()).then_some(blind))
    }

    /// Requires that all ranks see the same directory and can write to it. Messages name it by
    /// `key`, the recipe's key.
    ///
    /// # Errors
    /// Names the first rank that does not, or cannot, on all ranks alike; otherwise as
    /// [`gather`](Self::gather).
    pub fn require_directory(&self, dir: &Path, key: &str) -> Result<()> {
        let blind = self.without_directory(dir)?.unwrap_or_default();
        let shown = dir.display();
        if let Some(&rank) = blind.first() {
            return Err(self.refuse(format!(
                "{} does not see the directory {shown} of {}: {key} must be one that all machines \
                 share",
                self.name(rank),
                self.name(0)
            )));
        }
        let failed = leave_trace(dir).err();
        let is_lasting = failed.as_ref().is_some_and(|error| {
            matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
        });
        let why = failed.map_or(String::new(), |error| format!("{}{error}", u8::from(is_lasting)));
        let causes = self.gather(why.as_bytes())?;
        let Some(rank) = causes.iter().position(|why| !why.is_empty()) else { return Ok(()) };
        let (is_lasting, why) = causes[rank].split_at(1);
        let why = String::from_utf8_lossy(why);
        let told =
            format!("{} cannot write to the directory {shown} of {key}: {why}", self.name(rank));
        // A full disk may have room later, so this refusal is not lasting.
        Err(if is_lasting == b"1" { self.refuse(told) } else { self.conclude(Error::All(told)) })
    }
}

/// A file that other ranks find until it is dropped.
fn leave_trace(dir: &Path) -> io::Result<AtomicFile> {
    AtomicFile::create(&dir.join("trace")).map_err(io::Error::from)
}
