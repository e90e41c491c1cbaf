//! Answers that a text says are not the answer: "it is not 5", "it cannot be $5$", "one might think that it is 5".

use super::super::phrases::denials::{
    ALTERS, BEFORE_DENIED, CLAIMS, DENIAL_ENDINGS, DENIALS, EXCLUDES, FALSE, OPINIONS,
};
use super::super::phrases::has_pair;
use super::super::phrases::hedges::{MODALS, POSSIBLE};

/// Whether the end of a text denies what comes next, or makes something else of it.
pub fn denies_next(before: &str) -> bool {
    let mut start = before.len().saturating_sub(MAX_BEFORE);
    while !before.is_char_boundary(start) {
        start += 1;
    }
    let before = before[start..].to_lowercase().replace('’', "'");
    let clause = before.rsplit(['.', '?', '!', ';', ':', '\n']).next().unwrap_or(&before);
    let words: Vec<&str> = clause
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .rev()
        .filter(|word| !word.is_empty())
        .collect();
    if let [last, rest @ ..] = &words[..] {
        let altering = if *last == "of" { rest.first() } else { Some(last) };
        if altering.is_some_and(|word| ALTERS.contains(word))
            || rest.first().is_some_and(|first| has_pair(EXCLUDES, first, last))
        {
            return true;
        }
    }
    let skipped =
        words.iter().take_while(|word| BEFORE_DENIED.contains(word) || OPINIONS.contains(word)).count();
    let is_possible = words.first() == Some(&"be");
    let is_opinion = words[..skipped].iter().any(|word| OPINIONS.contains(word));
    words.get(skipped).is_some_and(|word| {
        DENIALS.contains(word)
            || DENIAL_ENDINGS.iter().any(|ending| word.ends_with(ending))
            || is_opinion && MODALS.contains(word)
            || is_possible && POSSIBLE.contains(word)
    })
}

/// Whether a clause in lower case says of what it says next that it is not so: "it is wrong to say that the answer is 5".
pub fn denies_claim(clause: &str) -> bool {
    FALSE.iter().any(|word| CLAIMS.iter().any(|verb| clause.contains(&format!("{word} {verb}"))))
}

/// How far back a denial may begin, in bytes.
const MAX_BEFORE: usize = 60;
