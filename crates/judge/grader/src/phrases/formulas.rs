//! Words within formulas.

use super::has;
/// The command that a word of plain text stands for, in the cases given: `sqrt`, `pi`, `infinity`.
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

/// Words of two or three letters of ordinary text, sorted.
const SHORT_WORDS: &[&str] = &[
    "all", "an", "any", "are", "as", "at", "but", "by", "day", "due", "for", "has", "if", "is",
    "it", "its", "let", "men", "no", "none", "not", "odd", "of", "on", "one", "per", "so", "sum",
    "the", "to", "two", "was", "way", "who", "yes", "you",
];

/// Whether a word of two or three letters, in any case, is one of ordinary text, not a product of
/// variables.
pub fn is_short_word(word: &str) -> bool {
    // Capitals alone name points.
    word.contains(|c: char| c.is_ascii_lowercase())
        && SHORT_WORDS.binary_search(&word.to_ascii_lowercase().as_str()).is_ok()
}

/// Commands that compute with the number before or after them.
const OPERATORS: &str = "\
    times cdot div ast pm mp over frac dfrac tfrac cfrac sqrt binom dbinom tbinom overline log \
    ln sin cos tan bmod pmod mod";

/// Whether a command computes with the number before or after it.
pub fn is_operator(command: &str) -> bool {
    has(OPERATORS, command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_that_is_searched_is_sorted() {
        assert!(SHORT_WORDS.is_sorted());
    }
}
