//! Kinds of numbers that a name may stand for: integers, positive real numbers, odd numbers.

use std::fmt;

/// A kind of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// The natural numbers, with zero or without.
    Natural,
    /// Integers.
    Integers(Part),
    /// Rational numbers.
    Rationals(Part),
    /// Real numbers.
    Reals(Part),
    /// Complex numbers.
    Complex,
    /// Odd integers.
    Odd,
    /// Even integers.
    Even,
    /// Prime numbers.
    Prime,
}

/// Which numbers of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All.
    All,
    /// Numbers above zero.
    Positive,
    /// Numbers below zero.
    Negative,
    /// Zero and those above.
    NonNegative,
    /// Zero and those below.
    NonPositive,
    /// All but zero.
    Nonzero,
}

impl fmt::Display for NumberKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (part, name) = match *self {
            Self::Natural => (Part::All, "natural number"),
            Self::Integers(part) => (part, "integer"),
            Self::Rationals(part) => (part, "rational number"),
            Self::Reals(part) => (part, "real number"),
            Self::Complex => (Part::All, "complex number"),
            Self::Odd => (Part::All, "odd integer"),
            Self::Even => (Part::All, "even integer"),
            Self::Prime => (Part::All, "prime number"),
        };
        f.write_str(match part {
            Part::All => "",
            Part::Positive => "positive ",
            Part::Negative => "negative ",
            Part::NonNegative => "non-negative ",
            Part::NonPositive => "non-positive ",
            Part::Nonzero => "nonzero ",
        })?;
        f.write_str(name)
    }
}

impl NumberKind {
    /// Whether two kinds are, or may be, the same: zero is a natural number to some.
    pub fn agrees(self, other: Self) -> bool {
        let may_be_natural =
            |kind| matches!(kind, Self::Integers(Part::Positive | Part::NonNegative));
        self == other
            || self == Self::Natural && may_be_natural(other)
            || other == Self::Natural && may_be_natural(self)
    }

    /// The kind that a letter in blackboard bold, with what marks it, is the symbol of: Z and `^+`.
    pub fn of_symbol(letter: char, mark: &str) -> Option<Self> {
        let part = match mark.trim_start_matches(['^', '_']) {
            "" => Part::All,
            "+" | ">0" | "ge1" | "geq1" | "++" => Part::Positive,
            "-" | "<0" => Part::Negative,
            "ge0" | "geq0" | "geqslant0" => Part::NonNegative,
            "le0" | "leq0" | "leqslant0" => Part::NonPositive,
            "*" | "ast" | "times" | "ne0" | "neq0" => Part::Nonzero,
            "0" if letter == 'N' => return Some(Self::Integers(Part::NonNegative)),
            _ => return None,
        };
        Some(match (letter, part) {
            ('N', Part::All) => Self::Natural,
            ('N', Part::Nonzero | Part::Positive) => Self::Integers(Part::Positive),
            ('N', Part::NonNegative) => Self::Integers(Part::NonNegative),
            ('Z', part) => Self::Integers(part),
            ('Q', part) => Self::Rationals(part),
            ('R', part) => Self::Reals(part),
            ('C', Part::All) => Self::Complex,
            _ => return None,
        })
    }

    /// The kind that words in lower case name, without articles: "positive integer", "odd".
    pub fn of_words(words: &str) -> Option<Self> {
        let words = words.strip_suffix('s').unwrap_or(words);
        let (part, noun) = match words.split_once(' ') {
            Some(("positive", noun)) => (Part::Positive, noun),
            Some(("negative", noun)) => (Part::Negative, noun),
            Some(("nonnegative" | "non-negative", noun)) => (Part::NonNegative, noun),
            Some(("nonpositive" | "non-positive", noun)) => (Part::NonPositive, noun),
            Some(("nonzero" | "non-zero", noun)) => (Part::Nonzero, noun),
            _ => (Part::All, words),
        };
        Some(match (noun, part) {
            ("integer" | "whole number", part) => Self::Integers(part),
            ("rational" | "rational number", part) => Self::Rationals(part),
            ("real" | "real number", part) => Self::Reals(part),
            ("complex" | "complex number", Part::All) => Self::Complex,
            ("natural" | "natural number", Part::All) => Self::Natural,
            ("odd" | "odd integer" | "odd number", Part::All) => Self::Odd,
            ("even" | "even integer" | "even number", Part::All) => Self::Even,
            ("prime" | "prime number", Part::All) => Self::Prime,
            _ => return None,
        })
    }
}
