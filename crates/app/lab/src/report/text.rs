//! Foreign texts (logs, recipes, paths) for the page: hidden characters are shown, and long texts
//! shortened.

use crate::page::legible;
use crate::visible::visible;
use std::borrow::Cow;

/// Longest text, in characters.
const LONGEST: usize = 2000;
/// Longest name of a metric, a set or a setting.
const LONGEST_NAME: usize = 120;
/// Most names that a sentence lists.
const MOST_NAMES: usize = 50;

/// A text as HTML.
pub(super) fn words(text: &str) -> String {
    legible(&shortened(text, LONGEST))
}

/// A name as HTML.
pub(super) fn short_name(name: &str) -> String {
    legible(&shortened(name, LONGEST_NAME))
}

/// A name as visible text, for places that are not HTML.
pub(super) fn seen(name: &str) -> String {
    visible(&shortened(name, LONGEST_NAME)).into_owned()
}

/// The beginning and the end of a text that is longer than `most` characters.
pub(super) fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most || text.chars().nth(most).is_none() {
        return Cow::Borrowed(text);
    }
    let of_end = most / 2;
    let end: Vec<char> = text.chars().rev().take(of_end).collect();
    let begin = text.chars().take(most.saturating_sub(of_end + 1));
    Cow::Owned(begin.chain(['…']).chain(end.into_iter().rev()).collect())
}

/// Names in quotation marks. If there are too many for a sentence, the first ones and the number of
/// the others.
pub(super) fn listed(names: &[String]) -> String {
    let quoted: Vec<String> =
        names.iter().take(MOST_NAMES).map(|name| format!("“{}”", seen(name))).collect();
    match names.len().saturating_sub(MOST_NAMES) {
        0 => quoted.join(", "),
        more => format!("{} and {more} more", quoted.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_keep_both_ends_and_hide_nothing() {
        assert_eq!(shortened("abcdefghij", 5), "ab…ij");
        assert_eq!((shortened("äöüäö", 5), shortened("", 5)), ("äöüäö".into(), "".into()));
        assert_eq!(words("a\u{202e}<\u{2066}\u{1b}"), "a\\u{202e}&lt;\\u{2066}\\u{1b}");
        assert_eq!(seen(&"x".repeat(900)).chars().count(), LONGEST_NAME);
        let names: Vec<String> = (0..60).map(|i| i.to_string()).collect();
        assert!(listed(&names).ends_with("“49” and 10 more") && listed(&names[..2]) == "“0”, “1”");
    }
}
