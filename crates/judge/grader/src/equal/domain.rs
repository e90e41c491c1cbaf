//! Conditions under which answers hold.

use std::collections::BTreeSet;

use super::super::answer::{Answer, Domain};
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
        let (gold, asked) = parts(gold);
        let (given, said) = parts(given);
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
