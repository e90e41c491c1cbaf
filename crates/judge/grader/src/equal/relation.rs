//! Equations, inequalities and chains of them.

use std::collections::BTreeSet;

use super::super::answer::Answer;
use super::super::expression::Expression;
use super::super::fuel::OutOfFuel;
use super::super::relation::Relation;
use super::super::value::{FactorSign, constant_ratio};
use super::collection::equations_of_tuple;
use super::conclusion::{concluded_value, is_value, named_value, names};
use super::quantity::is_name;
use super::{Comparison, Rule, are_conditions, is_set};

impl Comparison<'_> {
    /// Compares two answers, at least one of which has relations.
    pub(super) fn relations(
        &mut self,
        gold: &Answer,
        given: &Answer,
    ) -> Result<Option<Rule>, OutOfFuel> {
        let equations = |answer: &Answer| match answer {
            Answer::List(parts) if are_conditions(answer) => Some(parts.clone()),
            answer => equations_of_tuple(answer),
        };
        if let (Some(gold), Some(given)) = (equations(gold), equations(given)) {
            return Ok(self.lists(&gold, &given)?.then_some("the same values of the same names"));
        }
        match (gold, given) {
            (Answer::Chain(sides, relations), Answer::Chain(other_sides, other_relations)) => {
                self.chains((sides, relations), (other_sides, other_relations), gold, given)
            }
            (Answer::Chain(sides, relations), given) => {
                if let Some(value) = named_value(sides, relations) {
                    return Ok(self
                        .answers(value, given)?
                        .and(Some("the value of the ground truth's equation")));
                }
                self.member_or_spans(gold, given, true)
            }
            (gold, Answer::Chain(sides, relations)) => {
                if self.contradicts_itself(sides, relations)? {
                    return Ok(None);
                }
                if let Some(value) = concluded_value(sides, relations) {
                    return Ok(self
                        .answers(gold, value)?
                        .and(Some("the value of the response's equation")));
                }
                self.member_or_spans(gold, given, self.allow_set_relation)
            }
            _ => Ok(None),
        }
    }

    fn chains(
        &mut self,
        gold: (&[Answer], &[Relation]),
        given: (&[Answer], &[Relation]),
        gold_answer: &Answer,
        given_answer: &Answer,
    ) -> Result<Option<Rule>, OutOfFuel> {
        if self.contradicts_itself(given.0, given.1)? {
            return Ok(None);
        }
        if self.same_chain(gold, given)? {
            return Ok(Some("the same relations"));
        }
        if let (Some(value), Some(other)) =
            (named_value(gold.0, gold.1), concluded_value(given.0, given.1))
            && self.same_names(&gold.0[0], &given.0[0])?
        {
            let renamed = renamed(&gold.0[0], &given.0[0], other);
            let other = renamed.as_ref().unwrap_or(other);
            return Ok(self.answers(value, other)?.and(Some("the same value of the same name")));
        }
        if let (([a, b], [relation]), ([c, d], [other])) = (gold, given)
            && let (Some(a), Some(b), Some(c), Some(d)) =
                (a.expression(), b.expression(), c.expression(), d.expression())
            && self.same_up_to_factor((a, *relation, b), (c, *other, d))?
        {
            // 3x - 2 = 7 for x = 3 is the question. With 0 on one side it may be one too, but also
            // the usual equation of a line: 2x - 3 = 0 for the directrix x = 3/2.
            if !self.allow_undone
                && is_solved(gold.0, is_unknown)
                && !is_solved(given.0, names_with_sign)
                && !given.0.iter().any(is_zero)
            {
                self.is_left_undone = true;
                return Ok(None);
            }
            return Ok(Some("the same relation up to a constant factor"));
        }
        // Equal bounds on another variable are no answer, unless the ground truth is only a
        // membership.
        let asks_for_set = gold.1.contains(&Relation::In);
        let says_member = asks_for_set || given.1.contains(&Relation::In);
        if !says_member && variables_of(gold.0) != variables_of(given.0) {
            return Ok(None);
        }
        self.member_or_spans(gold_answer, given_answer, self.allow_set_relation || !asks_for_set)
    }

    /// Compares chains: sides and relations must be equal, in this or the reverse order.
    fn same_chain(
        &mut self,
        gold: (&[Answer], &[Relation]),
        given: (&[Answer], &[Relation]),
    ) -> Result<bool, OutOfFuel> {
        if gold.0.len() != given.0.len() {
            return Ok(false);
        }
        if gold.1 == given.1 && self.ordered(gold.0, given.0)? {
            return Ok(true);
        }
        let turned: Vec<_> = given.1.iter().rev().map(|relation| relation.turned()).collect();
        if gold.1 != turned {
            return Ok(false);
        }
        let reversed: Vec<_> = given.0.iter().rev().cloned().collect();
        self.ordered(gold.0, &reversed)
    }

    /// Whether both sides name the same thing; the arguments of a function may have other names.
    fn same_names(&mut self, gold: &Answer, given: &Answer) -> Result<bool, OutOfFuel> {
        match (gold.expression(), given.expression()) {
            (Some(Expression::Unknown(a, x)), Some(Expression::Unknown(b, y)))
                if a == b
                    && a.chars().count() == 1
                    && variables(x).is_some()
                    && variables(y).is_some() =>
            {
                Ok(x.len() == y.len())
            }
            // y = 2x is f(x) = 2x.
            (Some(Expression::Unknown(_, x)), Some(Expression::Symbol(y)))
            | (Some(Expression::Symbol(y)), Some(Expression::Unknown(_, x))) => {
                Ok(**y == *"y" && x.len() == 1 && variables(x).is_some())
            }
            _ => Ok(self.answers(gold, given)?.is_some()),
        }
    }

    /// Whether a - b and c - d are in a constant ratio, positive where the direction of the
    /// relation counts.
    fn same_up_to_factor(
        &mut self,
        (a, relation, b): (&Expression, Relation, &Expression),
        (c, other, d): (&Expression, Relation, &Expression),
    ) -> Result<bool, OutOfFuel> {
        if a.is_number() && b.is_number() {
            return Ok(false);
        }
        let difference =
            |a: &Expression, b: &Expression| Expression::Sum(vec![a.clone(), b.clone().negated()]);
        let factor = constant_ratio(&difference(a, b), &difference(c, d), self.fuel)?;
        Ok(match factor {
            None => false,
            Some(_) if !relation.is_order() => {
                relation == other && matches!(relation, Relation::Equal | Relation::NotEqual)
            }
            Some(FactorSign::Positive) => relation == other,
            Some(FactorSign::Negative) => relation == other.turned(),
            Some(FactorSign::NotReal) => false,
        })
    }

    /// Compares two answers as sets of numbers: x in S is S, a < x < b an interval.
    fn member_or_spans(
        &mut self,
        gold: &Answer,
        given: &Answer,
        relations_allowed: bool,
    ) -> Result<Option<Rule>, OutOfFuel> {
        let (a, b) = (set_of_member(gold), set_of_member(given));
        if let (Some(a), Some(b)) = (a, b) {
            // x in [0, 1] is not x = 0 or x = 1.
            let is_interval_and_list = matches!(
                (a, b),
                (Answer::Sequence(..), Answer::List(_)) | (Answer::List(_), Answer::Sequence(..))
            );
            let is_relation = |answer: &Answer| matches!(answer, Answer::Chain(..));
            if !is_interval_and_list && !is_relation(a) && !is_relation(b) {
                return self.answers(a, b);
            }
        }
        let (a, b) = (a.unwrap_or(gold), b.unwrap_or(given));
        let comparable = |answer: &Answer| {
            is_set(answer) || matches!(answer, Answer::Chain(..) | Answer::List(_))
        };
        if relations_allowed && comparable(a) && comparable(b) && self.same_spans(a, b)? {
            return Ok(Some("the same numbers"));
        }
        Ok(None)
    }
}

