//! Numbers as the page shows them.

use crate::number::{fixed, unsigned_zero};

/// The format of a quantity and of its differences.
pub(super) struct Scale {
    pub value: fn(f64) -> String,
    pub unit: &'static str,
    pub difference: fn(f64) -> String,
    pub unit_of_difference: &'static str,
}

/// Entropies.
pub(super) const NATS: Scale =
    Scale { value: plain, unit: " nats", difference: plain, unit_of_difference: " nats" };
/// Accuracies.
pub(super) const SHARES: Scale = Scale {
    value: percent,
    unit: "",
    difference: |share| fixed(100.0 * share, 1),
    unit_of_difference: " points",
};

/// Mean scores, which may be any numbers.
pub(super) const SCORES: Scale =
    Scale { value: plain, unit: "", difference: plain, unit_of_difference: "" };

impl Scale {
    /// A difference with its unit.
    pub fn with_unit(&self, difference: f64) -> String {
        format!("{}{}", (self.difference)(difference), self.unit_of_difference)
    }
}

/// A share from 0 to 1 as a percentage.
pub(super) fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "–".into();
    }
    let percent = 100.0 * share;
    match percent.abs() {
        p if (p > 0.0 && p < 0.1) || p >= 1e6 => format!("{}\u{a0}%", plain(percent)),
        _ => format!("{}\u{a0}%", minus(format!("{percent:.1}"))),
    }
}

/// A number with three or four significant digits.
pub(super) fn plain(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let text = match value.abs() {
        0.0 => "0".into(),
        v if v >= 1e6 => format!("{value:.2e}"),
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 => format!("{value:.2}"),
        v if v >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    };
    minus(text)
}

/// A count with its thousands apart.
pub(super) fn count(value: f64) -> String {
    if value.abs() >= 1e15 {
        return plain(value);
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("−{text}") } else { text }
}

/// The text with print's minus sign; a zero has none.
fn minus(text: String) -> String {
    unsigned_zero(text).replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let shown = [0.0, 1.23456, -0.0123, 45.678, 234.56, 12345.6, 1.5e-5, 3e7].map(plain);
        assert_eq!(shown, ["0", "1.235", "−0.012", "45.68", "234.6", "12346", "1.50e−5", "3.00e7"]);
        assert_eq!(
            [0.4512, 0.0, 1.0, -0.00001, 0.0002].map(percent),
            ["45.1\u{a0}%", "0.0\u{a0}%", "100.0\u{a0}%", "−1.00e−3\u{a0}%", "0.020\u{a0}%"]
        );
        assert_eq!(
            [0.0, 999.0, 1000.0, -1_234_567.0].map(count),
            ["0", "999", "1,000", "−1,234,567"]
        );
        assert_eq!((percent(1e300), count(1e300)), ("1.00e302\u{a0}%".into(), "1.00e300".into()));
        assert_eq!((plain(f64::NAN), percent(f64::INFINITY)), ("–".into(), "–".into()));
    }
}
