//! Finding brackets and separators in tokens.

use super::super::latex::Kind::{
    And, Begin, Command, End, Letter, Mark, Number, Or, Row, Upright, Word,
};
use super::super::latex::{Kind, Token};

/// The change of bracket depth by a token.
fn step(kind: Kind<'_>) -> isize {
    match kind {
        Mark('(' | '[' | '{')
        | Begin(_)
        | Command("lbrace" | "langle" | "lfloor" | "lceil" | "lvert" | "lVert") => 1,
        Mark(')' | ']' | '}')
        | End(_)
        | Command("rbrace" | "rangle" | "rfloor" | "rceil" | "rvert" | "rVert") => -1,
        _ => 0,
    }
}

/// The place of the bracket that closes the one at `open`. An interval's brackets need not be a
/// pair.
pub fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate().skip(open) {
        depth += step(token.kind);
        if depth == 0 {
            return Some(place);
        }
        if depth < 0 {
            return None;
        }
    }
    None
}

/// The place of the bracket that the last token closes.
pub fn opening(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0;
    tokens.iter().enumerate().rev().find_map(|(place, token)| {
        depth -= step(token.kind);
        (depth <= 0).then_some(place).filter(|&place| step(tokens[place].kind) == 1)
    })
}

/// Whether the first token is a bracket that the last one closes.
pub fn is_enclosed(tokens: &[Token<'_>]) -> bool {
    tokens.len() >= 2 && step(tokens[0].kind) == 1 && closing(tokens, 0) == Some(tokens.len() - 1)
}

/// The places of wanted tokens outside all brackets.
pub fn places(tokens: &[Token<'_>], wanted: impl Fn(usize, Kind<'_>) -> bool) -> Vec<usize> {
    let mut depth = 0;
    let mut places = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        depth += step(token.kind);
        if depth == 0 && wanted(place, token.kind) {
            places.push(place);
        }
    }
    places
}

/// The slices between places.
pub fn between<'t, 'a>(tokens: &'t [Token<'a>], places: &[usize]) -> Vec<&'t [Token<'a>]> {
    let mut slices = Vec::with_capacity(places.len() + 1);
    let mut start = 0;
    for &place in places {
        slices.push(&tokens[start..place]);
        start = place + 1;
    }
    slices.push(&tokens[start..]);
    slices
}

/// The slices between wanted tokens outside all brackets.
pub fn split<'t, 'a>(
    tokens: &'t [Token<'a>],
    wanted: impl Fn(Kind<'_>) -> bool,
) -> Vec<&'t [Token<'a>]> {
    between(tokens, &places(tokens, |_, kind| wanted(kind)))
}

/// The characters of tokens, for names.
pub fn text(tokens: &[Token<'_>]) -> String {
    let mut text = String::new();
    for token in tokens {
        match token.kind {
            Number(part) | Word(part) | Upright(part) | Command(part) => {
                text.push_str(part);
            }
            Letter(mark) | Mark(mark) => text.push(mark),
            And | Or | Row | Begin(_) | End(_) => text.push(' '),
        }
    }
    text
}
