//! Finds the ends of sentences, and answers that are whole sentences.

use super::super::reading::Reading;
use super::segments::{bare, segments};

/// Longest sentence that is looked at, in bytes.
const MAX_SENTENCE: usize = 1000;

/// The first sentence of a text that is not empty. Formulas are not cut.
pub fn sentence(text: &str) -> &str {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | ':' | '_'));
    let mut limit = text.len().min(MAX_SENTENCE);
    while !text.is_char_boundary(limit) {
        limit -= 1;
    }
    let text = &text[..limit];
    let formulas = segments(text);
    let bytes = text.as_bytes();
    let mut place = 0;
    while place < bytes.len() {
        if let Some(formula) = formulas.iter().find(|formula| formula.start == place) {
            place = formula.end;
            continue;
        }
        let next = bytes.get(place + 1);
        let ends = match bytes[place] {
            b'\n' => true,
            b'.' => next.is_none_or(|next| {
                next.is_ascii_whitespace() || matches!(next, b'<' | b'*' | b'"' | b'[')
            }),
            b'<' => matches!(next, Some(b'|' | b'/')),
            _ => false,
        };
        if ends {
            return &text[..place];
        }
        place += 1;
    }
    text
}

/// A sentence without surrounding marks.
pub fn bare_sentence(sentence: &str) -> &str {
    let sentence = sentence.trim().trim_matches('*').trim_end_matches(['.', '"']).trim();
    sentence.strip_prefix('"').unwrap_or(sentence)
}

/// The answer that a sentence is as a whole.
pub fn whole_answer(sentence: &str) -> Option<String> {
    let sentence = bare_sentence(sentence);
    let reading = Reading::of(sentence).ok()?;
    (!reading.is_text() || reading.choice.is_some()).then(|| bare(sentence).into())
}
