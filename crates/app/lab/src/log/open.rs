//! Finds the logs at a path.

use super::points::Points;
use super::{RunLog, csv_table, event_file, json_lines, json_rows, lines, names, run_directory};
use crate::run_files::METRICS;
use crate::{Error, Result};
use isentrope_files::open_regular;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a file that are read to find its form.
const START: u64 = 64 << 10;
/// Most `.jsonl` files of a directory, each a run.
const MAX_FILES: usize = 1000;
/// Deepest level below a directory at which runs are searched: a sweep has a level for each axis.
pub(crate) const MAX_DEPTH: usize = 6;
/// Most directories that are looked into.
const MAX_DIRECTORIES: usize = 10_000;
/// A mark in the names of TensorBoard's event files.
const EVENTS: &str = "tfevents";

/// The logs at a path, in the order of their names.
///
/// # Errors
/// As [`RunLog::open`].
pub(super) fn open_all(path: &Path) -> Result<Vec<RunLog>> {
    if !path.exists() && !path.is_symlink() {
        return Err(Error::Refused(format!(
            "{}: there is no such file or directory; name a run's directory or a log",
            path.display()
        )));
    }
    if path.is_dir() { of_directory(path) } else { Ok(vec![of_file(path)?]) }
}

fn of_directory(path: &Path) -> Result<Vec<RunLog>> {
    if run_directory::is_one(path) {
        return Ok(vec![run_directory::read(path)?]);
    }
    if let Some(state) = json_rows::find(path)? {
        let mut points = Points::default();
        json_rows::read(&state, &mut points)?;
        return Ok(vec![log(path, points, None)]);
    }
    let files = entries(path)?;
    let events: Vec<&PathBuf> = files.iter().filter(|path| is_event_file(path)).collect();
    if !events.is_empty() {
        return Ok(vec![of_events(path, &events)?]);
    }
    let is_lines = |path: &&PathBuf| path.extension().is_some_and(|end| end == "jsonl");
    let lines: Vec<&PathBuf> =
        files.iter().filter(is_lines).filter(|path| path.is_file()).collect();
    if lines.len() > MAX_FILES {
        let count = lines.len();
        let what = format!(
            "has {count} files .jsonl, and a run for each of at most {MAX_FILES} is read: give one"
        );
        return Err(Error::invalid(path, what));
    }
    if !lines.is_empty() {
        return lines.into_iter().map(|path| of_lines(path)).collect();
    }
    let runs = run_directories(path)?;
    if runs.is_empty() {
        return Err(unknown(path));
    }
    runs.iter().map(|path| run_directory::read(path)).collect()
}

/// The entries of a directory, by name.
fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut names = isentrope_files::names(dir)?;
    names.sort();
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

/// The run directories of this program below a directory, in the order of their names.
fn run_directories(above: &Path) -> Result<Vec<PathBuf>> {
    let (mut runs, mut seen) = (Vec::new(), 0);
    // The last comes next.
    let mut pending = vec![(above.to_owned(), 0)];
    while let Some((dir, depth)) = pending.pop() {
        seen += 1;
        if seen > MAX_DIRECTORIES {
            let what = format!("has more than {MAX_DIRECTORIES} directories: give a path nearer");
            return Err(Error::invalid(above, what + " to the runs"));
        }
        if run_directory::is_one(&dir) {
            runs.push(dir);
        } else if depth < MAX_DEPTH {
            let below = entries(&dir)?.into_iter().rev();
            let directories = below.filter(|path| path.is_dir() && !path.is_symlink());
            pending.extend(directories.map(|path| (path, depth + 1)));
        }
    }
    Ok(runs)
}

fn is_event_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.contains(EVENTS) && path.is_file()
}

/// The run of event files. Each start of a run adds a file, and the files' names are in the order
/// of time.
fn of_events(path: &Path, files: &[&PathBuf]) -> Result<RunLog> {
    let (mut points, mut notes) = (Points::default(), Vec::new());
    for file in files {
        notes.extend(event_file::read(file, &mut points)?);
    }
    Ok(log(path, points, notes))
}

