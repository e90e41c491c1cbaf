//! Files of one JSON value with rows in it: `trainer_state.json` of TRL and of Hugging Face's
//! Trainer, of which each checkpoint has one with the log up to its step, and arrays of such rows,
//! as `json.dump(trainer.state.log_history)` makes them.

use super::json_lines;
use super::lines::{self, Row};
use super::points::Points;
use crate::{Error, Result};
use isentrope_files::{names, read_regular};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::fmt;
use std::path::{Path, PathBuf};

/// The file that checkpoints have.
const NAME: &str = "trainer_state.json";
/// The key of its rows.
const HISTORY: &str = "log_history";
/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 128 << 20;

/// The file of an output directory: its own, else that of the last checkpoint in it.
///
/// # Errors
/// When the directory cannot be read.
pub(super) fn find(dir: &Path) -> Result<Option<PathBuf>> {
    let own = dir.join(NAME);
    if own.is_file() {
        return Ok(Some(own));
    }
    let step = |name: &str| name.strip_prefix("checkpoint-")?.parse::<u64>().ok();
    let mut checkpoints: Vec<(u64, PathBuf)> = Vec::new();
    for name in names(dir)? {
        let path = dir.join(&name).join(NAME);
        if let Some(step) = name.to_str().and_then(step)
            && path.is_file()
        {
            checkpoints.push((step, path));
        }
    }
    Ok(checkpoints.into_iter().max().map(|(_, path)| path))
}

/// Whether a file that begins so is a Trainer's state.
pub(super) fn is_state(start: &[u8]) -> bool {
    start.windows(HISTORY.len()).any(|word| word == HISTORY.as_bytes())
}

/// Reads a file of either kind.
///
/// # Errors
/// When it cannot be read; what is malformed is named by line or by entry.
pub(super) fn read(path: &Path, points: &mut Points) -> Result<()> {
    let text = read_regular(path, MAX_FILE)?;
    let text = lines::without_mark(&text);
    check_rows(text).map_err(|what| Error::invalid(path, what))?;
    let text = lines::python_numbers(text);
    let mut parser = serde_json::Deserializer::from_slice(&text);
    let read = Rows(points).deserialize(&mut parser).and_then(|()| parser.end());
    read.map_err(|error| Error::invalid(path, error.to_string()))
}

/// Refuses rows that are longer than a line may be: a row takes many times its length while it is
/// taken in. Rows are the objects of the outermost array, or of an array in the outermost object.
fn check_rows(text: &[u8]) -> Result<(), String> {
    let of_rows = if text.trim_ascii_start().starts_with(b"[") { 1 } else { 2 };
    let (mut depth, mut begin, mut in_string, mut is_escaped) = (0_usize, 0, false, false);
    for (place, byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                if depth == of_rows {
                    begin = place;
                }
                depth += 1;
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > of_rows && place - begin >= lines::MAX_LINE {
            return Err(format!("has an entry of more than {} bytes", lines::MAX_LINE));
        }
    }
    Ok(())
}

/// Takes in rows one by one, so that no more than one is there at a time.
struct Rows<'a>(&'a mut Points);

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "an array of objects with a step, or an object with such an array as \"{HISTORY}\""
        )
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        let mut number = 1;
        while let Some(row) = rows.next_element::<Row>()? {
            json_lines::take(&row, self.0)
                .map_err(|what| A::Error::custom(format!("entry {number}: {what}")))?;
            number += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut state: A) -> Result<(), A::Error> {
        while let Some(key) = state.next_key::<String>()? {
            if key == HISTORY {
                state.next_value_seed(Rows(self.0))?;
            } else {
                state.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}
