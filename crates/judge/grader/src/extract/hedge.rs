//! Finds sentences that do not settle on one value: "4, maybe 5", "4 or 5, I'm not sure", "at least
//! 4", "4 times 5".

use super::super::equal::same_answer;
use super::super::options::Options;
use super::super::phrases::has_pair;
use super::super::phrases::hedges::{
    AFTER_OR, ALSO, BEFORE_BOUND, BETWEEN, BOUNDS, DOUBTS, EITHER, IN, MORE_OR_LESS, ONE_OF,
    OPERATIONS, RATHER, THAN, TIMES,
};
use super::super::phrases::statements::OR;
use super::super::phrases::units::multiplies;
use super::denial::{COMPARISONS, denies_claim};
use super::number::leading_number;
use super::segments::segments;
use super::sentence::whole_answer;

/// Whether a sentence, which is no answer as a whole, settles on no value. It then equals no single
/// answer.
pub fn is_hedged(sentence: &str) -> bool {
    let lower = sentence.to_ascii_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_choice = words.first() == Some(&EITHER) && words.contains(&OR);
    is_choice
        || is_compared(&lower)
        || is_one_of(&lower)
        || denies_claim(&lower)
        || words.windows(2).any(|pair| matches!(pair, [OR, doubt] if DOUBTS.contains(doubt)))
        || is_bound(&words)
        || words.first() == Some(&BETWEEN)
        || is_computed(&lower)
        || has_alternative(sentence, &lower)
}

/// Whether a sentence begins with a comparison sign and a bound: "> 5", "\\geq 5".
fn is_compared(lower: &str) -> bool {
    let rest = match COMPARISONS.iter().find_map(|sign| lower.strip_prefix(sign)) {
        Some(rest) => rest.trim_start(),
        None if lower.starts_with(['<', '>', '≤', '≥', '≠']) => {
            lower.trim_start_matches(['<', '>', '≤', '≥', '≠', '=', ' '])
        }
        None => return false,
    };
    leading_value(rest).is_some()
}

/// Whether a sentence begins with several possible values: "one of 1, 2, 3", "in {1, 2}".
fn is_one_of(lower: &str) -> bool {
    let is_set = |rest: &str| {
        rest.trim_start_matches([' ', '\\', '$']).starts_with('{') && rest.contains(',')
    };
    let is_several = |rest: &str| is_set(rest) || leading_value(rest.trim_start()).is_some();
    ONE_OF.iter().any(|words| lower.strip_prefix(words).is_some_and(is_several))
        || lower.strip_prefix(IN).is_some_and(is_set)
}

/// Whether words begin as a bound does.
fn is_bound(words: &[&str]) -> bool {
    let words = match words {
        [first, rest @ ..] if BEFORE_BOUND.contains(first) => rest,
        words => words,
    };
    matches!(words, [first, second, ..] if has_pair(BOUNDS, first, second))
}

/// Whether a sentence begins with a value that is only an operand: "4 times 5", "4 more than 5".
fn is_computed(lower: &str) -> bool {
    let Some((_, rest)) = leading_value(lower) else { return false };
    let rest = rest.trim_start();
    OPERATIONS.split('|').any(|operation| rest.starts_with(operation))
        || rest
            .strip_prefix(TIMES)
            .is_some_and(|operand| leading_value(operand.trim_start()).is_some())
        || is_difference(rest)
}

/// Whether words compare something with something else: "more than", "times as many".
fn is_difference(rest: &str) -> bool {
    let mut words = rest.split_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    second == THAN && first != RATHER || multiplies(first, second)
}

/// Whether a sentence is a value and then another: after "or", "maybe" and the like.
fn has_alternative(sentence: &str, lower: &str) -> bool {
    let separator = [OR]
        .iter()
        .chain(DOUBTS)
        .chain(ALSO)
        .filter_map(|word| word_place(lower, word).map(|place| (place, place + word.len())))
        .min();
    let Some((start, end)) = separator else { return false };
    let Some(value) = whole_answer(sentence[..start].trim_end_matches([' ', ',', ';', '(', '[']))
    else {
        return false;
    };
    let rest = after_fillers(&sentence[end..]);
    if MORE_OR_LESS.iter().any(|word| starts_with_word(rest, word)) {
        return true;
    }
    leading_value(rest).is_some_and(|(other, _)| !same_answer(&value, other, &Options::default()))
}

/// The first place of a whole word.
fn word_place(lower: &str, word: &str) -> Option<usize> {
    lower.match_indices(word).map(|(place, _)| place).find(|&place| {
        !lower[..place].ends_with(|c: char| c.is_alphanumeric() || c == '\\')
            && !lower[place + word.len()..].starts_with(char::is_alphanumeric)
    })
}

/// Whether a word stands at the start of a text.
pub fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// A text without the filler words between "or" and a value.
fn after_fillers(mut text: &str) -> &str {
    loop {
        text = text.trim_start_matches([' ', ',']);
        match AFTER_OR.split(' ').find(|word| starts_with_word(text, word)) {
            Some(word) => text = &text[word.len()..],
            None => return text,
        }
    }
}

/// The formula or number at the start of a text, and the text after it.
fn leading_value(text: &str) -> Option<(&str, &str)> {
    if let Some(first) = segments(text).first().filter(|first| first.start == 0) {
        return Some((&text[first.content.0..first.content.1], &text[first.end..]));
    }
    leading_number(text).map(|end| text.split_at(end))
}
