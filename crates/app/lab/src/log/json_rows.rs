//! Files of one JSON value with rows in it: `trainer_state.json` of TRL and of Hugging Face's
//! Trainer, in which each checkpoint has the log up to its step, and arrays of such rows, as
//! `json.dump(trainer.state.log_history)` writes.

use super::json_lines;
use super::lines::{self, Row};
use super::points::Points;
use crate::{Error, Result};
use isentrope_files::{names, read_regular};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::path::{Path, PathBuf};

/// The file that checkpoints have.
const NAME: &str = "trainer_state.json";
/// The key of its rows.
const HISTORY: &str = "log_history";
/// Largest file that is read, in bytes: some ten thousand rows.
const MAX_FILE: u64 = 16 << 20;

/// The rows of a file as text. Each is parsed alone, because values take many times the bytes.
type Rows<'a> = Vec<&'a RawValue>;

/// The rows of a Trainer's state.
#[derive(Deserialize)]
struct State<'a> {
    #[serde(borrow)]
    log_history: Rows<'a>,
}

/// The file of an output directory: its own, or else its last checkpoint's.
///
/// # Errors
/// When the directory cannot be read.
pub(super) fn find(dir: &Path) -> Result<Option<PathBuf>> {
    let own = dir.join(NAME);
    if own.is_file() {
        return Ok(Some(own));
    }
    let step = |name: &str| name.strip_prefix("checkpoint-")?.parse::<u64>().ok();
    let names = names(dir)?;
    let steps = names.iter().filter_map(|name| Some((step(name.to_str()?)?, dir.join(name))));
    let files = steps.map(|(step, checkpoint)| (step, checkpoint.join(NAME)));
    Ok(files.filter(|(_, path)| path.is_file()).max().map(|(_, path)| path))
}

/// Whether these first bytes are a Trainer's state.
pub(super) fn is_state(start: &[u8]) -> bool {
    start.windows(HISTORY.len()).any(|word| word == HISTORY.as_bytes())
}

/// Reads a file of either kind.
///
/// # Errors
/// When it cannot be read; a malformed row is named by its number.
pub(super) fn read(path: &Path, points: &mut Points) -> Result<()> {
    let text = read_regular(path, MAX_FILE)?;
    let invalid = |what: String| Error::invalid(path, what);
    let text = lines::python_numbers(lines::without_mark(&text));
    let rows: Rows<'_> = if text.trim_ascii_start().starts_with(b"[") {
        serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?
    } else {
        let state = serde_json::from_slice::<State>(&text);
        state.map_err(|error| invalid(error.to_string()))?.log_history
    };
    for (number, row) in (1..).zip(rows) {
        let row = serde_json::from_str::<Row>(row.get()).map_err(|e| lines::without_line(&e));
        row.and_then(|row| json_lines::take(&row, points))
            .map_err(|what| invalid(format!("entry {number}: {what}")))?;
    }
    Ok(())
}
