//! What is said of a number right after it.

/// Units of two or three letters, sorted. In these cases.
const SHORT_UNITS: &[&str] = &[
    "AM", "AU", "Bq", "GB", "GHz", "GPa", "Hz", "KB", "MB", "MHz", "MJ", "MPa", "MW", "Mpc", "Nm", "PM",
    "Pa", "TB", "USD", "am", "amu", "atm", "bps", "cal", "cc", "cm", "cms", "day", "deg", "dm", "eV", "fm",
    "ft", "gal", "hr", "hrs", "in", "kHz", "kJ", "kN", "kPa", "kW", "keV", "kg", "kgs", "km", "kms", "lb",
    "lbs", "mA", "mL", "mg", "mi", "min", "ml", "mm", "mol", "mph", "ms", "nm", "oz", "pc", "pm", "rad",
    "rpm", "sec", "sr", "yd", "yr",
];

/// Letters that may be units of length, mass, time and so on. In these cases.
const UNIT_LETTERS: &[&str] =
    &["m", "g", "s", "h", "L", "l", "N", "J", "W", "V", "A", "K", "C", "F", "T", "Omega"];

/// Whether a word of two or three letters right after a number is a unit, not a product of variables.
pub fn is_short_unit(word: &str) -> bool {
    SHORT_UNITS.binary_search(&word).is_ok()
}

/// Whether a letter may be a unit after a number.
pub fn is_unit_letter(symbol: &str) -> bool {
    UNIT_LETTERS.contains(&symbol)
}

/// Words that make another number of the one before them: 5 million. What follows is no unit.
pub const MULTIPLES: &[&str] =
    &["hundred", "thousand", "million", "billion", "trillion", "dozen", "squared", "cubed"];

/// What follows a number without a space and is left out: 15th is 15.
pub const ORDINALS: &[&str] = &["st", "nd", "rd", "th"];

/// The first half of the day, after an hour: 3 a.m. is not 3 p.m.
pub const AM: &str = "am";

/// The second half of the day.
pub const PM: &str = "pm";

/// Remarks on a value, in brackets, that leave it as it is: "5 (as required)".
pub const REMARKS: &[&str] = &[
    "as required",
    "as desired",
    "as expected",
    "as needed",
    "as claimed",
    "in all",
    "in total",
    "total",
    "altogether",
    "exact",
    "exactly",
    "approx",
    "approximately",
    "rounded",
    "simplified",
    "unsimplified",
    "only",
    "answer",
    "final answer",
    "the answer",
    "correct",
    "unit",
    "units",
    "square units",
    "cubic units",
    "dollars",
    "meters",
    "metres",
    "hours",
    "minutes",
    "seconds",
    "days",
    "years",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_that_is_searched_is_sorted() {
        assert!(SHORT_UNITS.is_sorted());
    }
}
