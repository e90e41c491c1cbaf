//! Whether ranks see the same directory.

use crate::error::Result;
use crate::world::World;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

impl World {
    /// Ranks that do not find in a directory what rank 0 has put there, for as long as this takes; nothing where it cannot.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn without_directory(&self, dir: &Path) -> Result<Option<Vec<usize>>> {
        let trace = if self.is_first() { Trace::leave(dir) } else { None };
        let name = self.broadcast(trace.as_ref().map_or("", |trace| &trace.name).as_bytes())?;
        let sees = dir.join(String::from_utf8_lossy(&name).as_ref()).is_file();
        let all = self.gather(&[u8::from(sees)])?;
        let blind = (0..all.len()).filter(|&rank| all[rank] != [1]).collect();
        Ok((!name.is_empty()).then_some(blind))
    }

    /// Requires that all ranks see the directory that rank 0 sees, which is to be `key` of the recipe, and can write to it.
    ///
    /// # Errors
    /// Names the first rank that does not, or cannot, on all ranks alike; otherwise as [`gather`](Self::gather).
    pub fn require_directory(&self, dir: &Path, key: &str) -> Result<()> {
        let blind = self.without_directory(dir)?.unwrap_or_default();
        let shown = dir.display();
        if let Some(&rank) = blind.first() {
            return Err(self.refuse(format!(
                "{} does not see the directory {shown} of {}: {key} must be one that all machines share",
                self.name(rank),
                self.name(0)
            )));
        }
        let writes = self.gather(&[u8::from(Trace::leave(dir).is_some())])?;
        let Some(rank) = writes.iter().position(|writes| *writes != [1]) else { return Ok(()) };
        Err(self.refuse(format!(
            "{} cannot write to the directory {shown}: {key} must be one to which all ranks can",
            self.name(rank)
        )))
    }
}

/// A file that a rank leaves for the others to find, until it is dropped.
struct Trace {
    name: String,
    path: PathBuf,
}

impl Trace {
    fn leave(dir: &Path) -> Option<Self> {
        let now =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let name = format!(".isentrope-{}-{now}", std::process::id());
        let path = dir.join(&name);
        // A file of that name would not be ours.
        File::create_new(&path).ok().map(|_| Self { name, path })
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