fn of_file(path: &Path) -> Result<RunLog> {
    let mut start = Vec::new();
    let read = open_regular(path)?.take(START).read_to_end(&mut start);
    read.map_err(isentrope_files::Error::at(path))?;
    let dir = isentrope_files::parent(path);
    if path.file_name().is_some_and(|name| name == METRICS) && run_directory::is_one(dir) {
        return run_directory::read(dir);
    }
    if event_file::is_one(&start) || is_event_file(path) {
        return of_events(path, &[&path.to_owned()]);
    }
    let text = lines::without_mark(&start);
    let has_ending = |end: &str| path.extension().is_some_and(|e| e.eq_ignore_ascii_case(end));
    let mut points = Points::default();
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') if !json_rows::is_state(text) => of_lines(path),
        None if has_ending("jsonl") => of_lines(path),
        Some(b'[' | b'{') => {
            json_rows::read(path, &mut points)?;
            Ok(log(path, points, None))
        }
        Some(_) if has_ending("csv") => {
            let mut points = Points::of_table();
            let note = csv_table::read(path, &mut points)?;
            Ok(log(path, points, note))
        }
        _ => Err(unknown(path)),
    }
}

fn of_lines(path: &Path) -> Result<RunLog> {
    let mut points = Points::default();
    let note = json_lines::read(path, &mut points)?;
    if points.repeat_one_step() {
        return Err(Error::invalid(
            path,
            "every line is of the same step: samples of a step, as dumps of rollouts are, not the \
             log of a run, which has a line for each step",
        ));
    }
    Ok(log(path, points, note))
}

/// The log of numbers under a trainer's names.
fn log(path: &Path, points: Points, notes: impl IntoIterator<Item = String>) -> RunLog {
    let (series, of_points) = points.finish();
    let translated = names::translate(series);
    let mut notes: Vec<String> = notes.into_iter().collect();
    notes.extend(of_points.into_iter().chain(translated.notes));
    if translated.series.is_empty() {
        notes.push(format!("{}: there are no numbers in it yet", path.display()));
    }
    RunLog {
        name: name(path),
        path: path.to_owned(),
        origin: translated.origin,
        notes,
        series: translated.series,
    }
}

fn unknown(path: &Path) -> Error {
    let known = "no log of a run that is known. Known are: a run directory of this program, or a \
                 directory above some; what verl's logger `file` writes (.jsonl); TensorBoard's \
                 event files or their directory; trainer_state.json of TRL or Hugging Face's \
                 Trainer, or their output directory; JSON lines with \"step\"; CSV of one run, as \
                 W&B's history";
    Error::invalid(path, known)
}

/// Endings of names of logs.
const ENDINGS: [&str; 3] = [".jsonl", ".json", ".csv"];
/// Names of directories that do not describe the run.
const USUAL: [&str; 8] =
    ["metrics", "timings", "trainer_state", "log_history", "log", "logs", "tensorboard", "runs"];

/// The name of a log: the last part of its path that distinguishes it from other runs.
pub(super) fn name(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let of_part = |part: &Path| {
        let name = part.file_name()?.to_string_lossy().into_owned();
        let name = ENDINGS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        let is_usual = USUAL.contains(&name)
            || name.contains(EVENTS)
            || name.strip_prefix("checkpoint-").is_some_and(|step| step.parse::<u64>().is_ok())
            || is_start_of_trainer(name);
        (!is_usual).then(|| name.to_owned())
    };
    whole.ancestors().find_map(of_part).unwrap_or_else(|| path.to_string_lossy().into_owned())
}

/// Whether Hugging Face's Trainer names the event files' directory so: `Nov22_15-30-06_host`.
fn is_start_of_trainer(name: &str) -> bool {
    let shape: String =
        name.chars().skip(3).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape.starts_with("00_00-00-00_")
}
