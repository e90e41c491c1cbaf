//! English that decides something: tables of words, each with what it decides. Where they are
//! looked up says what is done about them. Words are in lower case, and so is what is looked up,
//! unless a table says otherwise.

pub mod answers;
pub mod denials;
pub mod formulas;
pub mod hedges;
pub mod numbers;
pub mod statements;
pub mod units;

/// Whether a word is in a table of words with spaces between.
pub fn has(table: &str, word: &str) -> bool {
    let is_word =
        |entry: &[u8]| entry.first() == word.as_bytes().first() && entry == word.as_bytes();
    table.as_bytes().split(|byte| *byte == b' ').any(is_word)
}

/// Whether two words are a phrase of a table of phrases with bars between.
pub fn has_pair(table: &str, first: &str, second: &str) -> bool {
    table.split('|').any(|phrase| phrase.split_once(' ') == Some((first, second)))
}
