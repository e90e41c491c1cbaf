//! Times of day, which look like ratios and are compared part by part: 3:30 is not 7:00.

use num_integer::Integer;

use super::super::phrases::units::{AM, MIDNIGHT, NOON, O_CLOCK, PM};

/// A time of day.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    hour: u32,
    minute: u32,
    /// Whether it is after noon, if that is said.
    afternoon: Option<bool>,
}

/// Longest text that is a time of day, in bytes.
const MAX_TEXT: usize = 40;

/// What may be around the parts of a time.
const MARKUP: [&str; 6] = ["\\text", "\\mathrm", "\\mbox", "\\,", "\\;", "\\ "];

impl Clock {
    /// The time that a text is, whatever its case, dots and spaces: "3 PM", "3:00 p.m.", "15:30", "noon".
    pub(super) fn of(source: &str) -> Option<Self> {
        if source.len() > MAX_TEXT || !source.contains([':', 'm', 'M', 'k', 'n', 'N']) {
            return None;
        }
        let mut text = source.to_lowercase().replace('’', "'");
        for markup in MARKUP {
            text = text.replace(markup, "");
        }
        text.retain(|c| !c.is_whitespace() && !matches!(c, '.' | '{' | '}' | '$' | '~'));
        let named = |afternoon| Some(Self { hour: 12, minute: 0, afternoon: Some(afternoon) });
        let is_named = |name| text.strip_suffix(name).is_some_and(|hour| matches!(hour, "" | "12" | "12:00"));
        if is_named(NOON) {
            return named(true);
        }
        if is_named(MIDNIGHT) {
            return named(false);
        }
        let (time, afternoon) = match (text.strip_suffix(PM), text.strip_suffix(AM)) {
            (Some(time), _) => (time, Some(true)),
            (_, Some(time)) => (time, Some(false)),
            _ => (text.as_str(), None),
        };
        let whole = time.strip_suffix(O_CLOCK);
        let hour = whole.unwrap_or(time);
        let (hour, minute) = hour.split_once(':').unwrap_or((hour, "00"));
        let is_time = (afternoon.is_some() || whole.is_some() || time.contains(':'))
            && (1..=2).contains(&hour.len())
            && minute.len() == 2
            && [hour, minute].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        let (hour, minute) = (hour.parse().ok()?, minute.parse().ok()?);
        let most = if afternoon.is_some() { 12 } else { 24 };
        (is_time && hour <= most && minute < 60).then_some(Self { hour, minute, afternoon })
    }

    /// Whether it can be nothing but a time of day.
    pub(super) fn is_certain(&self) -> bool {
        self.afternoon.is_some()
    }

    /// Whether two times may be the same: 3:30 is in the half of the day that the other says.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let is_either = |clock: &Self| clock.afternoon.is_none() && (1..=12).contains(&clock.hour);
        if is_either(self) || is_either(other) {
            return self.minute == other.minute && self.hour % 12 == other.hour % 12;
        }
        self.of_day() == other.of_day()
    }

    /// Hours and minutes since midnight.
    fn of_day(&self) -> (u32, u32) {
        let hour = match self.afternoon {
            Some(afternoon) => self.hour % 12 + if afternoon { 12 } else { 0 },
            None => self.hour % 24,
        };
        (hour, self.minute)
    }
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
