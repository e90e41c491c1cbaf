//! Decides whether a program's output, or a function's return value, equals the expected one.

use std::borrow::Cow;

use serde_json::{Number, Value};

/// Longest part of an output that a message shows, in characters.
const SHOWN: usize = 80;

/// How numbers are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Numbers {
    /// Compares numbers of an output by their text, and numbers in a function's value by value.
    #[default]
    Exact,
    /// Compares numbers by value, so that 1.50 equals 1.5.
    Value,
    /// If either number is written with a decimal point or an exponent, the two may differ by this
    /// much, or by this share of an expected number above 1: |a - b| <= t max(1, |b|). Other
    /// integers must be equal.
    Within(f64),
}

/// A text in one line, cut where it is long.
pub fn shorten(text: &str) -> String {
    in_line(text, SHOWN)
}

/// A text in one line, cut to a number of characters.
pub fn in_line(text: &str, most: usize) -> String {
    let mut short: String = text.chars().take(most).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short.replace(|c: char| c.is_control(), " ")
}

/// A text in one line, cut where it is long, in quotation marks and with escapes.
fn quoted(text: &str) -> String {
    let short: String = text.chars().take(SHOWN).collect();
    format!("{short:?}{}", if short.len() < text.len() { "..." } else { "" })
}

/// Compares what a program printed with what it should have printed, line by line. Space at the end
/// of lines and empty lines at the end of the text do not count. Unless numbers are compared by
/// their text, the words of a line are compared one by one, so that space between them does not
/// count either. An error says where they differ.
pub fn output(expected: &str, printed: &str, numbers: Numbers) -> Result<(), String> {
    let (mut expected, mut printed) = (lines(expected), lines(printed));
    for line in 1.. {
        let (expected, printed) = (expected.next(), printed.next());
        match (expected, printed) {
            (None, None) => break,
            (Some(expected), Some(printed)) if same_line(expected, printed, numbers) => {}
            _ => {
                let shown = |line: Option<&str>| line.map_or("nothing".into(), quoted);
                let (expected, found) = (shown(expected), shown(printed));
                return Err(format!("line {line}: expected {expected}, found {found}"));
            }
        }
    }
    Ok(())
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.trim_end().lines().map(str::trim_end)
}

fn same_line(expected: &str, printed: &str, numbers: Numbers) -> bool {
    if expected == printed || numbers == Numbers::Exact {
        return expected == printed;
    }
    let (mut expected, mut printed) = (expected.split_whitespace(), printed.split_whitespace());
    loop {
        match (expected.next(), printed.next()) {
            (None, None) => return true,
            (Some(expected), Some(printed)) if same_word(expected, printed, numbers) => {}
            _ => return false,
        }
    }
}

fn same_word(expected: &str, printed: &str, numbers: Numbers) -> bool {
    if expected == printed {
        return true;
    }
    let (Some(a), Some(b)) = (Decimal::read(expected), Decimal::read(printed)) else {
        return false;
    };
    match numbers {
        Numbers::Exact => false,
        Numbers::Value => a == b,
        Numbers::Within(_) if is_integer(expected) && is_integer(printed) => a == b,
        Numbers::Within(tolerance) => {
            a == b
                || match (expected.parse::<f64>(), printed.parse::<f64>()) {
                    (Ok(expected), Ok(printed)) => close(expected, printed, tolerance),
                    _ => false,
                }
        }
    }
}

fn is_integer(word: &str) -> bool {
    !word.contains(['.', 'e', 'E'])
}

fn close(expected: f64, found: f64, tolerance: f64) -> bool {
    expected.is_finite() && (expected - found).abs() <= tolerance * expected.abs().max(1.0)
}

/// A number in decimal notation, by value.
#[derive(PartialEq, Eq)]
struct Decimal<'a> {
    negative: bool,
    /// The digits without leading and trailing zeros; empty for 0.
    digits: Cow<'a, str>,
    /// The power of ten of the last digit.
    exponent: i64,
}

