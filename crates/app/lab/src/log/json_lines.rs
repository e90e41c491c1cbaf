//! Lines of JSON objects with a step, as verl's logger `file` and many scripts write them.

use super::lines::{self, Row};
use super::points::Points;
use crate::Result;
use serde_json::Value;
use std::path::Path;

/// Names of the step, the likelier first.
pub(super) const STEPS: [&str; 7] = [
    "step",
    "train/global_step",
    "_step",
    "global_step",
    "training/global_step",
    "trainer/global_step",
    "iteration",
];

/// Deepest objects in objects; their names are joined by a slash.
const MAX_DEPTH: usize = 8;

/// Reads the lines of a file; returns a note if the last one is incomplete.
///
/// # Errors
/// When it cannot be read; malformed lines are named by file and line.
pub(super) fn read(path: &Path, points: &mut Points) -> Result<Option<String>> {
    lines::each_row(path, &mut |row| take(&row, points))
}

/// Adds a row's numbers.
///
/// # Errors
/// The row's defect.
pub(super) fn take(row: &Row, points: &mut Points) -> Result<(), String> {
    let Some((of_step, step)) = STEPS.iter().find_map(|name| Some((*name, row.get(*name)?))) else {
        return Err("no \"step\"".into());
    };
    let step =
        lines::whole(step).ok_or_else(|| format!("\"{of_step}\" must be a whole number from 0"))?;
    // verl has the numbers in an object `data`.
    let numbers = row.get("data").and_then(Value::as_object).unwrap_or(row);
    // "_runtime", "_timestamp" and the like are W&B's.
    let is_metric = |key: &str| key != of_step && !key.starts_with('_');
    numbers
        .iter()
        .filter(|(key, _)| is_metric(key))
        .try_for_each(|(key, value)| take_value(key, value, step, 1, points))
}

/// Adds a number, or the numbers of an object. Texts, lists, booleans and `null` are no
/// measurements: an evaluation's row may share a step with a training row, with `null` for its
/// metrics.
fn take_value(
    name: &str,
    value: &Value,
    step: u64,
    depth: usize,
    points: &mut Points,
) -> Result<(), String> {
    match value {
        Value::Object(inner) if depth < MAX_DEPTH => inner.iter().try_for_each(|(key, value)| {
            take_value(&format!("{name}/{key}"), value, step, depth + 1, points)
        }),
        _ => lines::number(value).map_or(Ok(()), |number| points.add(name, step, number)),
    }
}
