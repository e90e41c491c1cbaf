//! Finds numbers in prose that are parts of a formula: 64 of "it is 73 + 64", 5 of "√5", 137 of a
//! `\frac{1}{137` that is cut off.

use super::super::phrases::formulas::is_operator;
use super::segments::segments;

/// Characters of formulas, beside digits, commands and single letters.
const MARKS: &str = "+-*/^_×÷·⋅√∛−–.,:%!(){}[]\\$ ";

/// Characters that are always operators between numbers.
const SIGNS: [char; 5] = ['×', '÷', '·', '⋅', '^'];

/// Start and end of the formula that has a number as an operand; `None` if the number stands alone.
pub fn formula_around(text: &str, (start, end): (usize, usize)) -> Option<(usize, usize)> {
    (ends_in_operator(&text[..start]) || starts_with_operator(&text[end..])).then(|| {
        let mut from = start - formula_before(&text[..start]);
        let to = end + formula_after(&text[end..]);
        from += text[from..start].len()
            - text[from..start].trim_start_matches([' ', '$', '*', '.', ',', ':', ')']).len();
        // "tax + 5" is not +5.
        if text[from..].starts_with(|c: char| "+-*/−–".contains(c) || SIGNS.contains(&c)) {
            let before = text[..from].trim_end();
            from = before.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        }
        let last = text[end..to].trim_end_matches([' ', '$', '*', '.', ',', ':', '(']).len();
        (from, end + last)
    })
}

/// Whether a brace after a text holds an operand: a power, an index, or an argument of a command
/// that computes.
pub fn takes_operand(before: &str) -> bool {
    let before = before.trim_end();
    // A second argument comes after the first.
    let command = match before.char_indices().next_back() {
        Some((end, '}')) => before[..end].rfind('{').map_or("", |start| &before[..start]),
        Some((end, ']')) => before[..end].rfind('[').map_or("", |start| &before[..start]),
        _ => before,
    };
    before.ends_with(['^', '_']) || ends_in_command(command)
}

/// Whether a text ends in an operator, so that what follows is its operand.
pub fn ends_in_operator(before: &str) -> bool {
    let left = before.trim_end_matches([' ', '$']);
    let Some(last) = left.chars().next_back() else { return false };
    let rest = &left[..left.len() - last.len_utf8()];
    let value = rest.trim_end_matches([' ', '$']);
    let follows_value =
        value.ends_with(|c: char| c.is_ascii_digit() || matches!(c, ')' | ']' | '}' | '%' | '!'));
    let is_apart = left.len() < before.len();
    let is_alike = is_apart == (value.len() < rest.len());
    match last {
        '√' | '∛' => true,
        '+' => follows_value || value.ends_with(char::is_alphabetic),
        '-' | '−' | '–' => follows_value && is_alike && is_apart,
        // A star is not an operator in italics or before an item of a list.
        '*' => {
            is_alike
                && (follows_value
                    || rest
                        .strip_suffix('*')
                        .is_some_and(|base| base.ends_with(|c: char| c.is_ascii_digit())))
        }
        '/' => follows_value,
        ':' => follows_value && is_alike && !is_apart,
        '{' => rest.ends_with(['}', '^', '_']) || ends_in_command(rest),
        _ if SIGNS.contains(&last) => {
            value.ends_with(|c: char| c.is_alphanumeric() || ")]}%!".contains(c))
        }
        _ => ends_in_command(left),
    }
}

/// Whether a text ends in a command that computes with what follows.
fn ends_in_command(text: &str) -> bool {
    let letters = text.bytes().rev().take_while(u8::is_ascii_alphabetic).count();
    let (before, name) = text.split_at(text.len() - letters);
    before.ends_with('\\') && is_operator(name)
}

