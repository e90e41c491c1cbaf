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
                Domain::Condition(condition) => {
                    self.some_same(conditions(said).map(|said| (condition, said)))?
                }
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
                Domain::Condition(condition) => {
                    self.some_same(conditions(asked).map(|asked| (asked, condition)))?
                }
            };
            if !is_asked {
                return Ok(None);
            }
        }
        self.answers(gold, given)
    }

    /// Whether the answers of some pair (ground truth, response) are the same.
    fn some_same<'a>(
        &mut self,
        pairs: impl Iterator<Item = (&'a Answer, &'a Answer)>,
    ) -> Result<bool, OutOfFuel> {
        // A condition is not what is asked for: n - 1 >= 0 says n >= 1.
        let allowed = std::mem::replace(&mut self.allow_undone, true);
        let mut found = Ok(false);
        for (gold, given) in pairs {
            match self.answers(gold, given) {
                Ok(None) => {}
                other => {
                    found = other.map(|rule| rule.is_some());
                    break;
                }
            }
        }
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
