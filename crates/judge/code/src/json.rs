//! JSON of data and of jails as values: integers of any size are exact, and what is read has a
//! bound.
//!
//! A [`Value`] has no integers beyond 64 bits. They are objects of one form here, [`large`], in
//! what is expected as in what is found; nothing else has that form.

use std::borrow::Cow;

use num_bigint::BigInt;
use serde_json::{Value, json};

/// Most digits of an integer. Python reads fewer from a text.
const MOST_DIGITS: usize = 100_000;

/// Longest integer that a message shows in decimal digits, in bytes of hexadecimal ones.
const SHOWN: usize = 1000;

/// Key of what a value of Python is that JSON has nothing for, and that of what is in it.
const KIND: &str = "a value of Python";
const CONTENT: &str = "holds";

/// The kind of a large integer.
const INTEGER: &str = "int";

/// Why a text cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// It has more values and keys than it may.
    #[error("more than {0} values")]
    TooMany(usize),
    /// It is no JSON.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
}

/// Reads JSON of `most` values and keys at most; they take far more memory than their text.
///
/// # Errors
/// [`Unread`].
pub fn read(text: &str, most: usize) -> Result<Value, Unread> {
    let (text, signs) = marked(text);
    if signs > most {
        return Err(Unread::TooMany(most));
    }
    Ok(serde_json::from_str(&text)?)
}

/// About how many values and keys a text of JSON has: the signs that stand before one.
pub fn size(text: &str) -> usize {
    marked(text).1
}

/// A text of JSON in which each integer beyond 64 bits is written as [`large`] writes it, and how
/// many values and keys it has.
fn marked(text: &str) -> (Cow<'_, str>, usize) {
    let bytes = text.as_bytes();
    let (mut marked, mut copied, mut signs) = (String::new(), 0, 0);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |b: &u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
                let length = bytes[at..].iter().take_while(|b| is_part(b)).count();
                if let Some(number) = beyond(&text[at..at + length]) {
                    marked.push_str(&text[copied..at]);
                    marked.push_str(&large(&number).to_string());
                    copied = at + length;
                }
                at += length;
            }
            _ => {
                signs += usize::from(matches!(byte, b'[' | b'{' | b','));
                at += 1;
            }
        }
    }
    if copied == 0 {
        return (text.into(), signs);
    }
    marked.push_str(&text[copied..]);
    (marked.into(), signs)
}

/// The place behind a string that starts at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The integer that is written so, if it has more than 64 bits.
fn beyond(token: &str) -> Option<BigInt> {
    let digits = token.strip_prefix('-').unwrap_or(token);
    let is_integer = (19..=MOST_DIGITS).contains(&digits.len())
        && !digits.starts_with('0')
        && digits.bytes().all(|b| b.is_ascii_digit());
    (is_integer && token.parse::<i64>().is_err() && token.parse::<u64>().is_err())
        .then(|| token.parse().ok())?
}

/// A value of Python of a kind that JSON lacks.
pub fn unknown(kind: &str, content: Value) -> Value {
    json!({KIND: kind, CONTENT: content})
}

/// An integer: a number where JSON has one for it.
pub fn large(number: &BigInt) -> Value {
    match (i64::try_from(number), u64::try_from(number)) {
        (Ok(number), _) => number.into(),
        (_, Ok(number)) => number.into(),
        _ => unknown(INTEGER, hexadecimal(number).into()),
    }
}

/// An integer as Python's `hex` writes it.
pub fn hexadecimal(number: &BigInt) -> String {
    format!("{number:#x}")
}

/// The integer that Python's `hex` has written so.
pub fn of_hexadecimal(text: &str) -> Option<BigInt> {
    let (digits, is_negative) = match text.strip_prefix('-') {
        Some(rest) => (rest.strip_prefix("0x")?, true),
        None => (text.strip_prefix("0x")?, false),
    };
    let is_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_digits.then(|| BigInt::parse_bytes(digits.as_bytes(), 16))??;
    Some(if is_negative { -number } else { number })
}

/// The integer that a value is, of any size.
pub fn integer(value: &Value) -> Option<BigInt> {
    match value {
        Value::Number(number) => number.as_i128().map(BigInt::from),
        Value::Bool(truth) => Some(BigInt::from(u8::from(*truth))),
        Value::Object(_) => of_hexadecimal(large_digits(value)?),
        _ => None,
    }
}

/// Whether a value is an integer beyond 64 bits.
pub fn is_large(value: &Value) -> bool {
    large_digits(value).is_some()
}

/// The hexadecimal digits of a value that [`large`] has made.
fn large_digits(value: &Value) -> Option<&str> {
    (value.get(KIND)? == INTEGER).then(|| value.get(CONTENT)?.as_str())?
}

