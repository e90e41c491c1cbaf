//! The log of a run directory of this program: `metrics.jsonl`, and `timings.jsonl` beside it.

use super::{Origin, RunLog, Series};
use crate::{Error, Result};
use isentrope_files::open_regular;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

const METRICS: &str = "metrics.jsonl";
const TIMINGS: &str = "timings.jsonl";
const VALUES: &str = ".recipe.json";

/// Longest line that is read, in bytes.
const MAX_LINE: u64 = 8 << 20;

/// Whether a path is a run directory: one with metrics, or with the recipe alone, of a run that has measured nothing yet.
pub(super) fn is_one(path: &Path) -> bool {
    path.join(METRICS).exists() || path.join(VALUES).exists()
}

/// Reads it.
///
/// # Errors
/// When a file cannot be read; malformed lines are named by file and line.
pub(super) fn read(path: &Path) -> Result<RunLog> {
    let (mut series, mut notes) = (BTreeMap::new(), Vec::new());
    for file in [METRICS, TIMINGS].map(|name| path.join(name)) {
        if file.exists() {
            read_file(&file, &mut series, &mut notes)?;
        }
    }
    let name = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = name.file_name().unwrap_or(name.as_os_str()).to_string_lossy().into_owned();
    Ok(RunLog { name, path: path.to_owned(), origin: Origin::Isentrope, notes, series })
}

/// Takes in the lines of a file. A last line without an end was being written when the run was killed: it is left out.
fn read_file(path: &Path, series: &mut BTreeMap<String, Series>, notes: &mut Vec<String>) -> Result<()> {
    let mut reader = BufReader::new(open_regular(path)?);
    let (mut line, mut number, mut before) = (Vec::new(), 0, None);
    loop {
        line.clear();
        number += 1;
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        let read = read.map_err(|source| Error::Io { path: path.to_owned(), source })?;
        if read == 0 {
            return Ok(());
        }
        let invalid = |what: String| Error::invalid(path, format!("line {number}: {what}"));
        if line.last() != Some(&b'\n') {
            if read as u64 == MAX_LINE {
                return Err(invalid(format!("longer than {MAX_LINE} bytes")));
            }
            notes.push(format!("{}: line {number} is cut off and is left out", path.display()));
            return Ok(());
        }
        let row: Map<String, Value> = serde_json::from_slice(&line).map_err(|e| invalid(e.to_string()))?;
        let step = row.get("step").and_then(Value::as_u64);
        let step = step.ok_or_else(|| invalid("\"step\" must be a whole number from 0".into()))?;
        if before.is_some_and(|before| before >= step) {
            return Err(invalid(format!("step {step} does not come after the step of the line before")));
        }
        before = Some(step);
        for (name, value) in row.into_iter().filter(|(name, _)| name != "step") {
            let value = match value {
                Value::Null => f64::NAN,
                Value::Number(number) => number.as_f64().unwrap_or(f64::NAN),
                _ => return Err(invalid(format!("\"{name}\" must be a number"))),
            };
            series.entry(name).or_default().push(step, value);
        }
    }
}
