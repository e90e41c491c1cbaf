//! Finds the final value of a chain of equations, and whether the chain contradicts itself.

use super::super::answer::{Answer, Quantity};
use super::super::expression::Expression;
use super::super::fuel::OutOfFuel;
use super::super::relation::Relation;
use super::super::value::Tolerance;
use super::Comparison;
use super::quantity::is_name;

impl Comparison<'_> {
    /// Whether the values in equations are not equal: 2 + 2 = 5, x = 3 = 4. An equation for a name
    /// that ends at the value it began with, such as x = 5 + 6 = 7 = 11, has only a slip between.
    pub(super) fn contradicts_itself(
        &mut self,
        sides: &[Answer],
        relations: &[Relation],
    ) -> Result<bool, OutOfFuel> {
        let equations =
            relations.iter().take_while(|relation| **relation == Relation::Equal).count();
        let values: Vec<&Answer> =
            sides[..=equations].iter().filter(|side| is_value(side)).collect();
        let [first, between @ .., last] = &values[..] else { return Ok(false) };
        if self.has_money {
            return Ok(false);
        }
        let tolerance = self.tolerance;
        // 2/3 = 0.67 is no contradiction.
        self.tolerance = Tolerance { significant_digits: 1, decimals: 1 };
        let rounded = sides[equations + 1..].last().filter(|side| is_value(side));
        let contradicts = if sides.first().is_some_and(names) {
            self.any_agrees(true, first, [Some(*last), rounded].into_iter().flatten())
                .map(|agrees| !agrees)
        } else {
            self.any_agrees(false, first, between.iter().chain([last]).copied())
        };
        self.tolerance = tolerance;
        contradicts
    }

    /// Whether any of the others agrees with the first, or any does not.
    fn any_agrees<'a>(
        &mut self,
        agrees: bool,
        first: &Answer,
        others: impl Iterator<Item = &'a Answer>,
    ) -> Result<bool, OutOfFuel> {
        for other in others {
            if self.answers(first, other)?.is_some() == agrees {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The final value of an equation or a chain of equations: the last side before any rounding. For
/// `5 = x` it is 5.
pub(super) fn concluded_value<'a>(
    sides: &'a [Answer],
    relations: &[Relation],
) -> Option<&'a Answer> {
    let equations = relations.iter().take_while(|relation| **relation == Relation::Equal).count();
    let only_rounded =
        relations[equations..].iter().all(|relation| *relation == Relation::Approximate);
    if !only_rounded {
        return None;
    }
    let first = sides.first()?;
    if is_multiple_of_name(first) {
        return None;
    }
    let value = match equations {
        // In x ≈ 11 no side is more exact; in pi ≈ 3.14 the first side is.
        0 if names(first) => sides.last().filter(|value| !names(value))?,
        equations => &sides[equations],
    };
    let names_last = names(value) && !names(first) && sides.len() == 2;
    if names_last {
        return Some(first);
    }
    // The answer of "x^2 - 3x = 0" is not 0.
    let is_zero = value.expression() == Some(&Expression::integer(0));
    let says_value = !is_zero
        || names(first)
        || first.expression().is_some_and(Expression::is_number)
        || sides.len() > 2;
    says_value.then_some(value)
}

/// The value in an equation that assigns a value to a name: 3 in `x = 3`, (3, 2) in `(p, q) = (3,
/// 2)`.
pub(super) fn named_value<'a>(sides: &'a [Answer], relations: &[Relation]) -> Option<&'a Answer> {
    let value = concluded_value(sides, relations)?;
    let others = sides.iter().filter(|side| !std::ptr::eq(*side, value));
    let is_rounded = relations.first() == Some(&Relation::Approximate);
    (is_rounded || others.into_iter().any(names)).then_some(value)
}

/// Whether an answer is a number, with or without a unit.
pub(super) fn is_value(answer: &Answer) -> bool {
    match answer {
        Answer::Quantity(Quantity { expression, .. }) => expression.is_number(),
        _ => false,
    }
}

/// Whether an answer is a number times a variable: the answer of -x = 3 and 2x = 3 is not 3.
fn is_multiple_of_name(answer: &Answer) -> bool {
    matches!(
        answer.expression(),
        Some(Expression::Product(factors))
            if matches!(factors[..], [ref factor, Expression::Symbol(_)] if factor.is_number())
    )
}

/// Whether an answer is a name, or a tuple, list or ratio of names.
pub(super) fn names(answer: &Answer) -> bool {
    match answer {
        Answer::Quantity(quantity) => is_name(&quantity.expression),
        Answer::Sequence(_, items) | Answer::List(items) => items.iter().all(names),
        Answer::Ratio(parts) => parts.iter().all(|part| is_name(&part.expression)),
        _ => false,
    }
}
