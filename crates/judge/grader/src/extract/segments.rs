//! Formulas in a text: `$...$`, `$$...$$`, `\(...\)`, `\[...\]`.

use super::denial::denies_next;
use super::related::relates_next;

/// The range of a formula with its delimiters, and the range of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte of the opening delimiter.
    pub start: usize,
    /// First byte after the closing delimiter.
    pub end: usize,
    pub content: (usize, usize),
}

const DELIMITERS: [(&str, &str); 4] = [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")];

/// A text without its delimiters, if it is one formula as a whole.
pub fn bare(text: &str) -> &str {
    match segments(text)[..] {
        [only] if only.start == 0 && only.end == text.len() => {
            text[only.content.0..only.content.1].trim()
        }
        _ => text,
    }
}

/// The formulas of a text in order, in time linear in its length. A dollar before prose is money.
pub fn segments(text: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    // For each kind of delimiter, whether one may still close later.
    let mut closable = [true; DELIMITERS.len()];
    let bytes = text.as_bytes();
    let mut place = 0;
    while place < bytes.len() {
        if !matches!(bytes[place], b'$' | b'\\') {
            place += 1;
            continue;
        }
        let rest = &text[place..];
        if rest.starts_with("\\$") || rest.starts_with("\\\\") {
            place += 2;
            continue;
        }
        let kind = DELIMITERS.iter().position(|(open, _)| rest.starts_with(open));
        let Some(kind) = kind.filter(|&kind| closable[kind]) else {
            place += 1;
            continue;
        };
        let (open, close) = DELIMITERS[kind];
        let start = place + open.len();
        match close_of(&text[start..], close) {
            None => {
                closable[kind] = false;
                place = start;
            }
            Some(length) if kind == 1 && is_prose(&text[start..start + length]) => place = start,
            Some(length) => {
                let end = start + length + close.len();
                segments.push(Segment { start: place, end, content: (start, start + length) });
                place = end;
            }
        }
    }
    segments
}

/// The last formula of a text that is not denied.
pub fn last_formula<'s>(text: &str, segments: &'s [Segment]) -> Option<&'s Segment> {
    let is_whole = |before: &str| !denies_next(before) && !relates_next(before);
    segments.iter().rfind(|segment| is_whole(&text[..segment.start]))
}

/// The next delimiter that is not escaped.
fn close_of(text: &str, close: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let place = from + text[from..].find(close)?;
        let backslashes = text[..place].bytes().rev().take_while(|&byte| byte == b'\\').count();
        if close.starts_with('\\') || backslashes % 2 == 0 {
            return Some(place);
        }
        from = place + 1;
    }
}

/// Most bytes of prose that are looked at; a formula in dollars is rarely longer.
const MAX_PROSE: usize = 400;

/// Whether a text has three words or more outside braces.
pub fn is_prose(text: &str) -> bool {
    let mut depth = 0usize;
    let mut words = 0;
    let mut length = 0;
    let mut before = b' ';
    for byte in text.bytes().take(MAX_PROSE).chain([b' ']) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if byte.is_ascii_alphabetic() && depth == 0 && (length > 0 || before == b' ') {
            length += 1;
        } else {
            words += usize::from(length >= 2 && !byte.is_ascii_alphanumeric());
            length = 0;
        }
        before = byte;
    }
    words >= 3
}
