//! verl's logger `console`: what it prints among all else that a trainer and Ray say, one line a step,
//! `step:3 - actor/entropy:0.42 - critic/score/mean:0.5 - ...` (verl/utils/logger).

use super::lines;
use super::points::Points;
use crate::Result;
use std::path::Path;

/// What stands between a line's parts.
const BETWEEN: &str = " - ";

/// Reads the lines of steps of a file. Returns whether there is one.
///
/// # Errors
/// When it cannot be read, or a line has more than a log may have.
pub(super) fn read(path: &Path, points: &mut Points) -> Result<bool> {
    let mut found = false;
    lines::each_line(path, |line, is_whole| {
        // A last line that is cut off may end within a number.
        let Some((step, numbers)) = step(line).filter(|_| is_whole) else { return Ok(()) };
        found = true;
        numbers.split(BETWEEN).filter_map(number).try_for_each(|(name, value)| points.add(name, step, value))
    })?;
    Ok(found)
}

/// The step of a line, behind what Ray puts before lines, and what comes behind it.
fn step(line: &[u8]) -> Option<(u64, &str)> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    let (head, numbers) = line.split_once(BETWEEN)?;
    let (before, step) = head.rsplit_once("step:")?;
    let is_part = before.ends_with(|c: char| c.is_alphanumeric() || "_/".contains(c));
    let is_apart = !is_part || before.ends_with("[0m"); // the end of a colour
    Some((step.parse().ok().filter(|_| is_apart)?, numbers))
}

/// A part's name and number, which numpy may have wrapped: `np.float64(0.5)`.
fn number(part: &str) -> Option<(&str, f64)> {
    let (name, value) = part.split_once(':')?;
    let wrapped = || value.strip_prefix("np.")?.split_once('(')?.1.strip_suffix(')')?.parse().ok();
    Some((name.trim(), value.trim().parse().ok().or_else(wrapped)?))
}
