//! Turns the text of an answer, in LaTeX or plain, into tokens.

mod character;
mod commands;
mod digits;
mod lexer;
mod plain;

pub use character::is_prose_letter;
pub use commands::{is_ornament, takes_group_away};
pub use digits::{Commas, number_length};
pub use lexer::tokenise;
pub use plain::plain;

/// A token, with whether white space or a thin space stood before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token<'a> {
    pub kind: Kind<'a>,
    /// Whether space separates the token from the one before it.
    pub spaced: bool,
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind<'a> {
    /// Digits with at most one decimal point: `12`, `3.5`, `.5`.
    Number(&'a str),
    /// A letter that is a variable or a constant.
    Letter(char),
    /// A command without its backslash: `sqrt`, `leq`. Words and characters with the same meaning
    /// become commands too.
    Command(&'a str),
    /// A word of plain text, too long to be a product of variables.
    Word(&'a str),
    Upright(&'a str),
    /// One of `+ - * / ^ _ ( ) [ ] { } | , ; : = < > ! ' & %` and whatever else has no meaning
    /// here.
    Mark(char),
    /// "and" between answers.
    And,
    /// "or" between answers.
    Or,
    /// The end of a row, `\\`.
    Row,
    /// `\begin` of the environment.
    Begin(&'a str),
    /// `\end` of the environment.
    End(&'a str),
}

/// The text cannot be cut into tokens: it has too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is longer than {MAX_TOKENS} tokens")]
pub struct TooLong;

/// Most tokens of an answer. The longest of the benchmarks in use has about 300.
pub const MAX_TOKENS: usize = 4000;
