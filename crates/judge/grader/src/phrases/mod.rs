//! Tables of English words that decide something; each table's comment says what. Words, and the
//! text compared with them, are in lower case, unless a table says otherwise.

pub mod answers;
pub mod denials;
pub mod formulas;
pub mod hedges;
pub mod numbers;
pub mod statements;
pub mod units;

/// Whether a word is in a table, whose words are separated by spaces.
pub fn has(table: &str, word: &str) -> bool {
    let is_word =
        |entry: &[u8]| entry.first() == word.as_bytes().first() && entry == word.as_bytes();
    table.as_bytes().split(|byte| *byte == b' ').any(is_word)
}

/// Whether two words are a phrase of a table, whose phrases are separated by bars.
pub fn has_pair(table: &str, first: &str, second: &str) -> bool {
    table.split('|').any(|phrase| phrase.split_once(' ') == Some((first, second)))
}
