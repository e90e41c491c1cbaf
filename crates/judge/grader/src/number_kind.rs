//! Kinds of numbers that a name may stand for: integers, positive real numbers, odd integers.

use std::fmt;

use super::phrases::has;

/// A kind of numbers, as words name it: a noun, and the part of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberKind {
    part: &'static str,
    noun: &'static str,
}

/// Parts of numbers, with the words and the marks of symbols that stand for them.
const PARTS: [(&str, &str, &str); 6] = [
    ("", "", ""),
    ("positive", "positive", "+ >0 ge1 geq1 ++"),
    ("negative", "negative", "- <0"),
    ("non-negative", "nonnegative non-negative", "ge0 geq0 geqslant0"),
    ("non-positive", "nonpositive non-positive", "le0 leq0 leqslant0"),
    ("nonzero", "nonzero non-zero", "* ast times ne0 neq0"),
];

/// Nouns that may have a part, with their letters and their spellings.
const PARTED: [(&str, char, &str); 3] = [
    ("integer", 'Z', "integer|whole number"),
    ("rational number", 'Q', "rational|rational number"),
    ("real number", 'R', "real|real number"),
];

/// Nouns that have none. The natural numbers are with zero or without.
const WHOLE: [(&str, char, &str); 5] = [
    (NATURAL, 'N', "natural|natural number"),
    ("complex number", 'C', "complex|complex number"),
    ("odd integer", ' ', "odd|odd integer|odd number"),
    ("even integer", ' ', "even|even integer|even number"),
    ("prime number", ' ', "prime|prime number"),
];

const NATURAL: &str = "natural number";

impl fmt::Display for NumberKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(format!("{} {}", self.part, self.noun).trim_start())
    }
}

impl NumberKind {
    /// All integers.
    pub const INTEGER: Self = Self { part: "", noun: "integer" };
    pub const REAL: Self = Self { part: "", noun: "real number" };

    /// Whether two kinds are, or may be, the same: zero is a natural number to some.
    pub fn agrees(self, other: Self) -> bool {
        let may_be_natural = |kind: Self| {
            kind.noun == Self::INTEGER.noun && matches!(kind.part, "positive" | "non-negative")
        };
        self == other
            || self.noun == NATURAL && may_be_natural(other)
            || other.noun == NATURAL && may_be_natural(self)
    }

    /// The kind for which a letter in blackboard bold with its mark stands: Z and `^+`.
    pub fn of_symbol(letter: char, mark: &str) -> Option<Self> {
        let mark = mark.trim_start_matches(['^', '_']);
        let mark = if (letter, mark) == ('N', "0") { "ge0" } else { mark };
        let (part, ..) = PARTS.into_iter().find(|(_, _, marks)| has(marks, mark))?;
        let part = match (letter, part) {
            ('N', "nonzero") => "positive",
            (_, part) => part,
        };
        let letter = if letter == 'N' && !part.is_empty() { 'Z' } else { letter };
        Self::of(part, |(_, of, _)| *of == letter)
    }

    /// The kind that words in lower case name, without articles: "positive integer", "odd".
    pub fn of_words(words: &str) -> Option<Self> {
        let words = words.strip_suffix('s').unwrap_or(words);
        let (part, noun) = words
            .split_once(' ')
            .and_then(|(first, noun)| {
                let found = PARTS.iter().find(|(_, words, _)| has(words, first))?;
                Some((found.0, noun))
            })
            .unwrap_or(("", words));
        Self::of(part, |(_, _, spellings)| spellings.split('|').any(|spelling| spelling == noun))
    }

    fn of(part: &'static str, is_noun: impl Fn(&&(&str, char, &str)) -> bool) -> Option<Self> {
        let whole = if part.is_empty() { &WHOLE[..] } else { &[] };
        PARTED.iter().chain(whole).find(is_noun).map(|(noun, ..)| Self { part, noun })
    }
}
