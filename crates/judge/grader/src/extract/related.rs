//! Words by which a number is only a part of what is said: "5 million", "10 in base 2", "5 short of
//! a dozen", "8 followed by two zeros", "30 degrees below zero".

use super::super::phrases::formulas::command;
use super::super::phrases::has;
use super::super::phrases::hedges::{RANGE_TO, RELATIONS};
use super::super::phrases::numbers::{base_named, changes_number, is_group, spoken};
use super::super::phrases::statements::AND;
use super::super::phrases::units::is_short_unit;

/// Most words between two numbers and the second one: a unit, "short", "of", "a", "dozen".
const MAX_WORDS: usize = 5;

/// A value with the words after it that make another number of it, or nothing that can be read.
pub fn with_number_words(value: &str, after: &str) -> String {
    let after = after.trim_start_matches(['$', '*', '}', ' ']);
    let after = after.strip_prefix("\\)").unwrap_or(after).trim_start();
    // "5-fold of 3"
    let after = after.strip_prefix('-').unwrap_or(after);
    if !after.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return value.into();
    }
    let clause = after.split(['.', ',', ';', ':', '(', ')', '?', '!', '\n']).next();
    let words: Vec<&str> = clause
        .unwrap_or_default()
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(MAX_WORDS + 1)
        .collect();
    // 413_5 has its base.
    let is_bare = value.chars().all(|c| c.is_ascii_alphanumeric());
    let used = match words[..] {
        ["in", "base", _, ..] if is_bare => 3,
        ["in", base, ..] if is_bare && base_named(base).is_some() => 2,
        [word, ..] if changes_number(word) => 1,
        // "a potential $V$ of 150 volts"
        _ if !value.contains(|c: char| c.is_ascii_digit()) => return value.into(),
        _ => match words.iter().position(|word| is_number(word)) {
            Some(number) if relates(&words[..number]) && !is_range(&words[number - 1..]) => {
                number + 1
            }
            _ => return value.into(),
        },
    };
    format!("{value} {}", words[..used].join(" "))
}

/// Whether a clause, whose words are these in reverse order, relates a number to the one that comes
/// next: "it is 5 short of", "a dozen and".
pub fn ends_in_relation(clause: &str, words: &[&str]) -> bool {
    if let [AND, group, ..] = words {
        return is_group(group);
    }
    let Some(count) = words.iter().take(MAX_WORDS).position(|word| is_number(word)) else {
        return false;
    };
    // The 4 of a_{4} is none.
    let number = words[count].as_ptr() as usize - clause.as_ptr() as usize;
    let is_index = clause[..number].ends_with(['_', '^', '{'])
        || clause[number + words[count].len()..].starts_with('}');
    let between: Vec<&str> = words[..count].iter().rev().copied().collect();
    !is_index && relates(&between)
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) || spoken(&word.to_ascii_lowercase()).is_some()
}

/// Whether all words between two numbers make one of both. "25 primes below 100" does not: a plural
/// names what is counted.
fn relates(between: &[&str]) -> bool {
    let between = match between {
        [rest @ .., "a" | "an"] => rest,
        all => all,
    };
    let between = match between {
        [unit, rest @ ..] if command(unit) == Some("degree") || is_short_unit(unit) => rest,
        all => all,
    };
    match between {
        [relation] => has(RELATIONS, relation),
        [how, relation] => !how.ends_with('s') && has(RELATIONS, relation),
        _ => false,
    }
}

/// Whether words begin with a range: "from 1 to 10".
fn is_range(words: &[&str]) -> bool {
    matches!(words, ["from", _, to, ..] if RANGE_TO.contains(to))
}
