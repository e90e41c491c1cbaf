//! Variables with their subscripts and primes, and functions of the problem's own.

use super::super::expression::{Constant, Expression};
use super::super::latex::Kind::{Command, Letter, Mark, Number, Upright, Word};
use super::super::latex::Token;
use super::Unreadable;
use super::expression::Parser;
use super::function::is_simple;
use super::number::named_call;
use super::slices::{closing, split, text};

impl Parser<'_, '_, '_> {
    /// Parses a letter: e, i, a variable, or a function with its arguments.
    pub(super) fn letter(&mut self, letter: char) -> Result<Expression, Unreadable> {
        if let Some(length) = self.joined_capitals() {
            let name = text(&self.tokens[self.place..self.place + length]);
            self.place += length;
            return Ok(Expression::symbol(&name));
        }
        self.advance();
        // The measure of an angle.
        if letter == 'm' && matches!(self.peek(), Some(Command("angle" | "measuredangle"))) {
            return self.primary()?.scalar();
        }
        let bare = !matches!(self.peek(), Some(Mark('_' | '\'')));
        match letter {
            'e' if bare => Ok(Expression::Constant(Constant::E)),
            'i' if bare => Ok(Expression::Constant(Constant::I)),
            _ => self.decorated(letter.to_string()),
        }
    }

    /// Parses the subscripts, primes and arguments of a name.
    pub(super) fn decorated(&mut self, mut name: String) -> Result<Expression, Unreadable> {
        loop {
            match self.peek() {
                Some(Mark('\'')) => {
                    self.advance();
                    name.push('\'');
                }
                Some(Mark('_')) => {
                    let start = self.place + 1;
                    let end = match self.tokens.get(start).map(|token| token.kind) {
                        Some(Mark('{')) => {
                            closing(self.tokens, start).ok_or(Unreadable::NotMath)?
                        }
                        Some(Number(_) | Letter(_) | Command(_) | Word(_) | Upright(_)) => start,
                        _ => return Err(Unreadable::NotMath),
                    };
                    self.place = end + 1;
                    name.push('_');
                    name.push_str(text(&self.tokens[start..=end]).trim_matches(['{', '}']));
                }
                _ => break,
            }
        }
        if self.is_function(&name, self.place) {
            return Ok(named_call(name.into(), self.arguments()?));
        }
        Ok(Expression::Symbol(name.into()))
    }

    /// The number of adjacent capital letters that come next, if they are a name: ABCD is no
    /// product. A letter with a number, an exponent or an argument is a factor.
    fn joined_capitals(&self) -> Option<usize> {
        const FEWEST: usize = 3;
        let is_capital =
            |token: &Token<'_>| matches!(token.kind, Letter(letter) if letter.is_ascii_uppercase());
        let rest = self.rest();
        let joined =
            rest.iter().skip(1).take_while(|token| is_capital(token) && !token.spaced).count();
        let is_apart = |token: Option<&Token<'_>>| {
            token.is_none_or(|token| {
                token.spaced
                    || !matches!(token.kind, Letter(_) | Number(_) | Mark('^' | '_' | '\'' | '('))
            })
        };
        let before = self.place.checked_sub(1).and_then(|place| self.tokens.get(place));
        let starts =
            rest.first()?.spaced || !matches!(before.map(|token| token.kind), Some(Letter(_)));
        (rest.first().is_some_and(is_capital)
            && starts
            && joined + 1 >= FEWEST
            && is_apart(rest.get(joined + 1)))
        .then_some(joined + 1)
    }

    /// Whether a name before an open bracket is that of a function rather than a factor. f, g and h
    /// are functions; other letters are if the bracket holds no more than names and numbers: x(t),
    /// but n(n+1).
    fn is_function(&self, name: &str, open: usize) -> bool {
        let Some(Token { kind: Mark('('), spaced: false }) = self.tokens.get(open) else {
            return false;
        };
        let Some(close) = closing(self.tokens, open) else { return false };
        let letter = name.trim_end_matches('\'').split('_').next().unwrap_or(name);
        let arguments = split(&self.tokens[open + 1..close], |kind| kind == Mark(','));
        matches!(letter, "f" | "g" | "h" | "F" | "G" | "H")
            || (name.chars().next().is_some_and(char::is_alphabetic)
                && arguments.iter().all(|part| is_simple(part)))
    }
}