impl<'a> Decimal<'a> {
    fn read(word: &'a str) -> Option<Self> {
        let (negative, unsigned) = match word.as_bytes().first()? {
            b'-' => (true, &word[1..]),
            b'+' => (false, &word[1..]),
            _ => (false, word),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits =
            if fraction.is_empty() { whole.into() } else { Cow::from(whole.to_owned() + fraction) };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let significant = digits.trim_end_matches('0');
        let zeros = digits.len() - significant.len();
        let significant = significant.trim_start_matches('0');
        if significant.is_empty() {
            return Some(Self { negative: false, digits: "".into(), exponent: 0 });
        }
        let exponent = i64::from(exponent) - fraction.len() as i64 + zeros as i64;
        Some(Self { negative, digits: significant.to_owned().into(), exponent })
    }
}

/// Compares what a function returned with what it should have returned, as Python's `==` does: 1,
/// 1.0 and `True` are equal. The values are JSON, so tuples are lists and keys are texts. An error
/// shows both.
pub fn value(expected: &Value, found: &Value, numbers: Numbers) -> Result<(), String> {
    if same_value(expected, found, numbers) {
        return Ok(());
    }
    let shown = |value: &Value| shorten(&value.to_string());
    Err(format!("expected {}, found {}", shown(expected), shown(found)))
}

fn same_value(expected: &Value, found: &Value, numbers: Numbers) -> bool {
    match (expected, found) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b, numbers))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same = |(key, a)| b.get(key).is_some_and(|b| same_value(a, b, numbers));
            a.len() == b.len() && a.iter().all(same)
        }
        _ => match (number(expected), number(found)) {
            (Some(a), Some(b)) => same_number(&a, &b, numbers),
            _ => expected == found,
        },
    }
}

/// A number, or a boolean as Python's number, 0 or 1.
fn number(value: &Value) -> Option<Cow<'_, Number>> {
    match value {
        Value::Number(number) => Some(Cow::Borrowed(number)),
        Value::Bool(truth) => Some(Cow::Owned(u8::from(*truth).into())),
        _ => None,
    }
}

