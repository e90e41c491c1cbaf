//! Reads JSON from data and from jails, with a bound on its size, and without rounding integers.

use serde_json::Value;

/// Why a text cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The text has more values and keys than the limit.
    #[error("more than {0} values")]
    TooMany(usize),
    /// The text has an integer that a [`Value`] would round.
    #[error("an integer beyond 64 bits")]
    Large,
    /// It is no JSON.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
}

/// Reads JSON with at most `most` values and keys, because these take far more memory than their
/// text.
pub fn read(text: &str, most: usize) -> Result<Value, ReadError> {
    let (signs, large) = scan(text);
    if signs > most {
        return Err(ReadError::TooMany(most));
    }
    let value = serde_json::from_str(text)?;
    if large.is_some() { Err(ReadError::Large) } else { Ok(value) }
}

/// About how many values and keys a JSON text has, counted by the characters that precede one.
pub fn size(text: &str) -> usize {
    scan(text).0
}

/// The first integer in a JSON text that a [`Value`] would round.
pub fn large_integer(text: &str) -> Option<&str> {
    scan(text).1
}

/// The number of characters in a JSON text that precede a value or a key, and its first integer
/// beyond 64 bits.
fn scan(text: &str) -> (usize, Option<&str>) {
    let bytes = text.as_bytes();
    let (mut signs, mut large, mut at) = (0, None, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |b: &u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
                let length = bytes[at..].iter().take_while(|b| is_part(b)).count();
                large = large.or(Some(&text[at..at + length]).filter(|token| is_beyond(token)));
                at += length;
            }
            _ => {
                signs += usize::from(matches!(byte, b'[' | b'{' | b','));
                at += 1;
            }
        }
    }
    (signs, large)
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

fn is_beyond(token: &str) -> bool {
    let is_integer = !token.contains(['.', 'e', 'E']);
    is_integer && token.parse::<i64>().is_err() && token.parse::<u64>().is_err()
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

/// Whether a value has a number that may be a rounded integer beyond 64 bits.
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
    use serde_json::json;

    #[test]
    fn integers_are_exact_or_refused() {
        let exact = r#"[18446744073709551615,-9223372036854775808,1e+20,"123456789012345678901"]"#;
        assert_eq!(read(exact, 9).unwrap().to_string(), exact);
        for large in ["[18446744073709551616]", "{\"a\\\"\": -9223372036854775809}"] {
            assert!(matches!(read(large, 9), Err(ReadError::Large)), "{large}");
        }
        assert!(is_rounded(&json!([{"a": 1e20}])));
        assert!(is_rounded(&serde_json::from_str("-9223372036854775809").unwrap()));
        assert!(!is_rounded(&json!([u64::MAX, i64::MIN, 1e19, "1e20"])));
    }

    #[test]
    fn values_are_counted_before_they_are_read() {
        assert_eq!(size(r#"{"a,[": [1, 2, {}], "b\"": ","}"#), 6);
        assert!(read("[1, 2]", 2).is_ok());
        assert!(matches!(read("[1, 2, 3]", 2), Err(ReadError::TooMany(2))));
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

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "[\\[{,\\]}\"\\\\0-9.eE -]{0,60}") {
            match (read(&text, 100), serde_json::from_str::<Value>(&text)) {
                (Ok(read), Ok(plain)) => prop_assert_eq!(read, plain),
                (Err(ReadError::Malformed(_)), Err(_)) => {}
                (Err(ReadError::Large), Ok(plain)) => prop_assert!(is_rounded(&plain)),
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
