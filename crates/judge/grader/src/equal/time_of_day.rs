//! Times of day, which look like ratios and are compared part by part: 3:30 is not 7:00.

use num_integer::Integer;

use super::super::phrases::units::{AM, PM};

/// A time of day: hour, minute, and whether it is after noon, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    hour: u32,
    minute: u32,
    afternoon: Option<bool>,
}

/// Longest text that is a time of day, in bytes.
const MAX_TEXT: usize = 40;

impl Clock {
    /// Reads a time from a text, whatever its case, dots and spaces: "3 PM", "3:00 p.m.", "15:30",
    /// "noon".
    pub(super) fn of(source: &str) -> Option<Self> {
        if source.len() > MAX_TEXT || !source.contains([':', 'm', 'M', 'n', 'N']) {
            return None;
        }
        let mut text = source.to_lowercase().replace("\\text", "").replace("\\mathrm", "");
        text.retain(|c| {
            c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '/' | '+' | '^' | '(')
        });
        let text = text.replace("oclock", "").replace("midnight", "12am").replace("noon", "12pm");
        let half = [(PM, true), (AM, false)].into_iter();
        let said =
            half.clone().find_map(|(word, half)| Some((text.strip_suffix(word)?, Some(half))));
        let (time, afternoon) = said.unwrap_or((&text, None));
        let (hour, minute) =
            time.split_once(':').or_else(|| Some((time, "00")).filter(|_| said.is_some()))?;
        let are_digits = (hour.to_owned() + minute).bytes().all(|byte| byte.is_ascii_digit());
        let is_time = are_digits && (1..=2).contains(&hour.len()) && minute.len() == 2;
        let (hour, minute): (u32, u32) =
            (hour.parse().ok().filter(|_| is_time)?, minute.parse().ok()?);
        // 24:00 is midnight.
        let is_of_day = minute < 60 && (hour < 24 || hour == 24 && minute == 0);
        let afternoon =
            if hour > 12 || hour == 0 { Some((13..24).contains(&hour)) } else { afternoon };
        is_of_day.then_some(Self { hour: hour % 12, minute, afternoon })
    }

    /// Whether the text can only be a time of day.
    pub(super) fn is_certain(&self, source: &str) -> bool {
        self.afternoon.is_some() && source.contains(['m', 'M', 'n', 'N'])
    }

    /// Whether two times may be the same. A time without a half of the day, such as 3:30, may be in
    /// either.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let halves = self.afternoon.zip(other.afternoon);
        self.hour == other.hour && self.minute == other.minute && halves.is_none_or(|(a, b)| a == b)
    }
}

/// Whether a text is a time rather than a ratio: a ratio has no zero before its second number, and
/// if it is a ground truth, it is in lowest terms.
pub(super) fn is_time(source: &str, is_ground_truth: bool) -> bool {
    let Some((before, after)) = source.split_once(':').filter(|(_, after)| !after.contains(':'))
    else {
        return false;
    };
    let hours = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let minutes = after.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    if hours.len() > 2 || minutes.len() != 2 {
        return false;
    }
    let (Ok(hours), Ok(minutes)) = (hours.parse::<u32>(), minutes.parse::<u32>()) else {
        return false;
    };
    hours <= 24 && minutes < 60 && (minutes < 10 || is_ground_truth && hours.gcd(&minutes) > 1)
}