/// Whether the text after a number begins with an operator that makes the number an operand, before
/// it or after it.
fn starts_with_operator(after: &str) -> bool {
    let right = after.trim_start_matches([' ', '$']);
    let Some(first) = right.chars().next() else { return false };
    let rest = &right[first.len_utf8()..];
    let value = rest.trim_start_matches([' ', '$']);
    let is_apart = right.len() < after.len();
    let is_alike = is_apart == (value.len() < rest.len());
    let is_letter = value.starts_with(|c: char| c.is_alphabetic())
        && !value.chars().nth(1).is_some_and(|c| c.is_alphanumeric() || c == '\'');
    let precedes_value =
        is_letter || value.starts_with(|c: char| c.is_ascii_digit() || "(\\√.".contains(c));
    let is_cut_off = is_apart && value.trim_end().is_empty();
    match first {
        '+' => is_cut_off || precedes_value,
        '-' | '−' | '–' => is_apart && (is_cut_off || is_alike && precedes_value),
        '*' => is_cut_off || is_alike && precedes_value,
        '/' => is_cut_off || precedes_value,
        // A factorial, not the end of a sentence.
        '!' => rest.trim_start().starts_with(|c: char| c.is_lowercase() || "+-*/^".contains(c)),
        '\\' => {
            let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
            is_operator(&rest[..letters])
        }
        _ => SIGNS.contains(&first),
    }
}

/// Length of the formula's start at the end of a text.
fn formula_before(text: &str) -> usize {
    let mut rest = text;
    while let Some(last) = rest.chars().next_back() {
        if !last.is_ascii_alphabetic() {
            if !last.is_ascii_digit() && !MARKS.contains(last) {
                break;
            }
            rest = &rest[..rest.len() - last.len_utf8()];
            continue;
        }
        let word = rest.bytes().rev().take_while(u8::is_ascii_alphabetic).count();
        let before = &rest[..rest.len() - word];
        match before.strip_suffix('\\') {
            Some(before) => rest = before,
            // A variable.
            None if word == 1 => rest = before,
            None => break,
        }
    }
    text.len() - rest.len()
}

/// Length of the formula's end at the start of a text.
fn formula_after(text: &str) -> usize {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let letters =
            rest.trim_start_matches('\\').bytes().take_while(u8::is_ascii_alphabetic).count();
        rest = match first {
            '\\' => &rest[rest.len() - rest.trim_start_matches('\\').len() + letters..],
            _ if first.is_ascii_alphabetic() && letters > 1 => break,
            // The end of bold text, or a power in Python.
            '*' if rest
                .strip_prefix("**")
                .is_some_and(|power| !power.starts_with(char::is_alphanumeric)) =>
            {
                break;
            }
            _ if first.is_ascii_alphanumeric() || MARKS.contains(first) => {
                &rest[first.len_utf8()..]
            }
            _ => break,
        };
    }
    text.len() - rest.len()
}

/// Cuts a text before the first formula, brace or bracket of its last paragraph that is not closed:
/// there the response was cut off.
pub fn before_unclosed(text: &str) -> &str {
    let start = text.rfind("\n\n").map_or(0, |place| place + 2);
    let paragraph = &text[start..];
    let (mut braces, mut brackets, mut formulas) = (Vec::new(), Vec::new(), Vec::new());
    let mut escaped = false;
    for (place, byte) in paragraph.bytes().enumerate() {
        match byte {
            b'(' | b'[' if escaped => formulas.push(place - 1),
            b')' | b']' if escaped => drop(formulas.pop()),
            _ if escaped => {}
            b'{' => braces.push(place),
            b'}' => drop(braces.pop()),
            b'(' | b'[' => brackets.push(place),
            b')' | b']' => drop(brackets.pop()),
            _ => {}
        }
        escaped = byte == b'\\' && !escaped;
    }
    // A bracket of words is no tuple.
    let is_formula = |&place: &usize| {
        let content = &paragraph[place + 1..];
        formula_after(content) == content.len()
    };
    let bracket = brackets.last().copied().filter(is_formula);
    let cut = [braces.first().copied(), bracket, formulas.first().copied(), open_dollar(paragraph)];
    cut.into_iter().flatten().min().map_or(text, |place| &text[..start + place])
}

/// Start of a formula in dollars that is never closed. One dollar at a number is money.
fn open_dollar(text: &str) -> Option<usize> {
    let last = text.rfind('$')?;
    if segments(text).last().is_some_and(|formula| last < formula.end)
        || text[..last].ends_with('\\')
    {
        return None;
    }
    if text[..last].ends_with('$') {
        return Some(last - 1);
    }
    let is_money = text[..last].ends_with(|c: char| c.is_ascii_digit())
        || text[last + 1..].starts_with(|c: char| {
            c.is_ascii_digit() || c.is_whitespace() || ".,;:)*-".contains(c)
        });
    (!is_money && last + 1 < text.len()).then_some(last)
}