/// Whether a relation has a name on one side and a number on the other.
fn is_solved(sides: &[Answer], is_named: fn(&Answer) -> bool) -> bool {
    matches!(sides, [a, b] if is_named(a) && is_value(b) || is_value(a) && is_named(b))
}

fn is_zero(answer: &Answer) -> bool {
    answer.expression() == Some(&Expression::integer(0))
}

/// Whether an answer is a name, but no product of names: xy = 1 is a curve.
fn is_unknown(answer: &Answer) -> bool {
    names(answer) && !matches!(answer.expression(), Some(Expression::Product(_)))
}

/// Whether an answer is a name, perhaps with a minus.
fn names_with_sign(answer: &Answer) -> bool {
    let is_negated = |expression: &Expression| match expression {
        Expression::Product(factors) => match &factors[..] {
            [sign, rest @ ..] => {
                *sign == Expression::integer(-1) && !rest.is_empty() && rest.iter().all(is_name)
            }
            [] => false,
        },
        _ => false,
    };
    names(answer) || answer.expression().is_some_and(is_negated)
}

/// The set of a membership: S in "x in S". Any other answer is itself.
fn set_of_member(answer: &Answer) -> Option<&Answer> {
    match answer {
        Answer::Chain(sides, relations) => match (&sides[..], &relations[..]) {
            ([member, set], [Relation::In]) if names(member) && !is_value(set) => Some(set),
            _ => None,
        },
        answer => Some(answer),
    }
}

/// The names of the variables and functions in the sides of a chain.
fn variables_of(sides: &[Answer]) -> BTreeSet<&str> {
    let mut variables = BTreeSet::new();
    for expression in sides.iter().filter_map(Answer::expression) {
        super::quantity::collect_names(expression, &mut variables);
    }
    variables
}

/// The names of the arguments; `None` unless all are different variables.
fn variables(arguments: &[Expression]) -> Option<Vec<&str>> {
    let mut names = Vec::with_capacity(arguments.len());
    for argument in arguments {
        match argument {
            Expression::Symbol(name) if !names.contains(&&**name) => names.push(&**name),
            _ => return None,
        }
    }
    Some(names)
}

/// The value with the ground truth's names for the arguments; `None` if the names are already the
/// same.
fn renamed(gold: &Answer, given: &Answer, value: &Answer) -> Option<Answer> {
    let (Expression::Unknown(_, gold), Expression::Unknown(_, given)) =
        (gold.expression()?, given.expression()?)
    else {
        return None;
    };
    let (to, from) = (variables(gold)?, variables(given)?);
    if to == from || to.len() != from.len() {
        return None;
    }
    let Answer::Quantity(quantity) = value else { return None };
    let mut quantity = quantity.clone();
    // f(a) = x + a is not f(x) = x + a: the x of the first is another one.
    let place = |names: &[&str], name: &str| names.iter().position(|other| *other == name);
    let rename = |name: &str| match place(&from, name) {
        Some(index) => Some(to[index].into()),
        None => place(&to, name).map(|_| format!("{name} of the response").into()),
    };
    quantity.expression.rename(&rename);
    Some(Answer::Quantity(quantity))
}
