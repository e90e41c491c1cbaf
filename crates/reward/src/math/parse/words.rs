//! What stands around a formula without being a part of it: punctuation, labels, conditions, units.

use super::super::latex::words::is_negation;
use super::super::latex::{Kind, Token};
use super::slices::places;

/// Tokens without the punctuation of a sentence around them.
pub fn trimmed<'t, 'a>(mut tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    while let [rest @ .., Token { kind: Kind::Mark('.' | ',' | ';' | ':' | '?') | Kind::Row, .. }] = tokens {
        tokens = rest;
    }
    while let [Token { kind: Kind::Mark('.' | ',' | ';' | ':') | Kind::Row, .. }, rest @ ..] = tokens {
        tokens = rest;
    }
    tokens
}

/// Tokens without a clause at their end that says for what the answer holds: all x.
pub fn without_condition<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    let word = |place: usize| match tokens.get(place).map(|token| token.kind) {
        Some(Kind::Word(word) | Kind::Upright(word)) => word,
        _ => "",
    };
    let is_clause =
        |place: usize| word(place) == "for" && matches!(word(place + 1), "all" | "any" | "every" | "each");
    let clauses = places(tokens, |place, _| place > 0 && is_clause(place));
    clauses.first().map_or(tokens, |&place| &tokens[..place])
}

/// The place of a colon or an equals sign that has nothing but words before it, as in "Minimum: 3".
pub fn label_end(tokens: &[Token<'_>]) -> Option<usize> {
    let is_word = |token: &&Token<'_>| matches!(token.kind, Kind::Word(_) | Kind::Upright(_));
    let words = tokens.iter().take_while(is_word).count();
    let ends = matches!(tokens.get(words)?.kind, Kind::Mark(':' | '='));
    (words > 0 && ends && words + 1 < tokens.len()).then_some(words)
}

/// Tokens without a word before the number that says no more than what follows, such as a currency.
pub fn without_label<'t, 'a>(mut tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    while let [Token { kind: Kind::Word(word) | Kind::Upright(word), .. }, rest @ ..] = tokens
        && matches!(
            word.to_ascii_lowercase().as_str(),
            "about" | "approximately" | "rs" | "usd" | "eur" | "gbp" | "rmb" | "is" | "exactly" | "answer"
        )
        && !rest.is_empty()
    {
        tokens = trimmed(rest);
    }
    tokens
}

/// Tokens without the sign of degrees at their end, if they have it there and nowhere else.
pub fn without_degree<'t, 'a>(tokens: &'t [Token<'a>]) -> (&'t [Token<'a>], bool) {
    let is_sign = |kind: Kind<'_>| matches!(kind, Kind::Command("circ" | "degree"));
    let mut signs = (0..tokens.len()).filter(|&place| is_sign(tokens[place].kind));
    let (Some(place), None) = (signs.next(), signs.next()) else { return (tokens, false) };
    let start = match &tokens[..place] {
        [.., Token { kind: Kind::Mark('^'), .. }, Token { kind: Kind::Mark('{'), .. }] => place - 2,
        [.., Token { kind: Kind::Mark('^'), .. }] => place - 1,
        _ if tokens[place].kind == Kind::Command("degree") => place,
        _ => return (tokens, false),
    };
    let rest = &tokens[place + 1..];
    let rest = match rest {
        [Token { kind: Kind::Mark('}'), .. }, rest @ ..] if start + 2 == place => rest,
        rest => rest,
    };
    let scale = match rest {
        [Token { kind: Kind::Letter('C' | 'F'), .. }] => true,
        rest => is_unit(rest),
    };
    // sin 30° is no number of degrees.
    let of_function = tokens[..start].iter().any(|token| matches!(token.kind, Kind::Command(name) if name.len() >= 3 && name != "frac" && name != "sqrt"));
    if scale && start > 0 && !of_function { (&tokens[..start], true) } else { (tokens, false) }
}

/// Whether tokens after a value are its unit: words with powers and quotients, or nothing.
pub fn is_unit(tokens: &[Token<'_>]) -> bool {
    let kind = |place: usize| tokens.get(place).map(|token| token.kind);
    let allowed = |place: usize| match tokens[place].kind {
        // "5 is wrong" is no amount of anything.
        Kind::Word(word) | Kind::Upright(word) => !is_negation(word),
        Kind::Mark('/' | '^' | '{' | '}' | '-' | '*' | '(' | ')' | '.' | '%') => true,
        Kind::Command("cdot" | "circ" | "degree") => true,
        Kind::Letter(letter) => {
            letter.is_ascii_alphabetic()
                && matches!(
                    kind(place.wrapping_sub(1)),
                    Some(Kind::Mark('/' | '*' | '(') | Kind::Command("cdot"))
                )
        }
        // Only as the power of a unit.
        Kind::Number(_) => {
            let before =
                tokens[..place].iter().rev().find(|token| !matches!(token.kind, Kind::Mark('{' | '-')));
            before.is_some_and(|token| token.kind == Kind::Mark('^'))
        }
        _ => false,
    };
    matches!(kind(0), None | Some(Kind::Word(_) | Kind::Upright(_))) && (0..tokens.len()).all(allowed)
}
