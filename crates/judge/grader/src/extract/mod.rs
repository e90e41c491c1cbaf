//! Finding the answer in a response.

mod aftermath;
mod boxed;
mod denial;
mod hedge;
mod number;
mod operand;
mod related;
mod segments;
mod sentence;
mod statement;

pub use boxed::last_boxed;

use super::latex::is_prose_letter;
use super::options::Extraction;
use super::phrases::statements::{CONCLUSIONS, NAME_VERBS};
use super::reading::Reading;
use aftermath::takes_back;
use denial::denies_next;
use hedge::is_hedged;
use number::with_plain_signs;
use related::with_number_words;
use segments::{is_prose, last_formula, segments};
use sentence::sentence;
use statement::{TAKEN_BACK, answer_in, last_number_outside, stated, stated_as_final};

/// The place in which an answer was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Box,
    /// After words that announce it.
    Statement,
    /// The text is nothing else.
    Whole,
    /// It is the last formula.
    Formula,
    /// It is the last number.
    Number,
}

impl Origin {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Box => "the last box",
            Self::Statement => "the last stated answer",
            Self::Whole => "the whole text",
            Self::Formula => "the last formula",
            Self::Number => "the last number",
        }
    }
}

/// Longest response that can be an answer as a whole, in bytes.
const MAX_WHOLE: usize = 400;

/// The text of a response's answer and where it was found.
pub fn from_response(response: &str, extraction: Extraction) -> Option<(String, Origin)> {
    let response = &with_plain_signs(response);
    let (thought, said) = thought_and_said(response);
    // The beginning of a box that is cut off is no answer.
    let guess =
        || if extraction == Extraction::Any { guessed(boxed::before_open_box(said)) } else { None };
    announced(said, extraction)
        .or_else(guess)
        .or_else(|| announced(thought, Extraction::Boxed))
        .or_else(|| if extraction == Extraction::Any { few_words(said) } else { None })
}

/// Splits a response into its thoughts and its answer, which is empty if it is cut off while it
/// thinks.
fn thought_and_said(response: &str) -> (&str, &str) {
    const END: &str = "</think>";
    match response.rfind(END) {
        Some(place) => response.split_at(place + END.len()),
        None if response.trim_start().starts_with("<think>") => (response, ""),
        None => ("", response),
    }
}

/// The text of a ground truth's answer, which may be a worked solution.
pub fn from_ground_truth(text: &str) -> (String, Origin) {
    let text = text.trim();
    if let Some(found) = announced(text, Extraction::Boxed) {
        return found;
    }
    if let Some(content) = boxed::open_box(text) {
        return (content.into(), Origin::Box);
    }
    if is_prose(text)
        && let Some(answer) = stated(&with_plain_signs(text))
    {
        return (answer, Origin::Statement);
    }
    (text.into(), Origin::Whole)
}

fn announced(text: &str, extraction: Extraction) -> Option<(String, Origin)> {
    let found = boxed::last_boxes(text).or_else(|| boxed::bare_box(text)).map(|(answer, end)| {
        let after = &text[end..];
        let answer = if takes_back(after) {
            format!("{answer}{TAKEN_BACK}")
        } else {
            with_number_words(&answer, after)
        };
        (answer, end)
    });
    let (rest, stated): (_, fn(&str) -> Option<String>) = match &found {
        Some((_, end)) => (&text[*end..], stated_as_final),
        None => (text, stated),
    };
    if extraction != Extraction::Boxed
        && let Some(answer) = stated(rest)
        && (found.is_none() || Reading::of(&answer).is_ok_and(|answer| !answer.is_text()))
    {
        return Some((answer, Origin::Statement));
    }
    found.map(|(answer, _)| (answer, Origin::Box))
}

fn guessed(text: &str) -> Option<(String, Origin)> {
    let text = text.trim();
    let whole = whole(text);
    let one_line = !text.contains('\n') || text.starts_with(['$', '\\']);
    if one_line
        && whole.as_ref().is_some_and(|whole| !whole.is_text() || whole.lone_choice().is_some())
    {
        return Some((text.into(), Origin::Whole));
    }
    if one_line && text.len() <= MAX_WHOLE && is_hedged(text) {
        return Some((text.into(), Origin::Whole));
    }
    if one_line && let Some(tail) = after_foreign_prose(text) {
        return Some((tail.into(), Origin::Formula));
    }
    let formulas = segments(text);
    if let Some(last) = last_formula(text, &formulas) {
        // "Therefore it is 5." after the last formula is more of an answer.
        let rest = &text[last.end..];
        if let Some(answer) = conclusion(rest)
            .and_then(answer_in)
            .filter(|answer| answer.contains(|c: char| c.is_ascii_digit()))
        {
            return Some((answer, Origin::Number));
        }
        let formula = text[last.content.0..last.content.1].trim();
        // "The value of $x$ is 5."
        if let Some(answer) = value_of(formula, rest) {
            return Some((answer, Origin::Number));
        }
        return Some((with_number_words(formula, rest), Origin::Formula));
    }
    let (start, end) = last_number_outside(text, 0)?;
    Some((with_number_words(&text[start..end], &text[end..]), Origin::Number))
}

/// The number that the words after a name say that it is.
fn value_of(name: &str, after: &str) -> Option<String> {
    let said = sentence(after);
    let value = NAME_VERBS.iter().find_map(|verb| said.strip_prefix(verb))?;
    let is_name = !name.contains(|c: char| c.is_ascii_digit() || c == '=');
    is_name
        .then(|| answer_in(value))?
        .filter(|answer| answer.contains(|c: char| c.is_ascii_digit()))
}

/// A text that is words only, and no more of them than an answer may have.
fn few_words(text: &str) -> Option<(String, Origin)> {
    let text = text.trim();
    (text.split_whitespace().count() <= 3 && whole(text).is_some())
        .then(|| (text.into(), Origin::Whole))
}

/// The whole text, if it may be an answer.
fn whole(text: &str) -> Option<Reading> {
    if text.len() <= MAX_WHOLE { Reading::of(text).ok() } else { None }
}

/// The text after the last letter that no formula uses, if it is an answer: √2 of "Ответ: √2".
fn after_foreign_prose(text: &str) -> Option<&str> {
    let (place, letter) = text.char_indices().rfind(|(_, letter)| is_prose_letter(*letter))?;
    let (prose, tail) = text.split_at(place + letter.len_utf8());
    let tail = tail.trim_matches(|c: char| c.is_whitespace() || ":：。*".contains(c));
    let reading = Reading::of(tail).ok()?;
    (!reading.is_text() && !denies_next(prose)).then_some(tail)
}

/// The last sentence that draws a conclusion.
fn conclusion(text: &str) -> Option<&str> {
    let place = CONCLUSIONS
        .iter()
        .filter_map(|word| text.rfind(word).map(|place| place + word.len()))
        .max()?;
    let rest = text[place..].trim_start_matches([',', ' ']);
    let end = rest.find(". ").or_else(|| rest.find('\n')).unwrap_or(rest.len());
    Some(&rest[..end])
}

#[cfg(test)]
mod tests;
