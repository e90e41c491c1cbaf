//! What names do in lists of answers.

use super::super::answer::{Answer, Quantity};
use super::super::expression::Expression;
use super::super::relation::Relation;

/// In "x = 1, 2" the name is the whole list's: it is left out.
pub fn share_name(answers: &mut [Answer]) {
    let [first, rest @ ..] = answers else { return };
    let lone =
        !rest.is_empty() && !rest.iter().any(|answer| matches!(answer, Answer::Chain(..) | Answer::Text(_)));
    if let Answer::Chain(sides, relations) = first
        && lone
        && let [Answer::Quantity(Quantity { expression: Expression::Symbol(_), .. }), _] = &sides[..]
        && relations[..] == [Relation::Equal]
        && let Some(value) = sides.pop()
    {
        *first = value;
    }
}

/// Lists of values of the same names, where a list goes through the names more than once: p = 5, q = 2, p = 7, q = 2.
pub fn solutions(answers: Vec<Answer>) -> Vec<Answer> {
    let name = |answer: &Answer| match answer {
        Answer::Chain(sides, relations) if relations.first() == Some(&Relation::Equal) => {
            match sides[0].expression() {
                Some(Expression::Symbol(name)) => Some(name.clone()),
                _ => None,
            }
        }
        _ => None,
    };
    let Some(names) = answers.iter().map(name).collect::<Option<Vec<_>>>() else { return answers };
    let period =
        names.iter().skip(1).position(|name| *name == names[0]).map_or(names.len(), |place| place + 1);
    let is_periodic = period > 1
        && period < names.len()
        && names.len() % period == 0
        && (0..names.len()).all(|place| names[place] == names[place % period]);
    if !is_periodic {
        return answers;
    }
    answers.chunks(period).map(|solution| Answer::List(solution.to_vec())).collect()
}

/// Whether answers give values to names that are not all the same.
pub fn name_several(answers: &[Answer]) -> bool {
    let name = |answer: &Answer| match answer {
        Answer::Chain(sides, relations) if relations[..] == [Relation::Equal] => {
            sides[0].expression().filter(|side| matches!(side, Expression::Symbol(_))).cloned()
        }
        _ => None,
    };
    let names: Option<Vec<_>> = answers.iter().map(name).collect();
    names.is_some_and(|names| names.windows(2).any(|pair| pair[0] != pair[1]))
}
