//! Words within formulas.

use super::has;
/// Words of plain text that stand for the commands of the same name.
const COMMANDS: &str = "\
    sqrt cbrt pi sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh ln log lg exp \
    abs floor ceil gcd lcm min max binom alpha beta gamma delta theta lambda mu phi omega infty \
    degree cup";

/// The command that a word of plain text stands for: `sqrt`, `pi`, `infinity`.
pub fn command(word: &str) -> Option<&str> {
    Some(match word {
        "Pi" | "PI" => "pi",
        "infinity" | "Infinity" | "inf" | "oo" | "infinite" => "infty",
        "asin" => "arcsin",
        "acos" => "arccos",
        "atan" => "arctan",
        "acot" => "arccot",
        "ceiling" => "ceil",
        "mod" => "bmod",
        "degrees" | "deg" => "degree",
        "percent" | "percentage" | "pct" | "percents" => "%",
        "union" => "cup",
        word if has(COMMANDS, word) => word,
        _ => return None,
    })
}

/// Words of two or three letters of ordinary text.
const SHORT_WORDS: &str = "\
    all an any are as at but by day due for has if is it its let men no none not odd of on one \
    per so sum the to two was way who yes you";

/// Whether a word of two or three letters, in any case, is one of ordinary text, not a product of
/// variables.
pub fn is_short_word(word: &str) -> bool {
    // Capitals alone name points.
    word.contains(|c: char| c.is_ascii_lowercase()) && has(SHORT_WORDS, &word.to_ascii_lowercase())
}

/// Commands that compute with the number before or after them.
const OPERATORS: &str = "\
    times cdot div ast pm mp over frac dfrac tfrac cfrac sqrt binom dbinom tbinom overline log \
    ln sin cos tan bmod pmod mod";

/// Whether a command computes with the number before or after it.
pub fn is_operator(command: &str) -> bool {
    has(OPERATORS, command)
}
