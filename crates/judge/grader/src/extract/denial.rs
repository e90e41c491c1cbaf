//! Answers that a text says are not the answer: "it is not 5", "it cannot be $5$", "one might think
//! that it is 5".

use super::super::phrases::denials::{
    ALTERS, BEFORE_DENIED, CLAIMS, DENIAL_ENDINGS, DENIALS, EQUAL, EXCLUDES, FALSE, GIVEN,
    OPINIONS, OTHERS, SUPPOSES, UNREAL,
};
use super::super::phrases::hedges::{FALSE_PREDICATES, MODALS, POSSIBLE};
use super::super::phrases::statements::ANSWER_NAMES;
use super::super::phrases::{has, has_pair};

/// Whether the end of a text denies the answer that comes next, or makes another value of it.
pub fn denies_next(before: &str) -> bool {
    let before = end_of(before, MAX_BEFORE).to_lowercase().replace('’', "'");
    if ends_in_comparison(&before) {
        return true;
    }
    let clause = before.rsplit(['.', '?', '!', ';', ':', '\n']).next().unwrap_or(&before);
    let words: Vec<&str> = clause
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .rev()
        .filter(|word| !word.is_empty())
        .collect();
    if let [last, rest @ ..] = &words[..] {
        let altering = if *last == "of" { rest.first() } else { Some(last) };
        if altering.is_some_and(|word| has(ALTERS, word))
            || rest.first().is_some_and(|first| has_pair(EXCLUDES, first, last))
        {
            return true;
        }
    }
    let skipped =
        words.iter().take_while(|word| has(BEFORE_DENIED, word) || OPINIONS.contains(word)).count();
    // "The wrong answer is 5", but not "7 is wrong, the answer is 5".
    let names_answer = match words[..skipped].last() {
        Some(word) => ANSWER_NAMES.contains(word),
        None => clause.trim_end().ends_with(char::is_alphabetic),
    };
    let is_possible = words.first() == Some(&"be");
    let is_unreal = match words[..] {
        ["be", "would", ..] => words.iter().any(|word| UNREAL.contains(word)),
        [_, "would", ..] => words.contains(&"had"),
        _ => false,
    };
    let is_supposed =
        words[..(skipped + 1).min(words.len())].iter().any(|word| SUPPOSES.contains(word));
    if is_unreal || is_supposed {
        return true;
    }
    let is_opinion = words[..skipped].iter().any(|word| OPINIONS.contains(word));
    words.get(skipped).is_some_and(|word| {
        DENIALS.contains(word)
            || names_answer && has(FALSE_PREDICATES, word)
            || is_opinion && OTHERS.contains(word)
            || word.strip_suffix('s').is_some_and(|verb| verb != "mean" && OPINIONS.contains(&verb))
            || DENIAL_ENDINGS.iter().any(|ending| word.ends_with(ending))
            || is_opinion && MODALS.contains(word)
            || is_possible && POSSIBLE.contains(word)
    })
}

/// Whether a clause in lower case denies the claim that follows it: "it is wrong to say that the
/// answer is 5".
pub fn denies_claim(clause: &str) -> bool {
    FALSE.iter().any(|word| CLAIMS.iter().any(|verb| clause.contains(&format!("{word} {verb}"))))
}

/// Whether the value is only an operand of the words before it: "the square of 5", "congruent to
/// 5", "bounded by 5", but not "a total of 5", "equal to 5", "given by 5".
pub fn makes_operand(before: &str) -> bool {
    let lower = before.to_lowercase();
    let mut words =
        lower.split(|c: char| !c.is_alphanumeric()).rev().filter(|word| !word.is_empty());
    let (last, head) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match last {
        "of" => head != "value" && !words.take(2).any(|word| matches!(word, "a" | "an")),
        "to" => !head.ends_with(['s', 'd']) && !EQUAL.contains(&head),
        "by" => !head.ends_with('s') && !GIVEN.contains(&head),
        "in" | "from" | "with" | "than" => true,
        _ => false,
    }
}

/// Whether a text ends in a sign that makes a bound of the next value, or denies it: `>= 5`. A line
/// that begins with > is quoted; arrows and tags are no comparisons.
fn ends_in_comparison(before: &str) -> bool {
    let before = before.trim_end_matches(' ');
    let sign = before.strip_suffix('=').unwrap_or(before);
    let line = &sign[sign.rfind('\n').map_or(0, |end| end + 1)..];
    match line.strip_suffix('>') {
        Some(left) => {
            left.trim_end().ends_with(|c: char| c.is_alphanumeric() || "#*$:)".contains(c))
                && !line.contains('<')
        }
        None => {
            sign.ends_with(['<', '≤', '≥', '≠', '~'])
                || sign.len() < before.len() && sign.ends_with('!')
        }
    }
}

/// Commands that make a bound of the number after them, or deny it; longer ones first.
pub const COMPARISONS: [&str; 10] =
    ["\\geqslant", "\\leqslant", "\\geq", "\\leq", "\\neq", "\\ge", "\\le", "\\ne", "\\gt", "\\lt"];

/// The part of a text's end that is read, in bytes.
pub fn end_of(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// The longest distance from a denial to what it denies, in bytes.
pub const MAX_BEFORE: usize = 100;
