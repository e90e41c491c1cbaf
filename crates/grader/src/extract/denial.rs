//! Answers that a text says are not the answer: "it is not 5", "it cannot be $5$".

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
        .skip_while(|word| matches!(*word, "be" | "equal" | "to" | "the" | "choice" | "simply" | "just"));
    words.next().is_some_and(|word| {
        matches!(word, "not" | "cannot" | "never" | "не") || word.ends_with("n't") || word.ends_with("不是")
    })
}

/// Whether a clause in lower case says of what it says next that it is not so: "it is wrong to say that the answer is 5".
pub fn denies_claim(clause: &str) -> bool {
    ["wrong", "false", "incorrect", "untrue", "not true", "not correct", "n't true"].iter().any(|word| {
        ["to say", "to think", "to claim", "to assume", "that"]
            .iter()
            .any(|verb| clause.contains(&format!("{word} {verb}")))
    })
}

/// How far back a denial may begin, in bytes.
const MAX_BEFORE: usize = 40;
