//! Names in lists of answers.

use super::super::answer::Answer;
use super::super::expression::Expression;
use super::super::relation::Relation;

/// Whether answers give values to several different names.
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
