//! From a path to the logs that are there.

use super::points::Points;
use super::tensorboard;
use super::{
    RunLog, csv_table, event_file, json_lines, json_rows, lines, names, run_directory, verl_console,
};
use crate::run_files::METRICS;
use crate::{Error, Result};
use isentrope_files::open_regular;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// As much of a file as tells its form.
const START: u64 = 64 << 10;
/// Most `.jsonl` files of a directory, each a run.
const MAX_FILES: usize = 1000;

/// The logs at a path, in the order of their names.
///
/// # Errors
/// As [`RunLog::open`].
pub(super) fn open_all(path: &Path) -> Result<Vec<RunLog>> {
    if path.is_dir() { of_directory(path) } else { of_file(path) }
}

fn of_directory(path: &Path) -> Result<Vec<RunLog>> {
    if run_directory::is_one(path) {
        return Ok(vec![run_directory::read(path)?]);
    }
    let events = tensorboard::find(path)?;
    if let Some(state) = json_rows::find(path)? {
        let mut points = Points::default();
        json_rows::read(&state, &mut points)?;
        let mut log = log(path, points, Vec::new());
        if let Some(events) = events.runs.keys().next() {
            let (state, events) = (state.display(), events.display());
            log.notes.push(format!(
                "read from {state}; the event files in {events} may have later steps"
            ));
        }
        return Ok(vec![log]);
    }
    if !events.runs.is_empty() {
        let read = |(dir, files): (PathBuf, Vec<PathBuf>)| {
            let above = isentrope_files::parent(&dir);
            if dir != path && run_directory::is_one(above) {
                return run_directory::read(above); // a run of this program, which says more itself
            }
            let mut points = Points::default();
            let notes = tensorboard::read(&files, &mut points)?;
            Ok(log(&dir, points, notes))
        };
        let mut logs: Vec<RunLog> = events.runs.into_iter().map(read).collect::<Result<_>>()?;
        if let Some(log) = logs.first_mut() {
            log.notes.extend(events.note);
        }
        return Ok(logs);
    }
    let mut files: Vec<PathBuf> =
        isentrope_files::names(path)?.iter().map(|name| path.join(name)).collect();
    files.sort();
    let ending = |end: &str| -> Vec<PathBuf> {
        files
            .iter()
            .filter(|path| path.extension().is_some_and(|e| e == end) && path.is_file())
            .cloned()
            .collect()
    };
    let (tables, lines) = (ending("csv"), ending("jsonl"));
    if !tables.is_empty() {
        return of_tables(path, &tables);
    }
    match lines.len() {
        0 => return Err(unknown(path, events.note)),
        count if count > MAX_FILES => {
            let what = format!(
                "has {count} files .jsonl, and a run for each of at most {MAX_FILES} is read: \
                 give one"
            );
            return Err(Error::invalid(path, what));
        }
        _ => {}
    }
    lines.iter().map(|path| of_lines(path)).collect()
}

fn of_file(path: &Path) -> Result<Vec<RunLog>> {
    let mut start = Vec::new();
    let read = open_regular(path)?.take(START).read_to_end(&mut start);
    read.map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let dir = isentrope_files::parent(path);
    if file_name == METRICS && run_directory::is_one(dir) {
        return Ok(vec![run_directory::read(dir)?]);
    }
    let mut points = Points::default();
    if event_file::is_one(&start) || file_name.contains(tensorboard::MARK) {
        let notes = tensorboard::read(&[path.to_owned()], &mut points)?;
        return Ok(vec![log(path, points, notes)]);
    }
    let text = lines::without_mark(&start);
    let has_ending = |end: &str| path.extension().is_some_and(|e| e.eq_ignore_ascii_case(end));
    let mut letters = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    match (letters.next(), letters.next()) {
        // A line of a console may begin with a bracket too, with the time in it.
        (Some(b'['), Some(b'{' | b']') | None) => {
            json_rows::read(path, &mut points)?;
            Ok(vec![log(path, points, Vec::new())])
        }
        (Some(b'{'), _) if json_rows::is_state(text) => {
            json_rows::read(path, &mut points)?;
            Ok(vec![log(path, points, Vec::new())])
        }
        (Some(b'{'), _) => Ok(vec![of_lines(path)?]),
        (None, _) if has_ending("jsonl") => Ok(vec![of_lines(path)?]),
        (None, _) => Err(unknown(path, None)),
        (Some(_), _) if has_ending("csv") => of_tables(path, &[path.to_owned()]),
        (Some(_), _) => match verl_console::read(path, &mut points)? {
            Some(notes) => Ok(vec![log(path, points, notes)]),
            None if first_line(text).contains(&b',') => of_tables(path, &[path.to_owned()]),
            None => Err(unknown(path, None)),
        },
    }
}

