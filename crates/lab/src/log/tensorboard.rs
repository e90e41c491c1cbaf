//! A directory of TensorBoard's event files: one run, which has a file more for each time that it was started.

use super::event_file::{self, Event};
use super::points::Points;
use crate::Result;
use isentrope_files::names;
use std::path::{Path, PathBuf};

/// What is in the names of event files.
pub(super) const MARK: &str = "tfevents";
/// How deep below a directory its event files are looked for, as `tensorboard --logdir` does without end.
const MAX_DEPTH: usize = 4;
/// Most directories that are looked into.
const MAX_DIRECTORIES: usize = 10_000;

/// The event files of each run at a directory and below it. Directories below one that has event files hold what the writer
/// of its files has put there, such as hyperparameters.
///
/// # Errors
/// When a directory cannot be read.
pub(super) fn find(dir: &Path) -> Result<Vec<(PathBuf, Vec<PathBuf>)>> {
    let mut runs = Vec::new();
    look(dir, 0, &mut 0, &mut runs)?;
    // The Trainer of Hugging Face makes a directory of the date for each start of a run.
    if runs.len() > 1 && runs.iter().all(|(dir, _)| is_start_of_trainer(dir)) {
        let files = runs.into_iter().flat_map(|(_, files)| files).collect();
        return Ok(vec![(dir.to_owned(), in_order(files))]);
    }
    Ok(runs)
}

fn look(dir: &Path, depth: usize, seen: &mut usize, runs: &mut Vec<(PathBuf, Vec<PathBuf>)>) -> Result<()> {
    *seen += 1;
    if depth > MAX_DEPTH || *seen > MAX_DIRECTORIES {
        return Ok(());
    }
    let mut names = names(dir)?;
    names.sort();
    let is_events =
        |name: &&std::ffi::OsString| name.to_string_lossy().contains(MARK) && dir.join(name).is_file();
    let files: Vec<PathBuf> = names.iter().filter(is_events).map(|name| dir.join(name)).collect();
    if !files.is_empty() {
        runs.push((dir.to_owned(), in_order(files)));
        return Ok(());
    }
    for below in names.iter().map(|name| dir.join(name)) {
        if below.is_dir() && !below.is_symlink() {
            look(&below, depth + 1, seen, runs)?;
        }
    }
    Ok(())
}

/// Whether a directory is called like `Nov22_15-30-06_host`.
pub(super) fn is_start_of_trainer(dir: &Path) -> bool {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let shape: String = name.chars().skip(3).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
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
            Event::Start { step } => {
                points.forget_from(step);
                Ok(())
            }
            Event::Scalar { step, tag, value } => points.add(tag, step, value),
        })?);
    }
    Ok(notes)
}
