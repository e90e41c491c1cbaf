//! The day that a chat template is told.

use std::fmt;
use std::str::FromStr;

use chrono::{Local, NaiveDate, NaiveDateTime, NaiveTime};
use serde::{Deserialize, Serialize};

/// A day of the calendar. Written `2026-11-26`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Date(NaiveDate);

impl Date {
    /// Where this program runs.
    pub fn today() -> Self {
        Self(Local::now().date_naive())
    }

    /// The day of a time.
    pub(super) fn of(time: NaiveDateTime) -> Self {
        Self(time.date())
    }

    /// When the day begins.
    pub(super) fn begins(self) -> NaiveDateTime {
        self.0.and_time(NaiveTime::MIN)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Date {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").map(Self);
        // A day is written in one way, or equal recipes would differ.
        let written = date.ok().filter(|date| date.to_string() == text);
        written.ok_or_else(|| format!("{text:?} is no day: write one such as 2026-11-26"))
    }
}

impl TryFrom<String> for Date {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Date> for String {
    fn from(date: Date) -> Self {
        date.to_string()
    }
}
