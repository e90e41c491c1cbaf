//! Formats numbers for terminals, in few characters whatever a log holds.

/// Numbers from here on are shown with an exponent.
const LARGE: f64 = 1e6;

/// A number with four significant digits.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value.fract() == 0.0 && size < 1e9 {
        return format!("{:.0}", value + 0.0); // -0 has no sign
    }
    if !(1e-4..LARGE).contains(&size) {
        return format!("{value:.3e}");
    }
    let digits = (3 - libm::floor(libm::log10(size)) as i32).max(0) as usize;
    format!("{value:.digits$}")
}

/// A number with `digits` digits behind the point, for columns of numbers. A number that rounds to
/// 0 has no sign.
pub fn fixed(value: f64, digits: usize) -> String {
    if value.is_finite() && value.abs() >= LARGE {
        return format!("{value:.2e}");
    }
    unsigned_zero(format!("{value:.digits$}"))
}

/// The text of a number; a zero has no sign.
pub fn unsigned_zero(text: String) -> String {
    match text.strip_prefix('-') {
        Some(zero) if zero.bytes().all(|b| matches!(b, b'0' | b'.')) => zero.to_owned(),
        _ => text,
    }
}

/// A share as percent.
pub fn percent(value: f64) -> String {
    format!("{} %", fixed(100.0 * value, 1))
}

/// A share as whole percent.
pub fn whole_percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (-10.0, "-10"),
            (16.0, "16"),
            (1.234_567, "1.235"),
            (123.456, "123.5"),
            (12_345.678, "12346"),
            (0.000_012_34, "1.234e-5"),
            (-1.5e7 - 0.5, "-1.500e7"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn no_number_is_wider_than_its_column() {
        for (value, text) in [
            (-0.000_04, "0.000"),
            (-0.25, "-0.250"),
            (999_999.0, "999999.000"),
            (-f64::MAX, "-1.80e308"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(fixed(value, 3), text);
        }
        assert_eq!([0.515, -0.000_01, 1e300].map(percent), ["51.5 %", "0.0 %", "1.00e302 %"]);
    }
}
