//! Figures named by their corners: an angle reads the same from either side, and a triangle from
//! every corner.

use super::super::answer::Answer;
use super::super::expression::Expression;
use super::super::latex::Kind::{Letter, Mark};
use super::super::latex::Token;

/// The function of its corners that a command for a figure stands for.
pub fn figure(command: &str) -> Option<&'static str> {
    Some(match command {
        "angle" | "measuredangle" | "sphericalangle" => ANGLE,
        "triangle" | "bigtriangleup" | "vartriangle" | "Delta" => TRIANGLE,
        "square" | "Box" | "parallelogram" => "square",
        _ => return None,
    })
}

const ANGLE: &str = "angle";
const TRIANGLE: &str = "triangle";

/// The number of next tokens that are adjacent capital letters with their primes.
pub fn corners(tokens: &[Token<'_>]) -> usize {
    let is_corner = |(place, token): &(usize, &Token<'_>)| match token.kind {
        Letter(letter) => letter.is_ascii_uppercase(),
        Mark('\'') => *place > 0,
        _ => false,
    };
    tokens.iter().enumerate().take_while(is_corner).count()
}

/// The figure with these corners. An angle's corners are in the order of its arms.
pub fn of_corners(figure: &'static str, tokens: &[Token<'_>]) -> Expression {
    let mut names: Vec<String> = Vec::new();
    for token in tokens {
        match (token.kind, names.last_mut()) {
            (Letter(letter), _) => names.push(letter.into()),
            (_, Some(name)) => name.push('\''),
            _ => {}
        }
    }
    if figure == ANGLE && names.len() == 3 && names[2] < names[0] {
        names.swap(0, 2);
    }
    Expression::Unknown(figure.into(), names.iter().map(|name| Expression::symbol(name)).collect())
}

/// An answer in which triangles' corners are sorted, because their order does not matter.
pub fn without_order(mut answer: Answer) -> Answer {
    if let Answer::Quantity(quantity) = &mut answer
        && let Expression::Unknown(figure, corners) = &mut quantity.expression
        && **figure == *TRIANGLE
    {
        corners.sort_by_key(|corner| format!("{corner:?}"));
    }
    answer
}
