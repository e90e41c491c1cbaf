//! Letters of a multiple choice: "(C)", "C. 12", "C) because ...".

use super::phrases::denials::{CHOICE_MAY_SAY, CHOICE_PREDICATES, NO, UNDETERMINED, is_negation};
use super::phrases::statements::{AND, CHOICE_NAMES, OR};

/// The letter of the choice that bare text starts with, and the text after it, if any. A text
/// chooses nothing if it names a second letter, or says that the first is wrong.
pub fn choice(bare: &str) -> Option<(char, Option<&str>)> {
    let bare =
        CHOICE_NAMES.iter().find_map(|word| bare.strip_prefix(word)).map_or(bare, str::trim_start);
    let open = bare.starts_with('(');
    let rest = bare.strip_prefix('(').unwrap_or(bare);
    let letter = rest.chars().next().filter(is_label)?;
    let rest = rest[1..].trim_start();
    let after = match rest.strip_prefix([')', '.', ':']) {
        Some(after) => after.trim(),
        None if rest.is_empty() && !open => "",
        None => return None,
    };
    // After a dot or a bracket "No" may be the choice itself.
    let is_no = rest.starts_with(':') && NO.contains(&after.trim_end_matches(['.', '!']));
    if is_no || names_other(after, letter) || denies(after) || continues(after) {
        return None;
    }
    Some((letter, (!after.is_empty()).then_some(after)))
}

/// Whether the text after a label makes the label a part of something else: C + 1; E, 17.
fn continues(after: &str) -> bool {
    let listed = after
        .strip_prefix(',')
        .is_some_and(|next| next.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    listed || after.starts_with(['+', '*', '/', '^', '='])
}

fn is_label(letter: &char) -> bool {
    ('A'..='J').contains(letter)
}

/// Whether a text has the label of a choice other than `letter`: "(B)", "B) 5", "B. 5", or B alone
/// in a list.
pub fn names_other(text: &str, letter: char) -> bool {
    labels(text).any(|label| label != letter)
}

/// The labels of choices in a text.
fn labels(text: &str) -> impl Iterator<Item = char> {
    text.char_indices().filter(|(_, character)| is_label(character)).filter_map(
        |(place, letter)| {
            let (before, after) = (&text[..place], &text[place + 1..]);
            let is_label = match (before.strip_suffix('('), after.strip_prefix(')')) {
                // P(A) is a function's value.
                (Some(before), Some(_)) => !before.ends_with(char::is_alphabetic),
                (Some(_), None) => false,
                (None, _)
                    if before.ends_with(|c: char| c.is_alphanumeric() || "\\_^'".contains(c)) =>
                {
                    false
                }
                (None, Some(_)) => !before.contains('('),
                // "Angle B." only ends a sentence.
                (None, None) if after.starts_with(['.', ':']) && !after[1..].trim().is_empty() => {
                    true
                }
                (None, None) => is_listed(before, after),
            };
            is_label.then_some(letter)
        },
    )
}

/// Whether a letter is an item of a list: between commas, "and", "or", or the ends of the text.
fn is_listed(before: &str, after: &str) -> bool {
    let (before, after) = (before.trim_end(), after.trim_start());
    let last = before.rsplit(char::is_whitespace).next().unwrap_or("");
    let next = after.split(char::is_whitespace).next().unwrap_or("");
    let starts =
        before.is_empty() || before.ends_with([',', ';', '/', '&']) || matches!(last, AND | OR);
    let ends = after.is_empty()
        || after.starts_with([',', ';', '/', '&', '.', ')'])
        || matches!(next, AND | OR);
    starts && ends
}

/// Whether the text after a label says that the choice is wrong. That text may be the choice
/// itself, such as "False", "Not enough information" or "cannot be determined", so only a predicate
/// of the label denies.
fn denies(after: &str) -> bool {
    let lower = after.to_ascii_lowercase().replace('’', "'");
    let mut words = lower
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .peekable();
    let is_predicate = words.peek().is_some_and(|first| {
        CHOICE_PREDICATES.contains(first) || is_negation(first) && !CHOICE_MAY_SAY.contains(first)
    });
    is_predicate && !lower.contains(UNDETERMINED) && words.any(is_negation)
}
