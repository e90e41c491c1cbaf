//! Lists, sets, sequences, matrices and ratios.

use std::collections::{HashMap, HashSet};

use num_integer::Integer;
use num_traits::{One, Zero};

use super::super::answer::{Answer, Quantity};
use super::super::expression::Expression;
use super::super::fuel::OutOfFuel;
use super::super::matrix::Matrix;
use super::super::relation::Relation;
use super::Comparison;
use super::undone::is_written_out;

impl Comparison<'_> {
    /// Whether two lists have equal answers at the same places.
    pub(super) fn ordered(&mut self, gold: &[Answer], given: &[Answer]) -> Result<bool, OutOfFuel> {
        if gold.len() != given.len() {
            return Ok(false);
        }
        for (gold, given) in gold.iter().zip(given) {
            if self.answers(gold, given)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares lists in any order; in the order of their names if the ground truth names different
    /// things that the response does not name.
    pub(super) fn lists(&mut self, gold: &[Answer], given: &[Answer]) -> Result<bool, OutOfFuel> {
        // An answer that is repeated counts once.
        let distinct = if gold.len() < given.len() { distinct(given) } else { given.to_vec() };
        let given = &distinct[..];
        if gold.len() != given.len() {
            return Ok(false);
        }
        let names: Vec<_> = gold.iter().filter_map(base_name).collect();
        let named = names.len() == gold.len() && names.windows(2).any(|pair| pair[0] != pair[1]);
        if named && given.iter().any(|answer| base_name(answer).is_none()) {
            return self.ordered(gold, given);
        }
        self.matched(gold, given)
    }

    /// Compares sets; repeated elements count once.
    pub(super) fn sets(&mut self, gold: &[Answer], given: &[Answer]) -> Result<bool, OutOfFuel> {
        let (gold, given) = (distinct(gold), distinct(given));
        Ok(gold.len() == given.len() && self.matched(&gold, &given)?)
    }

    /// The elements of sets. {5} is not 5.
    pub(super) fn elements(
        &mut self,
        gold: &[Answer],
        given: &[Answer],
    ) -> Result<bool, OutOfFuel> {
        self.nesting += 1;
        let same = self.sets(gold, given);
        self.nesting -= 1;
        same
    }

    /// Whether two lists of the same length can be paired so that each pair is equal.
    fn matched(&mut self, gold: &[Answer], given: &[Answer]) -> Result<bool, OutOfFuel> {
        let (gold, mut free) = without_common(gold, given);
        for (place, answer) in gold.iter().enumerate() {
            // Equal order is the likeliest, so it is tried first.
            let likely = place + free.len() - gold.len();
            let mut found = None;
            for candidate in
                std::iter::once(likely).chain((0..free.len()).filter(|&other| other != likely))
            {
                if self.answers(answer, free[candidate])?.is_some() {
                    found = Some(candidate);
                    break;
                }
            }
            match found {
                Some(candidate) => free.remove(candidate),
                None => return Ok(false),
            };
        }
        Ok(true)
    }

    /// Compares matrices: they need the same size and the same entries.
    pub(super) fn matrices(&mut self, gold: &Matrix, given: &Matrix) -> Result<bool, OutOfFuel> {
        if gold.rows().len() != given.rows().len() || gold.rows()[0].len() != given.rows()[0].len()
        {
            return Ok(false);
        }
        for (a, b) in gold.rows().iter().flatten().zip(given.rows().iter().flatten()) {
            if !self.expressions(a, b)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares two vectors by their coordinates; false if either is no vector.
    pub(super) fn vectors(
        &mut self,
        gold: Option<Vec<&Expression>>,
        given: Option<Vec<&Expression>>,
    ) -> Result<bool, OutOfFuel> {
        let (Some(gold), Some(given)) = (gold, given) else { return Ok(false) };
        if gold.len() != given.len() {
            return Ok(false);
        }
        for (gold, given) in gold.into_iter().zip(given) {
            if !self.expressions(gold, given)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares ratios by their quotients; part by part if a part is 0 or the ratio is a time of
    /// day (1:05).
    pub(super) fn ratios(
        &mut self,
        gold: &[Quantity],
        given: &[Quantity],
    ) -> Result<bool, OutOfFuel> {
        if gold.len() != given.len() {
            return Ok(false);
        }
        let is_zero = |part: &Quantity| matches!(&part.expression, Expression::Number(number) if number.is_zero());
        let literal = self.are_times || gold.iter().chain(given).any(is_zero);
        for index in 0..gold.len() {
            let (a, b) = (&gold[index].expression, &given[index].expression);
            let same = if literal {
                self.expressions(a, b)?
            } else {
                let left = Expression::Product(vec![a.clone(), given[0].expression.clone()]);
                let right = Expression::Product(vec![b.clone(), gold[0].expression.clone()]);
                self.expressions(&left, &right)?
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The coordinates of a tuple of expressions.
pub(super) fn coordinates(items: &[Answer]) -> Option<Vec<&Expression>> {
    items.iter().map(Answer::expression).collect()
}

/// Whether a ratio is in lowest terms, if that is known; with decimals or fractions only a ratio to
/// 1 is. A ratio that is not may be a range, "10 to 20", or a division.
pub(super) fn is_reduced(ratio: &[Quantity]) -> bool {
    let [a, b] = ratio else { return true };
    match (&a.expression, &b.expression) {
        (Expression::Number(a), Expression::Number(b)) if a.is_integer() && b.is_integer() => {
            a.numer().gcd(b.numer()).is_one()
        }
        (a, b) => *b == Expression::integer(1) || !(is_written_out(a) && is_written_out(b)),
    }
}

/// The quotient a/b of a ratio a:b; for a:1 it is a.
pub(super) fn quotient(ratio: &[Quantity]) -> Option<Expression> {
    let [Quantity { expression: a, .. }, Quantity { expression: b, .. }] = ratio else {
        return None;
    };
    Some(if *b == Expression::integer(1) { a.clone() } else { a.clone().over(b.clone()) })
}

/// The equations of `(x, y) = (1, 2)`, one for each name.
pub(super) fn equations_of_tuple(answer: &Answer) -> Option<Vec<Answer>> {
    let Answer::Chain(sides, relations) = answer else { return None };
    let ([Answer::Sequence(_, names), Answer::Sequence(_, values)], [Relation::Equal]) =
        (&sides[..], &relations[..])
    else {
        return None;
    };
    let are_names =
        names.iter().all(|name| name.expression().is_some_and(super::quantity::is_name));
    (are_names && names.len() == values.len()).then(|| {
        let equation = |(name, value): (&Answer, &Answer)| {
            Answer::Chain(vec![name.clone(), value.clone()], vec![Relation::Equal])
        };
        names.iter().zip(values).map(equation).collect()
    })
}

/// The name and the value of an equation that assigns a value to a variable.
fn named(answer: &Answer) -> Option<(&str, &Answer)> {
    match answer {
        Answer::Chain(sides, relations) if relations.first() == Some(&Relation::Equal) => {
            match sides[0].expression() {
                Some(Expression::Symbol(name)) => Some((name, &sides[1])),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether an equation is among answers.
pub(super) fn has_equation(answers: &[Answer]) -> bool {
    let is_equation = |answer: &Answer| -> bool {
        matches!(answer, Answer::Chain(_, relations) if relations.first() == Some(&Relation::Equal))
    };
    answers.iter().any(is_equation)
}

/// The values of equations for coordinates: x, y and z in that order, however they are written;
/// other variables as written, if that is their usual order. `None` if an answer is anything else.
pub(super) fn by_coordinate(equations: &[Answer]) -> Option<Vec<Answer>> {
    let mut named = equations.iter().map(named).collect::<Option<Vec<_>>>()?;
    let coordinates = ["x", "y", "z"].get(..named.len());
    if coordinates
        .is_some_and(|names| names.iter().all(|name| named.iter().any(|(other, _)| other == name)))
    {
        named.sort_by_key(|(name, _)| *name);
    }
    let are_in_order = named.windows(2).all(|pair| usual_place(pair[0].0) < usual_place(pair[1].0));
    are_in_order.then(|| named.into_iter().map(|(_, value)| value.clone()).collect())
}

/// The usual place of a variable among others: Latin letters in their order, then others, each with
/// ascending subscripts.
fn usual_place(name: &str) -> (bool, &str, usize, &str) {
    let (letter, subscript) = name.split_once('_').unwrap_or((name, ""));
    (name.starts_with('\\'), letter, subscript.len(), subscript)
}

/// Whether answers may be one value in several forms: none has a name, or the first has a name that
/// the others share or omit.
pub(super) fn are_forms(answers: &[Answer]) -> bool {
    let left = |answer: &Answer| match answer {
        Answer::Chain(sides, _) => sides.first().cloned(),
        _ => None,
    };
    let Some((first, rest)) = answers.split_first() else { return false };
    rest.iter().all(|answer| matches!(answer, Answer::Quantity(_)) || left(answer) == left(first))
}

/// Answers without repetitions.
pub(super) fn distinct(answers: &[Answer]) -> Vec<Answer> {
    if answers.len() > FEW {
        let mut seen = HashSet::with_capacity(answers.len());
        return answers
            .iter()
            .filter(|answer| seen.insert(format!("{answer:?}")))
            .cloned()
            .collect();
    }
    let mut distinct: Vec<Answer> = Vec::with_capacity(answers.len());
    for answer in answers {
        if !distinct.contains(answer) {
            distinct.push(answer.clone());
        }
    }
    distinct
}

/// Longer lists are matched by the form of their answers first, since comparing each with each
/// takes too long.
const FEW: usize = 16;

/// The answers of two lists without those that both have in the same form. Of long lists, few are
/// left.
fn without_common<'a>(
    gold: &'a [Answer],
    given: &'a [Answer],
) -> (Vec<&'a Answer>, Vec<&'a Answer>) {
    if gold.len() <= FEW {
        return (gold.iter().collect(), given.iter().collect());
    }
    let mut places = HashMap::<String, Vec<usize>>::with_capacity(given.len());
    for (place, answer) in given.iter().enumerate() {
        places.entry(format!("{answer:?}")).or_default().push(place);
    }
    let mut is_free = vec![true; given.len()];
    let mut has_none =
        |answer: &&Answer| match places.get_mut(&format!("{answer:?}")).and_then(Vec::pop) {
            Some(place) => {
                is_free[place] = false;
                false
            }
            None => true,
        };
    let left = gold.iter().filter(|answer| has_none(answer)).collect();
    (
        left,
        given
            .iter()
            .zip(is_free)
            .filter_map(|(answer, is_free)| is_free.then_some(answer))
            .collect(),
    )
}

/// The name in `name = value`, without a subscript.
fn base_name(answer: &Answer) -> Option<String> {
    let Answer::Chain(sides, relations) = answer else { return None };
    let name = sides.first()?.expression().filter(|name| super::quantity::is_name(name))?;
    (relations.first() == Some(&Relation::Equal)).then(|| match name {
        Expression::Symbol(name) | Expression::Unknown(name, _) => {
            name.split('_').next().unwrap_or_default().to_owned()
        }
        other => format!("{other:?}"),
    })
}
