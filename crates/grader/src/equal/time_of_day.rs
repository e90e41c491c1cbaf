//! Times of day, which look like ratios and are compared part by part: 3:30 is not 7:00.

use num_integer::Integer;

use super::super::phrases::units::{AM, PM};

/// The half of the day that a normalised text ends with: whether 3 p.m. is meant rather than 3 a.m.; `None` if it says
/// neither.
pub(super) fn is_afternoon(text: &str) -> Option<bool> {
    let half =
        |name| text.strip_suffix(name).is_some_and(|hour| hour.ends_with(|c: char| c.is_ascii_digit()));
    if half(PM) { Some(true) } else { half(AM).then_some(false) }
}

/// Whether a text has a time that cannot be taken for a ratio, because of a zero before its minutes: 1:05.
pub(super) fn has_padded_minutes(source: &str) -> bool {
    hours_and_minutes(source).is_some_and(|(_, minutes)| minutes < 10)
}

/// Whether a ground truth is a time of day: a ratio would be in lowest terms.
pub(super) fn is_time(source: &str) -> bool {
    hours_and_minutes(source).is_some_and(|(hours, minutes)| minutes < 10 || hours.gcd(&minutes) > 1)
}

/// Hours and minutes, of a text with one colon between them.
fn hours_and_minutes(source: &str) -> Option<(u32, u32)> {
    let (before, after) = source.split_once(':').filter(|(_, after)| !after.contains(':'))?;
    let hours = before.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    let minutes = after.split(|c: char| !c.is_ascii_digit()).next()?;
    if hours.len() > 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 24 && minutes < 60).then_some((hours, minutes))
}
