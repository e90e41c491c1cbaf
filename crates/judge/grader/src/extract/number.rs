//! Numbers in prose.

use std::borrow::Cow;

use super::super::latex::{Commas, number_length};
use super::denial::{COMPARISONS, denies_next};
use super::operand::{before_unclosed, formula_around};
use super::related::relates_next;

/// Where the last number of a text starts and ends, with its sign, fraction, and percent sign:
/// `-1,234.5`, `3/4`, `4 4/9`, `28%`. Numbers right after a letter are parts of names; denied
/// numbers and bounds do not count. For an operand, the whole formula counts: 73 + 64, √5. What
/// begins with a formula or bracket that is never closed is no number.
pub fn last_number(text: &str) -> Option<(usize, usize)> {
    let text = before_unclosed(text);
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut place = 0;
    while place < bytes.len() {
        let point = bytes[place] == b'.' && bytes.get(place + 1).is_some_and(u8::is_ascii_digit);
        if !bytes[place].is_ascii_digit() && !point {
            place += 1;
            continue;
        }
        let end = place + length(&text[place..]);
        let names =
            |before: u8| before.is_ascii_alphabetic() || matches!(before, b'^' | b'_' | b'.');
        let is_name = bytes[..place].last().is_some_and(|&before| names(before));
        if !is_name {
            found.push((place - usize::from(is_negative(&bytes[..place])), end));
        }
        place = end;
    }
    // For boxes only denials count: "n \\ge \\boxed{5}" answers a question for the least n.
    let is_bound = |before: &str| COMPARISONS.iter().any(|sign| before.trim_end().ends_with(sign));
    let last = found.into_iter().rfind(|&(start, _)| {
        let before = &text[..start];
        !denies_next(before) && !relates_next(before) && !is_bound(before)
    })?;
    Some(formula_around(text, last).unwrap_or(last))
}

/// Characters that stand for a minus, beside `-`.
const MINUSES: [char; 3] = ['−', '–', '－'];

/// A text in which other minus characters that are signs of numbers are `-`. A sign stands right
/// before the number, and after nothing that it could be subtracted from.
pub fn with_plain_signs(text: &str) -> Cow<'_, str> {
    if !text.contains(MINUSES) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for (place, character) in text.char_indices() {
        let after = &text[place + character.len_utf8()..];
        let is_sign = MINUSES.contains(&character)
            && after.strip_prefix('.').unwrap_or(after).starts_with(|c: char| c.is_ascii_digit())
            && !plain.ends_with(|c: char| {
                c.is_alphanumeric() || matches!(c, ')' | ']' | '}' | '%' | '!')
            });
        plain.push(if is_sign { '-' } else { character });
    }
    Cow::Owned(plain)
}

/// The end of the number at the start of a text, if words follow it: 20 in "20 cups for 3 of us". A
/// number before an operator is only an operand.
pub fn first_number(text: &str) -> Option<usize> {
    let end = leading_number(text)?;
    let rest = text[end..].trim_start_matches([',', ';']);
    (rest.starts_with(' ') && rest.trim_start().starts_with(char::is_alphabetic)).then_some(end)
}

/// Length of the number that a text starts with.
pub fn leading_number(text: &str) -> Option<usize> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    unsigned
        .starts_with(|c: char| c.is_ascii_digit())
        .then(|| text.len() - unsigned.len() + length(unsigned))
}

/// Whether a minus stands before a number and is its sign: after a digit, letter or bracket it is a
/// subtraction.
fn is_negative(before: &[u8]) -> bool {
    match before {
        [.., before, b'-'] => !before.is_ascii_alphanumeric() && !matches!(before, b')' | b'}'),
        [.., b'-'] => true,
        _ => false,
    }
}

/// Length of the number that a text starts with.
fn length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits =
        |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = number_length(text, Commas::Group);
    // Other commas between digits are kept within the answer: 2,74 or 1,2,3.
    while bytes.get(end) == Some(&b',') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    let fraction = |from: usize| match digits(from) {
        0 => 0,
        numerator if bytes.get(from + numerator) == Some(&b'/') => {
            match digits(from + numerator + 1) {
                0 => 0,
                denominator => numerator + 1 + denominator,
            }
        }
        _ => 0,
    };
    if bytes.get(end) == Some(&b' ') && fraction(end + 1) > 0 {
        end += 1 + fraction(end + 1);
    } else if bytes.get(end) == Some(&b'/') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    let percent = text[end..].len() - text[end..].trim_start_matches([' ', '\\', '$']).len();
    if text[end + percent..].starts_with('%') { end + percent + 1 } else { end }
}
