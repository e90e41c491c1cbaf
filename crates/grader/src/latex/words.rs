//! Words that have a meaning of their own in an answer.

/// The command that a word of plain text stands for: `sqrt`, `pi`, `infinity`.
pub fn command(word: &str) -> Option<&'static str> {
    Some(match word {
        "sqrt" => "sqrt",
        "cbrt" => "cbrt",
        "pi" | "Pi" | "PI" => "pi",
        "infinity" | "Infinity" | "inf" | "oo" | "infty" | "infinite" => "infty",
        "sin" => "sin",
        "cos" => "cos",
        "tan" => "tan",
        "cot" => "cot",
        "sec" => "sec",
        "csc" => "csc",
        "arcsin" | "asin" => "arcsin",
        "arccos" | "acos" => "arccos",
        "arctan" | "atan" => "arctan",
        "arccot" | "acot" => "arccot",
        "sinh" => "sinh",
        "cosh" => "cosh",
        "tanh" => "tanh",
        "ln" => "ln",
        "log" => "log",
        "lg" => "lg",
        "exp" => "exp",
        "abs" => "abs",
        "floor" => "floor",
        "ceil" | "ceiling" => "ceil",
        "gcd" => "gcd",
        "lcm" => "lcm",
        "min" => "min",
        "max" => "max",
        "binom" => "binom",
        "mod" => "bmod",
        "alpha" => "alpha",
        "beta" => "beta",
        "gamma" => "gamma",
        "delta" => "delta",
        "theta" => "theta",
        "lambda" => "lambda",
        "mu" => "mu",
        "phi" => "phi",
        "omega" => "omega",
        "degree" | "degrees" | "deg" => "degree",
        "percent" | "percentage" | "pct" | "percents" => "%",
        "cup" | "union" => "cup",
        _ => return None,
    })
}

/// Whether a word of two or three letters is one of ordinary text, not a product of variables.
pub fn is_short_word(word: &str) -> bool {
    const WORDS: [&str; 35] = [
        "all", "an", "any", "are", "as", "at", "but", "by", "day", "due", "for", "has", "if", "is", "it",
        "its", "let", "men", "no", "none", "not", "odd", "of", "on", "one", "so", "sum", "the", "to", "two",
        "was", "way", "who", "yes", "you",
    ];
    // Sorted, so that a search is quick. Capitals alone name points.
    word.contains(|c: char| c.is_ascii_lowercase())
        && WORDS.binary_search(&word.to_ascii_lowercase().as_str()).is_ok()
}

/// Whether a word of two or three letters right after a number is a unit.
pub fn is_short_unit(word: &str) -> bool {
    const UNITS: [&str; 62] = [
        "AM", "AU", "Bq", "GB", "GHz", "GPa", "Hz", "KB", "MB", "MHz", "MJ", "MPa", "MW", "Mpc", "Nm", "PM",
        "Pa", "TB", "USD", "am", "amu", "atm", "bps", "cal", "cc", "cm", "cms", "day", "deg", "dm", "eV",
        "fm", "ft", "gal", "hr", "hrs", "in", "kHz", "kJ", "kN", "kPa", "kW", "keV", "kg", "kgs", "km",
        "kms", "lb", "lbs", "mA", "mL", "mg", "mi", "min", "ml", "mm", "mol", "mph", "ms", "nm", "oz", "pm",
    ];
    const MORE: [&str; 7] = ["pc", "rad", "rpm", "sec", "sr", "yd", "yr"];
    UNITS.binary_search(&word).is_ok() || MORE.binary_search(&word).is_ok()
}

/// Whether a letter may be a unit after a number, of length, mass, time and so on.
pub fn is_unit_letter(symbol: &str) -> bool {
    matches!(
        symbol,
        "m" | "g" | "s" | "h" | "L" | "l" | "N" | "J" | "W" | "V" | "A" | "K" | "C" | "F" | "T" | "Omega"
    )
}

/// Whether letters are in strictly ascending order, as variables that are multiplied often are: `abcd`, `wxyz`.
pub fn is_ascending(word: &str) -> bool {
    word.as_bytes().windows(2).all(|pair| pair[0] < pair[1])
}

/// The number that a normalised text is the word for.
pub fn number(text: &str) -> Option<u8> {
    const WORDS: [&str; 21] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ];
    (0..).zip(WORDS).find_map(|(value, word)| (word == text).then_some(value))
}

/// Whether a normalised text says that there is no answer.
pub fn says_none(text: &str) -> bool {
    matches!(
        text,
        "none"
            | "nosolution"
            | "nosolutions"
            | "nosolutionexists"
            | "nosolutionsexist"
            | "norealsolution"
            | "norealsolutions"
            | "noanswer"
            | "nosuchnumber"
            | "emptyset"
            | "theemptyset"
            | "thereisnosolution"
            | "therearenosolutions"
            | "therearenorealsolutions"
            | "norealroots"
            | "noroots"
            | "nointegersolutions"
            | "nosuchvalues"
    )
}

/// Whether a normalised text says that there are infinitely many.
pub fn says_infinite(text: &str) -> bool {
    matches!(text, "infinitelymany" | "infinitelymanysolutions" | "infinite" | "infinity" | "infinitymany")
}

/// Whether a normalised text says that every real number is meant.
pub fn says_reals(text: &str) -> bool {
    matches!(
        text,
        "allrealnumbers"
            | "allreals"
            | "allrealx"
            | "anyrealnumber"
            | "everyrealnumber"
            | "thesetofallrealnumbers"
    )
}

/// Whether a normalised text says that there is no value.
pub fn says_undefined(text: &str) -> bool {
    matches!(text, "undefined" | "doesnotexist" | "dne" | "thelimitdoesnotexist" | "notdefined" | "notexist")
}

/// Whether a word in lower case says that something is not so.
pub fn is_negation(word: &str) -> bool {
    matches!(word, "not" | "wrong" | "incorrect" | "false" | "cannot" | "never") || word.ends_with("n't")
}
