//! A directory of TensorBoard's event files: one run, which has a file more for each time that it
//! was started.

use super::event_file::{self, Event};
use super::points::Points;
use super::run_directory;
use crate::Result;
use isentrope_files::{names, parent};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A mark in the names of event files.
pub(super) const MARK: &str = "tfevents";
/// How deep below a directory its event files are looked for, as `tensorboard --logdir` does
/// without end.
const MAX_DEPTH: usize = 4;
/// Most directories that are looked into.
const MAX_DIRECTORIES: usize = 10_000;

/// The event files at a directory and below it.
#[derive(Default)]
pub(super) struct Found {
    /// The event files of each run, by its directory.
    pub(super) runs: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// A note on directories that were not looked into.
    pub(super) note: Option<String>,
    directories: usize,
}

/// Looks for event files. It does not look below a directory with event files, where their writer
/// puts other things, such as hyperparameters.
///
/// # Errors
/// When a directory cannot be read.
pub(super) fn find(dir: &Path) -> Result<Found> {
    let mut found = Found::default();
    found.look(dir, 0)?;
    found.join_starts();
    Ok(found)
}

impl Found {
    fn look(&mut self, dir: &Path, depth: usize) -> Result<()> {
        let limit = match () {
            () if depth > MAX_DEPTH => {
                Some(format!("directories more than {MAX_DEPTH} levels below it"))
            }
            () if self.directories == MAX_DIRECTORIES => {
                Some(format!("directories after the first {MAX_DIRECTORIES}"))
            }
            () => None,
        };
        if let Some(limit) = limit {
            self.note.get_or_insert_with(|| {
                format!(
                    "{limit} were not looked into for event files, such as {}: give a path nearer \
                     to the runs",
                    dir.display()
                )
            });
            return Ok(());
        }
        self.directories += 1;
        let mut names = names(dir)?;
        names.sort();
        let is_events = |name: &&std::ffi::OsString| {
            name.to_string_lossy().contains(MARK) && dir.join(name).is_file()
        };
        let files: Vec<PathBuf> =
            names.iter().filter(is_events).map(|name| dir.join(name)).collect();
        if !files.is_empty() {
            self.runs.insert(dir.to_owned(), in_order(files));
            return Ok(());
        }
        for name in &names {
            // Checkpoints of a run of this program are many and deep, and have no event files.
            if name == "checkpoints" && run_directory::is_one(dir) {
                continue;
            }
            let below = dir.join(name);
            if below.is_dir() && !below.is_symlink() {
                self.look(&below, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Hugging Face's Trainer makes a directory with the date at each start of a run; sister
    /// directories are one run.
    fn join_starts(&mut self) {
        let mut starts: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
        for dir in self.runs.keys().filter(|dir| is_start_of_trainer(dir)) {
            starts.entry(parent(dir).to_owned()).or_default().push(dir.clone());
        }
        for (above, starts) in starts.into_iter().filter(|(_, starts)| starts.len() > 1) {
            let files = starts.iter().filter_map(|dir| self.runs.remove(dir)).flatten().collect();
            self.runs.insert(above, in_order(files));
        }
    }
}

/// Whether a directory is called like `Nov22_15-30-06_host`.
pub(super) fn is_start_of_trainer(dir: &Path) -> bool {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let shape: String =
        name.chars().skip(3).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape.starts_with("00_00-00-00_")
}

/// In the order in which they were begun: their names go on with the time.
fn in_order(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    files.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    files
}

/// Reads event files of one run in their order, and returns notes.
///
/// # Errors
/// When one cannot be read; malformed records are named by file and record.
pub(super) fn read(files: &[PathBuf], points: &mut Points) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for path in files {
        notes.extend(event_file::each_event(path, &mut |event| match event {
            Event::Start { step } => points.forget_from(step),
            Event::Scalar { step, tag, value } => points.add(tag, step, value),
        })?);
    }
    Ok(notes)
}