fn of_lines(path: &Path) -> Result<RunLog> {
    let mut points = Points::default();
    let note = json_lines::read(path, &mut points)?;
    if points.repeat_one_step() {
        return Err(Error::invalid(
            path,
            "every line is of the same step: samples of a step, as dumps of rollouts are, not the \
             log of a run, which has a \
             line for each step",
        ));
    }
    Ok(log(path, points, note.into_iter().collect()))
}

/// The runs of tables of one directory: one chart of W&B's may have the entropy of a run, another
/// its accuracy.
fn of_tables(path: &Path, tables: &[PathBuf]) -> Result<Vec<RunLog>> {
    let (mut runs, mut notes) = (BTreeMap::new(), Vec::new());
    for table in tables {
        notes.extend(csv_table::read(table, &mut runs)?);
    }
    if runs.is_empty() {
        runs.insert(String::new(), Points::of_table());
    }
    let named = |(name, points): (String, Points)| {
        let log = log(path, points, std::mem::take(&mut notes));
        if name.is_empty() { log } else { RunLog { name, ..log } }
    };
    Ok(runs.into_iter().map(named).collect())
}

/// The log of numbers under a trainer's names.
fn log(path: &Path, points: Points, mut notes: Vec<String>) -> RunLog {
    let (series, said) = points.finish();
    let translated = names::translate(series);
    notes.extend(said);
    notes.extend(translated.notes);
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

fn first_line(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == b'\n').next().unwrap_or_default()
}

fn unknown(path: &Path, note: Option<String>) -> Error {
    let note = note.map_or_else(String::new, |note| format!(". {note}"));
    let known = "no log of a run that is known. Known are: a run directory of this program; what \
                 verl's loggers file (.jsonl) \
                 and console write; TensorBoard's event files or a directory of them; \
                 trainer_state.json of TRL or \
                 Hugging Face's Trainer, or their output directory; JSON lines with \"step\"; CSV \
                 as W&B exports it";
    Error::invalid(path, format!("{known}{note}"))
}

/// The name of a log: the last part of its path that not every run has.
pub(super) fn name(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let said = |part: &Path| {
        let name = part.file_name()?.to_string_lossy().into_owned();
        let end = [".jsonl", ".json", ".csv", ".ndjson", ".log", ".txt"]
            .into_iter()
            .find(|end| name.ends_with(end));
        let name = end.and_then(|end| name.strip_suffix(end)).unwrap_or(&name).to_owned();
        let usual = [
            "metrics",
            "timings",
            "trainer_state",
            "log_history",
            "log",
            "logs",
            "tensorboard",
            "runs",
        ];
        let is_usual = usual.contains(&&*name)
            || name.contains(tensorboard::MARK)
            || name.strip_prefix("checkpoint-").is_some_and(|step| step.parse::<u64>().is_ok())
            || tensorboard::is_start_of_trainer(part);
        (!is_usual).then_some(name)
    };
    whole.ancestors().find_map(said).unwrap_or_else(|| path.to_string_lossy().into_owned())
}
