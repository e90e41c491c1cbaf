//! Words by which a number is only a part of what is said: "5 million", "10 in base 2", "5 short of
//! a dozen", "8 followed by two zeros", "30 degrees below zero".

use super::super::phrases::formulas::command;
use super::super::phrases::has;
use super::super::phrases::hedges::{PREPOSITIONS, RANGE_TO, RELATIONS, SHORT};
use super::super::phrases::numbers::{base_named, changes_number, is_group, spoken};
use super::super::phrases::statements::AND;
use super::super::phrases::units::is_short_unit;
use super::denial::{MAX_BEFORE, end_of};

/// Most words between two numbers and the second one: a unit, "short", "of", "a", "dozen".
const MAX_WORDS: usize = 5;

/// A value with the words after it that make another number of it, or nothing that can be read.
pub fn with_number_words(value: &str, after: &str) -> String {
    let after = after.trim_start_matches(['$', '*', '}', ' ']);
    let after = after.strip_prefix("\\)").unwrap_or(after).trim_start_matches([' ', '~']);
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
            Some(number)
                if relates(&words[..number], words[number]) && !is_range(&words[number - 1..]) =>
            {
                number + 1
            }
            _ => return value.into(),
        },
    };
    format!("{value} {}", words[..used].join(" "))
}

/// Whether the words before a number in prose relate another number to it: "it is 5 short of", "a
/// dozen and". What stands in a box is the answer whatever comes before it: "20 is 25% of 80".
pub fn relates_next(before: &str) -> bool {
    let before = end_of(before, MAX_BEFORE).to_lowercase();
    let clause = before.rsplit(['.', '?', '!', ';', ':', '\n']).next().unwrap_or(&before);
    let words: Vec<&str> = clause
        .split(|c: char| !c.is_alphanumeric())
        .rev()
        .filter(|word| !word.is_empty())
        .take(MAX_WORDS)
        .collect();
    if let [AND, group, ..] = words[..] {
        return is_group(group);
    }
    let Some(count) = words.iter().position(|word| is_number(word)) else {
        return false;
    };
    // The 4 of a_{4} is none.
    let number = words[count].as_ptr() as usize - clause.as_ptr() as usize;
    let is_index = clause[..number].ends_with(['_', '^', '{'])
        || clause[number + words[count].len()..].starts_with('}');
    let between: Vec<&str> = words[..count].iter().rev().copied().collect();
    !is_index && relates(&between, "")
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) || spoken(&word.to_ascii_lowercase()).is_some()
}

/// Whether all words between a number and the next make one of both: a participle or "short" with
/// its preposition, "below zero", "times". Other prepositions alone say what is counted or measured:
/// "25% of 80", "12 of 20", "7 by 2030", "4 below 10".
fn relates(between: &[&str], next: &str) -> bool {
    let between = match between {
        [rest @ .., "a" | "an"] => rest,
        all => all,
    };
    let between = match between {
        [unit, rest @ ..] if is_unit(unit) => rest,
        all => all,
    };
    match between {
        ["below" | "above"] => ["zero", "0"].contains(&next),
        [relation] => has(RELATIONS, relation),
        [how, preposition] => {
            has(PREPOSITIONS, preposition) && (is_participle(how) || has(SHORT, how))
        }
        _ => false,
    }
}

fn is_unit(word: &str) -> bool {
    command(word) == Some("degree") || is_short_unit(word)
}

/// "increased", but not "red".
fn is_participle(word: &str) -> bool {
    word.len() > 4 && word.ends_with("ed")
}

/// Whether words begin with a range: "from 1 to 10".
fn is_range(words: &[&str]) -> bool {
    matches!(words, ["from", _, to, ..] if RANGE_TO.contains(to))
}