fn same_number(a: &Number, b: &Number, numbers: Numbers) -> bool {
    if let (Some(a), Some(b)) = (a.as_i128(), b.as_i128()) {
        return a == b;
    }
    let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) else { return a == b };
    match numbers {
        Numbers::Within(tolerance) => close(x, y, tolerance),
        // An integer is a float only if it is that float exactly.
        _ => {
            x == y
                && [(a, y), (b, x)]
                    .into_iter()
                    .all(|(n, other)| n.as_i128().is_none_or(|n| n == other as i128))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn is_same(expected: &str, printed: &str, numbers: Numbers) -> bool {
        output(expected, printed, numbers).is_ok()
    }

    #[test]
    fn space_at_the_end_does_not_count() {
        for (expected, printed) in [
            ("1 2 \n", "1 2"),
            ("1\n2", "1  \r\n2\t\n\n\n"),
            ("", "\n"),
            ("a\n\nb", "a\n \nb"),
            ("5 2 1 3 4 \n", "5 2 1 3 4\n"),
        ] {
            assert!(is_same(expected, printed, Numbers::Exact), "{expected:?} {printed:?}");
            assert!(is_same(printed, expected, Numbers::Exact), "{expected:?} {printed:?}");
        }
        for (expected, printed) in [
            ("1 2", "1  2"),
            ("1", " 1"),
            ("1\n2", "1\n\n2"),
            ("1\n2", "2\n1"),
            ("a", "A"),
            ("12", "1\n2"),
        ] {
            assert!(!is_same(expected, printed, Numbers::Exact), "{expected:?} {printed:?}");
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        let difference =
            |expected: &str, printed: &str| output(expected, printed, Numbers::Exact).unwrap_err();
        assert_eq!(difference("1\n2\n", "1\n3\n"), "line 2: expected \"2\", found \"3\"");
        assert_eq!(difference("1 2", "1\t2"), "line 1: expected \"1 2\", found \"1\\t2\"");
        assert_eq!(difference("1\n2\n", "1\n"), "line 2: expected \"2\", found nothing");
        assert_eq!(difference("1", "1\n\n2"), "line 2: expected nothing, found \"\"");
        assert_eq!(
            difference("\x1b[2J", &"x".repeat(100)),
            format!("line 1: expected \"\\u{{1b}}[2J\", found \"{}\"...", "x".repeat(80))
        );
        let of_values = value(&json!([1, 2]), &json!("a"), Numbers::Exact).unwrap_err();
        assert_eq!(of_values, "expected [1,2], found \"a\"");
    }

    #[test]
    fn numbers_are_compared_as_the_set_says() {
        use Numbers::{Exact, Value, Within};
        for (expected, printed, exact, by_value, within) in [
            ("3.162277660", "3.162277660", true, true, true),
            ("1.50", "1.5", false, true, true),
            ("15e-1", "1.5", false, true, true),
            ("-0.0", "0", false, true, true),
            ("100", "1e2", false, true, true),
            ("0.1 yes", "0.10  yes", false, true, true),
            ("3.162277660", "3.1622776601683795", false, false, true),
            ("100000.0", "99999.99", false, false, true),
            ("99999.99", "100000", false, false, true),
            ("1.0", "1.00001", false, false, false),
            ("1000000007", "1000000008", false, false, false),
            ("50000000000000000", "50000000000000001", false, false, false),
            ("1 2", "1", false, false, false),
            ("nan", "NaN", false, false, false),
            ("inf", "1e400", false, false, false),
            ("1e400", "inf", false, false, false),
            ("1e400", "5.0", false, false, false),
            ("5.0", "1e400", false, false, false),
            ("-1.5", "1.5", false, false, false),
            (".", "0", false, false, false),
            ("1.5\n2", "1.50 2", false, false, false),
        ] {
            for (numbers, same) in [(Exact, exact), (Value, by_value), (Within(1e-6), within)] {
                let found = is_same(expected, printed, numbers);
                assert_eq!(found, same, "{expected:?} {printed:?} {numbers:?}");
            }
        }
    }

    #[test]
    fn values_are_equal_as_in_python() {
        for (expected, found, same) in [
            (json!(1), json!(1.0), true),
            (json!([1.0, [2]]), json!([1, [2.0]]), true),
            (json!(true), json!(1), true),
            (json!(false), json!(null), false),
            (json!("1"), json!(1), false),
            (json!([]), json!({}), false),
            (json!([1, 2]), json!([2, 1]), false),
            (json!([1]), json!([1, 1]), false),
            (json!({"a": 1, "b": [2]}), json!({"b": [2.0], "a": 1}), true),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!({"a": null}), json!({"b": null}), false),
            (json!(u64::MAX), json!(-1), false),
            (json!(9007199254740993_u64), json!(9007199254740992.0), false),
            (json!(0.1), json!(0.30000000000000004), false),
        ] {
            for (a, b) in [(&expected, &found), (&found, &expected)] {
                assert_eq!(value(a, b, Numbers::Exact).is_ok(), same, "{a} {b}");
            }
        }
        assert!(value(&json!([0.3]), &json!([0.30000000000000004]), Numbers::Within(1e-9)).is_ok());
        assert!(value(&json!(1000000007), &json!(1000000008), Numbers::Within(1e-6)).is_err());
    }

    proptest! {
        #[test]
        fn decimals_agree_with_arithmetic(a in -2000_i64..2000, b in -2000_i64..2000, ea in -3_i32..3, eb in -3_i32..3) {
            let scaled = |n: i64, e: i32| n * 10_i64.pow((e + 3).unsigned_abs());
            let same = scaled(a, ea) == scaled(b, eb);
            prop_assert_eq!(is_same(&format!("{a}e{ea}"), &format!("{b}e{eb}"), Numbers::Value), same);
            let plain = |n: i64, e: i32| format!("{:.3}", n as f64 * 10_f64.powi(e));
            prop_assert_eq!(is_same(&plain(a, ea), &format!("{b}e{eb}"), Numbers::Value), same);
        }

        #[test]
        fn an_output_is_as_itself(text in "[a-c0-9. \n]{0,40}", t in 0.0..1.0) {
            for numbers in [Numbers::Exact, Numbers::Value, Numbers::Within(t)] {
                prop_assert!(is_same(&text, &text, numbers));
            }
        }
    }
}
