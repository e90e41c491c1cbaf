//! Conditions under which answers hold.

use std::collections::BTreeSet;

use super::super::answer::{Answer, Domain};
use super::super::expression::Expression;
use super::super::fuel::OutOfFuel;
use super::super::number_kind::NumberKind;
use super::super::relation::Relation;
use super::quantity::collect_names_of_answer;
use super::{Comparison, Rule};

impl Comparison<'_> {
    /// Compares two answers, at least one of which has a domain.
    pub(super) fn restricted(
        &mut self,
        gold: &Answer,
        given: &Answer,
    ) -> Result<Option<Rule>, OutOfFuel> {
        let renamed = with_parameter_of(gold, given);
        let (gold, asked) = parts(gold);
        let (given, said) = parts(renamed.as_ref().unwrap_or(given));
        for domain in asked {
            let is_same = match domain {
                Domain::Kind(name, kind) => {
                    let mut of_name = said.iter().filter_map(|domain| match domain {
                        Domain::Kind(other, kind) if other == name => Some(*kind),
                        _ => None,
                    });
                    let other = of_name.next_back();
                    other.is_some_and(|other| kind.agrees(other))
                        || other.is_none()
                            && !said.iter().any(|domain| matches!(domain, Domain::Condition(_)))
                            && (is_any_real(domain) || !is_condition(gold))
                }
                Domain::Condition(condition) => self.some_condition(said, |this, said| {
                    Ok(this.answers(condition, said)?.is_some())
                })?,
            };
            if !is_same {
                return Ok(None);
            }
        }
        for domain in said.iter().filter(|domain| {
            !is_any_real(domain) || asked.iter().any(|other| same_name(domain, other))
        }) {
            let is_asked = match domain {
                // "5 for even n" is 5 in some cases only.
                Domain::Kind(name, kind) => {
                    asked.iter().any(|other| same_name(domain, other))
                        || !is_condition(given)
                            && (names(given).contains(&**name) || *kind == NumberKind::INTEGER)
                }
                Domain::Condition(condition) => self.some_condition(asked, |this, asked| {
                    Ok(this.answers(asked, condition)?.is_some())
                })?,
            };
            if !is_asked {
                return Ok(None);
            }
        }
        self.answers(gold, given)
    }

    /// Whether some condition is so. None is what is asked for, so n - 1 >= 0 says n >= 1.
    fn some_condition(
        &mut self,
        domains: &[Domain],
        is_so: impl FnMut(&mut Self, &Answer) -> Result<bool, OutOfFuel>,
    ) -> Result<bool, OutOfFuel> {
        let allowed = std::mem::replace(&mut self.allow_undone, true);
        let found = self.some(conditions(domains), is_so);
        self.allow_undone = allowed;
        found
    }
}

fn conditions(domains: &[Domain]) -> impl Iterator<Item = &Answer> {
    domains.iter().filter_map(|domain| match domain {
        Domain::Condition(condition) => Some(condition),
        Domain::Kind(..) => None,
    })
}

fn parts(answer: &Answer) -> (&Answer, &[Domain]) {
    match answer {
        Answer::For(answer, domains) => (answer, domains),
        answer => (answer, &[]),
    }
}

/// The response with the ground truth's name for its parameter: "2k for every integer k" says "2n
/// for every integer n". None if the names are the same, or not both answers have one parameter.
fn with_parameter_of(gold: &Answer, given: &Answer) -> Option<Answer> {
    let (to, from) = (parameter(gold)?, parameter(given)?);
    if to == from || names(given).contains(to) {
        return None;
    }
    let mut renamed = given.clone();
    renamed.rename(&|name: &str| -> Option<Box<str>> { (name == from).then(|| to.into()) });
    Some(renamed)
}

/// The only name of an answer whose kind its domains give, if the answer is not about that name.
fn parameter(answer: &Answer) -> Option<&str> {
    let Answer::For(answer, domains) = answer else { return None };
    let mut names = domains.iter().filter_map(|domain| match domain {
        Domain::Kind(name, _) => Some(&**name),
        Domain::Condition(_) => None,
    });
    let name = names.next()?;
    (names.next().is_none() && !is_about(answer, name)).then_some(name)
}

/// Whether an answer solves an equation for a name, or bounds something: in "x > 3 for integers x"
/// the name is asked for.
fn is_about(answer: &Answer, name: &str) -> bool {
    let is_asked = match answer {
        Answer::Chain(sides, relations) => {
            let is_name = |side: &Answer| side.expression() == Some(&Expression::symbol(name));
            relations.iter().any(|relation| *relation != Relation::Equal)
                || sides.iter().any(is_name)
        }
        _ => false,
    };
    is_asked || answer.parts().0.into_iter().any(|part| is_about(part, name))
}

/// Whether an answer is itself a condition on a variable, so that the kind of number is a part of
/// the answer.
fn is_condition(answer: &Answer) -> bool {
    match answer {
        Answer::Chain(_, relations) => {
            relations.iter().any(|relation| *relation != Relation::Equal)
        }
        Answer::Set(_) => true,
        _ => false,
    }
}

fn names(answer: &Answer) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    collect_names_of_answer(answer, &mut names);
    names
}

/// Whether a domain only says that a name is a number.
fn is_any_real(domain: &Domain) -> bool {
    matches!(domain, Domain::Kind(_, NumberKind::REAL))
}

fn same_name(a: &Domain, b: &Domain) -> bool {
    matches!((a, b), (Domain::Kind(a, _), Domain::Kind(b, _)) if a == b)
}
