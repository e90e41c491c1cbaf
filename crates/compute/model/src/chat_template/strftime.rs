//! Dates in the spelling of Python's `datetime.strftime`, for `strftime_now`.

use std::fmt::Write;

use chrono::NaiveDateTime;
use chrono::format::{Item, StrftimeItems};
use minijinja::{Error, ErrorKind};

/// `now` in the given format. Directives unknown here are an error.
pub(super) fn format(now: &NaiveDateTime, format: &str) -> Result<String, Error> {
    // In Python %f is microseconds, and a time without zone has an empty zone.
    let mut python = String::with_capacity(format.len());
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '%' { chars.next() } else { None }) {
            ('%', Some('f')) => python.push_str("%6f"),
            ('%', Some('z' | 'Z')) => {}
            ('%', Some(directive)) => python.extend(['%', directive]),
            (c, _) => python.push(c),
        }
    }
    let invalid =
        || Error::new(ErrorKind::InvalidOperation, format!("strftime_now cannot write {format:?}"));
    let items: Vec<Item> = StrftimeItems::new(&python).collect();
    if items.contains(&Item::Error) {
        return Err(invalid());
    }
    let mut text = String::new();
    write!(text, "{}", now.format_with_items(items.into_iter())).map_err(|_| invalid())?;
    Ok(text)
}
