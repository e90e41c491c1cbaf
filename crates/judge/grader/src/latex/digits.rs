//! How far a written number goes.

/// The meaning of a comma between digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commas {
    /// A comma separates answers: `1,234` is 1 and 234.
    Separate,
    /// A comma groups digits where it can: `1,234` is 1234.
    Group,
    /// A comma is the decimal point: `1,234` is 1.234.
    Point,
}

/// Length of the number at the start of a text, with separators between groups of digits. The text
/// begins with a digit or a point.
pub fn number_length(text: &str, commas: Commas) -> usize {
    let bytes = text.as_bytes();
    let digits =
        |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = digits(0);
    if (1..=3).contains(&end) && bytes[0] != b'0' {
        while let Some(separator) = group_separator(&text[end..], commas)
            && digits(end + separator) == 3
            && !is_mixed(&text[end..], separator)
        {
            end += separator + 3;
        }
    }
    let point = if commas == Commas::Point { b',' } else { b'.' };
    if matches!(bytes.get(end), Some(&byte) if byte == point || byte == b'.') && digits(end + 1) > 0
    {
        end += 1 + digits(end + 1);
    }
    // 4.4e7, but not 2e or 2ex.
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        let next = bytes.get(end + 1 + sign + exponent);
        if exponent > 0 && !next.is_some_and(u8::is_ascii_alphabetic) {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// Whether the three digits behind a blank are the numerator of a mixed number, as in 5 121/144. In
/// 10 000/3 they are a group, because a mixed number's fraction is from 0 to 1. 1 234/500 is read
/// as a mixed number too, though 1234/500 may be meant.
fn is_mixed(text: &str, separator: usize) -> bool {
    let (blank, rest) = text.split_at(separator);
    let (numerator, rest) = rest.split_at(3);
    let Some(rest) = rest.strip_prefix('/').filter(|_| matches!(blank, " " | "~" | "\\ ")) else {
        return false;
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let denominator = rest[..digits].trim_start_matches('0');
    let is_proper = denominator.len() > 3 || denominator.len() == 3 && numerator < denominator;
    !numerator.starts_with('0') && is_proper
}

/// Length of the separator of groups of digits at the start of a text, if there is one. Whether
/// three digits follow is not checked.
fn group_separator(text: &str, commas: Commas) -> Option<usize> {
    for spaced in [",\\!", "{,}\\!", " {,} ", " {, }"] {
        if let Some(rest) = text.strip_prefix(spaced) {
            return Some(text.len() - rest.trim_start_matches(' ').len());
        }
    }
    for separator in ["{,}", "\\,", "\\ ", "\\:", "\\;", " ", "~"] {
        if let Some(rest) = text.strip_prefix(separator) {
            let thin = if separator == "{,}" && rest.starts_with("\\!") { 2 } else { 0 };
            return Some(separator.len() + thin);
        }
    }
    (commas == Commas::Group && text.starts_with(',')).then_some(1)
}
