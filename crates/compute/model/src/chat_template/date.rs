//! The date for chat templates.

use std::fmt;
use std::str::FromStr;

use chrono::{Local, NaiveDate, NaiveDateTime, NaiveTime};
use serde::{Deserialize, Serialize};

/// A calendar date, written `2026-11-26`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Date(NaiveDate);

impl Date {
    /// Today in the local time zone.
    pub fn today() -> Self {
        Self(Local::now().date_naive())
    }

    /// The moment when it begins.
    pub(super) fn midnight(self) -> NaiveDateTime {
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
        // A date has one spelling, so that equal dates make equal recipes.
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
