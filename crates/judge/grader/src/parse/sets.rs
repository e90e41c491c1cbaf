//! Symbols of sets of real numbers: `\mathbb{R}`, `\mathbb{R}^+`, `\mathbb{R}_{\ge 0}`,
//! `\mathbb{R}^*`.

use super::super::answer::{Answer, Brackets};
use super::super::expression::{Constant, Expression};
use super::super::latex::Kind::{Command, Letter, Mark, Number};
use super::super::latex::{Kind, Token};

/// Whether tokens start with the symbol of the real numbers.
pub fn names_reals(tokens: &[Token<'_>]) -> bool {
    after_reals(tokens).is_some()
}

/// Whether the last token closes the braces of a set.
pub fn ends_in_set(tokens: &[Token<'_>]) -> bool {
    matches!(tokens, [.., Token { kind: Command("rbrace"), .. }])
}

/// The set whose symbol the tokens are.
pub fn number_set(tokens: &[Token<'_>]) -> Option<Answer> {
    let mark: Vec<Kind<'_>> = after_reals(tokens)?
        .iter()
        .map(|token| token.kind)
        .filter(|kind| !matches!(kind, Mark('{' | '}')))
        .collect();
    let sign = match &mark[..] {
        [] => return Some(Answer::Reals),
        [Mark('^' | '_'), sign @ ..] => sign,
        _ => return None,
    };
    Some(match sign {
        [Mark('+')] | [Mark('>') | Command("gt"), Number("0")] => positive(false),
        [Mark('-')] | [Mark('<') | Command("lt"), Number("0")] => negative(false),
        [Command("ge" | "geq" | "geqslant"), Number("0")] => positive(true),
        [Command("le" | "leq" | "leqslant"), Number("0")] => negative(true),
        [Mark('*') | Command("ast" | "times")] | [Command("ne" | "neq"), Number("0")] => {
            Answer::Union(vec![negative(false), positive(false)])
        }
        _ => return None,
    })
}

/// The tokens behind the symbol of the real numbers, if tokens start with it.
fn after_reals<'t, 'a>(tokens: &'t [Token<'a>]) -> Option<&'t [Token<'a>]> {
    match tokens {
        [
            Token { kind: Command("mathbb"), .. },
            Token { kind: Mark('{'), .. },
            Token { kind: Letter('R'), .. },
            Token { kind: Mark('}'), .. },
            rest @ ..,
        ]
        | [Token { kind: Command("mathbb"), .. }, Token { kind: Letter('R'), .. }, rest @ ..] => {
            Some(rest)
        }
        _ => None,
    }
}

fn positive(with_zero: bool) -> Answer {
    let ends = vec![Answer::plain(Expression::integer(0)), Answer::plain(infinity())];
    Answer::Sequence(Brackets { closed_left: with_zero, closed_right: false }, ends)
}

fn negative(with_zero: bool) -> Answer {
    let ends = vec![Answer::plain(infinity().negated()), Answer::plain(Expression::integer(0))];
    Answer::Sequence(Brackets { closed_left: false, closed_right: with_zero }, ends)
}

fn infinity() -> Expression {
    Expression::Constant(Constant::Infinity)
}
