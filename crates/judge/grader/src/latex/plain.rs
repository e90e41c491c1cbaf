//! Unicode and doubled backslashes, out of the way before text is cut into tokens.

use std::borrow::Cow;

use super::character;

/// A text in ASCII as far as it can be, with single backslashes where all are doubled, as in data
/// that was escaped twice.
pub fn plain(source: &str) -> Cow<'_, str> {
    let source = if is_escaped_twice(source) {
        Cow::Owned(source.replace("\\\\", "\\"))
    } else {
        Cow::Borrowed(source)
    };
    if source.is_ascii() { source } else { Cow::Owned(to_ascii(&source)) }
}

/// Whether every backslash before a letter is doubled, and there is one.
fn is_escaped_twice(source: &str) -> bool {
    let bytes = source.as_bytes();
    let (mut found, mut run) = (false, 0);
    for &byte in bytes {
        match byte {
            b'\\' => run += 1,
            _ if run > 0 => {
                if byte.is_ascii_alphabetic() {
                    if run % 2 == 1 {
                        return false;
                    }
                    found = true;
                }
                run = 0;
            }
            _ => {}
        }
    }
    found
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
            // A fraction after a digit is the rest of a mixed number; the digits are not to run
            // together.
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
