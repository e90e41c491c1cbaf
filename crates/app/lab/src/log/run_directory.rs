//! The log of a run directory of this program: `metrics.jsonl`, and `timings.jsonl` beside it.

use super::points::Points;
use super::{Origin, RunLog, lines, names};
use crate::Result;
use crate::run_files::{MANIFEST, METRICS, RECIPE, TIMINGS, VALUES};
use serde_json::Value;
use std::path::Path;

/// Files that a run writes before its first numbers.
const BEFORE: [&str; 3] = [RECIPE, VALUES, MANIFEST];
/// Number of rows whose names show whether a file is ours. The first may have only an evaluation.
const ROWS: usize = 8;

/// Whether a path is a run directory, even if nothing is measured in it yet.
pub(super) fn is_one(path: &Path) -> bool {
    let has_recipe = BEFORE.iter().any(|name| path.join(name).is_file());
    // Other programs write files of this name too.
    let rows = [METRICS, TIMINGS].map(|name| lines::first_rows(&path.join(name), ROWS)).concat();
    has_recipe || rows.iter().any(|row| names::has_sign_of_ours(row.keys()))
}

/// Reads the log. A run without measurements has an empty log and a note.
///
/// # Errors
/// When a file cannot be read; malformed lines are named by file and line.
pub(super) fn read(path: &Path) -> Result<RunLog> {
    let (mut points, mut notes) = (Points::default(), Vec::new());
    for file in [METRICS, TIMINGS].map(|name| path.join(name)) {
        if file.exists() {
            notes.extend(read_file(&file, &mut points)?);
        }
    }
    let (series, _) = points.finish();
    if series.is_empty() {
        notes.push(format!("{}: no step is recorded yet", path.display()));
    }
    let (series, name) = (series.into_iter().collect(), super::open::name(path));
    Ok(RunLog { name, path: path.to_owned(), origin: Origin::Isentrope, notes, series })
}

/// Adds the lines of a file. Steps ascend, because a resumed run first removes the lines of the
/// steps that it makes again.
fn read_file(path: &Path, points: &mut Points) -> Result<Option<String>> {
    let mut before = None;
    lines::each_row(path, &mut |row| {
        let step = row.get("step").and_then(Value::as_u64);
        let step = step.ok_or("\"step\" must be a whole number from 0")?;
        if before.is_some_and(|before| before >= step) {
            return Err(format!("step {step} does not come after the step of the line before"));
        }
        before = Some(step);
        for (name, value) in row.iter().filter(|(name, _)| *name != "step") {
            let number = if value.is_null() { Some(f64::NAN) } else { lines::number(value) };
            let what =
                || format!("\"{}\" must be a number", name.chars().take(100).collect::<String>());
            points.add(name, step, number.ok_or_else(what)?)?;
        }
        Ok(())
    })
}
