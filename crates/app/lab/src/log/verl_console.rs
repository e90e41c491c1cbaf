//! verl's logger `console`: a line a step, `step:3 - actor/entropy:0.42 - critic/score/mean:0.5 -
//! ...` (verl/utils/logger), among all other output of the trainer and of Ray.

use super::lines::{self, Long};
use super::points::Points;
use crate::Result;
use std::path::Path;

/// The text between a line's parts.
const BETWEEN: &str = " - ";
/// The text before the step.
const MARK: &str = "step:";
/// Most digits of a step: so many has the largest number of 64 bits.
const DIGITS: usize = 20;

/// Reads the lines of steps of a file, and returns notes; none if it has no such line.
///
/// # Errors
/// When it cannot be read, or a line has more than a log may have.
pub(super) fn read(path: &Path, points: &mut Points) -> Result<Option<Vec<String>>> {
    let (mut found, mut cut_off) = (false, None);
    // A progress bar writes one line from its start to its end.
    let passed = lines::each_line(path, Long::PassedOver, |line, is_whole| {
        let Some((step, numbers)) = step(line) else { return Ok(()) };
        found = true;
        if !is_whole {
            cut_off = Some(step); // perhaps within a number
            return Ok(());
        }
        numbers
            .split(BETWEEN)
            .filter_map(number)
            .try_for_each(|(name, value)| points.add(name, step, value))
    })?;
    let note = match passed {
        0 => None,
        count => Some(format!(
            "{}: lines of more than {} bytes are passed over: {count}, such as progress bars make \
             them",
            path.display(),
            lines::MAX_LINE
        )),
    };
    let cut_off = cut_off.map(|step| {
        format!(
            "{}: the last line, of step {step}, is cut off before its end and is left out",
            path.display()
        )
    });
    Ok(found.then(|| note.into_iter().chain(cut_off).collect()))
}

/// The step of a line and the text after it. Ray and loggers put texts before lines. A line may be
/// long and full of marks, so only the text beside each mark is looked at.
fn step(line: &[u8]) -> Option<(u64, &str)> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    line.match_indices(MARK).find_map(|(place, _)| {
        let before = &line[..place];
        let is_part = before.ends_with(|c: char| c.is_alphanumeric() || "_/".contains(c));
        let is_apart = !is_part || before.ends_with("[0m"); // the end of a colour
        let behind = is_apart.then_some(&line[place + MARK.len()..])?;
        let end = behind.bytes().take(DIGITS).take_while(u8::is_ascii_digit).count();
        let (step, rest) = behind.split_at(end);
        let numbers = rest.strip_prefix(BETWEEN)?;
        Some((step.parse().ok()?, numbers))
    })
}

/// A part's name and number, which numpy may have wrapped: `np.float64(0.5)`.
fn number(part: &str) -> Option<(&str, f64)> {
    let (name, value) = part.split_once(':')?;
    let wrapped = || value.strip_prefix("np.")?.split_once('(')?.1.strip_suffix(')')?.parse().ok();
    Some((name.trim(), value.trim().parse().ok().or_else(wrapped)?))
}
