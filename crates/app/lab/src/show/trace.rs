//! Whether a log has grown since it was read.

use crate::log::open::MAX_DEPTH;
use crate::run_files::{EVALUATIONS, ROLLOUTS, TOKENS};
use isentrope_files::is_locked;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Deepest level of a directory that is searched, and most files.
const DEPTH: usize = MAX_DEPTH + 1; // the files of the deepest runs
const MOST: usize = 2000;
/// A run's directories with many files, which are not searched: a new file changes the directory's
/// own time.
const PASSED_OVER: [&str; 4] = ["checkpoints", ROLLOUTS, EVALUATIONS, TOKENS];

/// The parts of a log that change as it grows: lengths and times of files, and whether a process
/// trains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    files: Vec<(u64, Option<SystemTime>)>,
    /// Whether each searched directory is locked: runs below one end apart.
    locks: Vec<Option<bool>>,
}

impl Trace {
    /// The trace of a file, or of a directory with its contents.
    pub fn of(path: &Path) -> Self {
        let mut trace = Self::default();
        trace.add(path, DEPTH);
        trace
    }

    fn add(&mut self, path: &Path, depth: usize) {
        let Ok(metadata) = fs::metadata(path) else { return };
        self.files.push((metadata.len(), metadata.modified().ok()));
        let is_passed_over = PASSED_OVER.iter().any(|name| path.ends_with(name));
        if depth == 0 || !metadata.is_dir() || is_passed_over {
            return;
        }
        self.locks.push(is_locked(path));
        let mut entries: Vec<_> =
            fs::read_dir(path).into_iter().flatten().flatten().map(|e| e.path()).collect();
        entries.sort();
        for entry in entries {
            if self.files.len() >= MOST {
                return;
            }
            self.add(&entry, depth - 1);
        }
    }
}
