//! Replaces Unicode by ASCII before text is cut into tokens.

use std::borrow::Cow;

use super::character;

/// A text in ASCII as far as it can be.
pub fn plain(source: &str) -> Cow<'_, str> {
    if source.is_ascii() { Cow::Borrowed(source) } else { Cow::Owned(to_ascii(source)) }
}

fn to_ascii(source: &str) -> String {
    let mut text = String::with_capacity(source.len() + 16);
    let mut characters = source.chars().peekable();
    while let Some(character) = characters.next() {
        for (open, part) in [
            ("^{", character::superscript as fn(char) -> Option<char>),
            ("_{", character::subscript as fn(char) -> Option<char>),
        ] {
            if let Some(first) = part(character) {
                text.push_str(open);
                text.push(first);
                while let Some(next) = characters.peek().copied().and_then(part) {
                    text.push(next);
                    characters.next();
                }
                text.push('}');
            }
        }
        if character::superscript(character).is_some() || character::subscript(character).is_some()
        {
            continue;
        }
        match character::latex(character) {
            // A fraction after a digit is the rest of a mixed number. A space keeps the digits
            // apart.
            Some(latex) => {
                text.push_str(latex);
                if latex.starts_with('\\') && latex.ends_with(|c: char| c.is_ascii_alphabetic()) {
                    text.push(' ');
                }
            }
            None if character.is_whitespace() => text.push(' '),
            None => text.push(character::narrow(character).unwrap_or(character)),
        }
    }
    text
}