/// A value as JSON would have it if its integers had no bound.
pub fn text(value: &Value) -> String {
    if let Some(digits) = large_digits(value) {
        let number = if digits.len() > SHOWN { None } else { of_hexadecimal(digits) };
        return number.map_or_else(|| digits.to_owned(), |number| number.to_string());
    }
    let joined = |parts: Vec<String>| parts.join(",");
    match value {
        Value::Array(items) => format!("[{}]", joined(items.iter().map(text).collect())),
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| format!("{}:{}", json!(key), text(value));
            format!("{{{}}}", joined(entries.iter().map(entry).collect()))
        }
        scalar => scalar.to_string(),
    }
}

/// A float as Python prints it.
pub fn float(number: f64) -> String {
    let plain = number == 0.0 || (1e-4..1e16).contains(&number.abs());
    let scientific = format!("{number:e}");
    match scientific.split_once('e') {
        Some((digits, exponent)) if !plain => {
            let (sign, exponent) =
                exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        _ => format!("{number:?}"),
    }
}

/// Whether there is a number in a value that may have been an integer beyond 64 bits and was
/// rounded where it was read.
pub fn is_rounded(value: &Value) -> bool {
    const BELOW: f64 = -9_223_372_036_854_775_808.0;
    const ABOVE: f64 = 18_446_744_073_709_551_616.0;
    match value {
        Value::Number(number) => {
            number.is_f64() && number.as_f64().is_some_and(|n| !(BELOW < n && n < ABOVE))
        }
        Value::Array(items) => items.iter().any(is_rounded),
        Value::Object(entries) => entries.values().any(is_rounded),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_are_exact() {
        let value = read(
            r#"[18446744073709551615, 18446744073709551616, -9223372036854775809, 1e+20, "123456789012345678901"]"#,
            9,
        );
        let value = value.unwrap();
        assert_eq!(
            (&value[0], &value[3], &value[4]),
            (&json!(u64::MAX), &json!(1e20), &json!("123456789012345678901"))
        );
        assert_eq!(value[1], large(&BigInt::from(1_u128 << 64)));
        assert_eq!(integer(&value[2]), Some(BigInt::from(-(1_i128 << 63) - 1)));
        assert_eq!(
            text(&value),
            r#"[18446744073709551615,18446744073709551616,-9223372036854775809,1e+20,"123456789012345678901"]"#
        );
        // 10 ** 400, which no float holds.
        let huge = format!("1{}", "0".repeat(400));
        assert_eq!(
            text(&read(&format!("{{\"a\\\"\": {huge}}}"), 9).unwrap()),
            format!("{{\"a\\\"\":{huge}}}")
        );
        for wrong in
            ["012345678901234567890123", "1234567890123456789012-3", "[12345678901234567890123"]
        {
            assert!(matches!(read(wrong, 9), Err(Unread::Malformed(_))), "{wrong}");
        }
    }

    #[test]
    fn values_are_counted_before_they_are_read() {
        assert_eq!(size(r#"{"a,[": [1, 2, {}], "b\"": ","}"#), 6);
        assert!(read("[1, 2]", 2).is_ok());
        assert!(matches!(read("[1, 2, 3]", 2), Err(Unread::TooMany(2))));
    }

    #[test]
    fn floats_are_printed_as_python_does() {
        // Each beside Python's repr.
        for (number, printed) in [
            (100_000.0, "100000.0"),
            (0.0, "0.0"),
            (-0.5, "-0.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (9_007_199_254_740_992.0, "9007199254740992.0"),
            (1e16, "1e+16"),
            (-1.25e200, "-1.25e+200"),
        ] {
            assert_eq!(float(number), printed);
        }
    }

    #[test]
    fn a_rounded_integer_is_seen() {
        assert!(is_rounded(&json!([{"a": 1e20}])));
        assert!(is_rounded(&serde_json::from_str("-9223372036854775809").unwrap()));
        assert!(!is_rounded(&json!([u64::MAX, i64::MIN, 1e19, "1e20"])));
    }

    proptest! {
        #[test]
        fn any_integer_is_itself(number in any::<i128>()) {
            let value = read(&number.to_string(), 0).unwrap();
            prop_assert_eq!(integer(&value), Some(BigInt::from(number)));
            prop_assert_eq!(text(&value), number.to_string());
            prop_assert_eq!(of_hexadecimal(&hexadecimal(&BigInt::from(number))), Some(BigInt::from(number)));
        }

        #[test]
        fn any_text_can_be_read(text in "[\\[{,\\]}\"\\\\0-9.eE -]{0,60}") {
            let (read, plain) = (read(&text, 100), serde_json::from_str::<Value>(&text));
            prop_assert_eq!(read.is_ok(), plain.is_ok());
        }
    }
}
