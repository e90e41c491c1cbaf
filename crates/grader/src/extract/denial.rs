//! Answers that a text says are not the answer: "it is not 5", "it cannot be $5$".

use super::super::phrases::denials::{BEFORE_DENIED, CLAIMS, DENIAL_ENDINGS, DENIALS, FALSE};

/// Whether the end of a text denies what comes next.
pub fn denies_next(before: &str) -> bool {
    let mut start = before.len().saturating_sub(MAX_BEFORE);
    while !before.is_char_boundary(start) {
        start += 1;
    }
    let before = before[start..].to_lowercase().replace('’', "'");
    let mut words = before
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .rev()
        .filter(|word| !word.is_empty())
        .skip_while(|word| BEFORE_DENIED.contains(word));
    words.next().is_some_and(|word| {
        DENIALS.contains(&word) || DENIAL_ENDINGS.iter().any(|ending| word.ends_with(ending))
    })
}

/// Whether a clause in lower case says of what it says next that it is not so: "it is wrong to say that the answer is 5".
pub fn denies_claim(clause: &str) -> bool {
    FALSE.iter().any(|word| CLAIMS.iter().any(|verb| clause.contains(&format!("{word} {verb}"))))
}

/// How far back a denial may begin, in bytes.
const MAX_BEFORE: usize = 40;
