//! Sets of real numbers in any form: intervals, unions, inequalities, points.
//!
//! The numbers that two sets mention cut the line of real numbers into regions: each of these
//! numbers, and what lies below, between and above them. The sets are the same if they have the
//! same regions.

use std::cmp::Ordering;

use super::super::answer::Answer;
use super::super::expression::{Constant, Expression, Function};
use super::super::fuel::OutOfFuel;
use super::super::relation::Relation;
use super::super::value::compare;
use super::Comparison;

/// Most numbers that two sets may mention.
const MAX_ENDS: usize = 128;

/// The numbers that two sets mention, ascending, each in the spellings of both.
type SharedNumbers = Vec<Vec<Expression>>;

/// A set of numbers: for each region, whether the set has it. May have the name of a variable or
/// function that is in the set.
struct NamedSet<'a> {
    name: Option<&'a Expression>,
    regions: Vec<bool>,
}

/// The name that several things share, if those with a name agree; `None` if two differ.
fn common_name<'a>(
    a: Option<&'a Expression>,
    b: Option<&'a Expression>,
) -> Option<Option<&'a Expression>> {
    (a.is_none() || b.is_none() || a == b).then(|| a.or(b))
}

impl Comparison<'_> {
    /// Whether two answers are the same set of real numbers, of the same variable if both name one;
    /// false where one is not known to be such a set.
    pub(super) fn same_spans(&mut self, gold: &Answer, given: &Answer) -> Result<bool, OutOfFuel> {
        let mut ends = SharedNumbers::new();
        for (answer, is_gold) in [(gold, true), (given, false)] {
            for number in numbers(answer) {
                if !self.insert(&mut ends, number, is_gold)? {
                    return Ok(false);
                }
            }
        }
        let (Some(a), Some(b)) = (self.described(gold, &ends)?, self.described(given, &ends)?)
        else {
            return Ok(false);
        };
        Ok(common_name(a.name, b.name).is_some() && a.regions == b.regions)
    }

    /// Inserts a number in order; false if its place is unclear, or there are too many. A number of
    /// the response may be a rounding of one of the ground truth.
    fn insert(
        &mut self,
        ends: &mut SharedNumbers,
        number: Expression,
        is_gold: bool,
    ) -> Result<bool, OutOfFuel> {
        let mut place = ends.len();
        while place > 0 {
            match compare(&ends[place - 1][0], &number, self.fuel)? {
                None => return Ok(false),
                Some(Ordering::Less) => break,
                Some(Ordering::Equal) => {
                    ends[place - 1].push(number);
                    return Ok(true);
                }
                Some(Ordering::Greater) => place -= 1,
            }
        }
        for near in place.saturating_sub(1)..ends.len().min(place + 1) {
            if !is_gold && self.expressions(&ends[near][0], &number)? {
                ends[near].push(number);
                return Ok(true);
            }
        }
        ends.insert(place, vec![number]);
        Ok(ends.len() <= MAX_ENDS)
    }

    /// The regions of an answer; `None` if it is something else, or about several variables.
    fn described<'a>(
        &mut self,
        answer: &'a Answer,
        ends: &SharedNumbers,
    ) -> Result<Option<NamedSet<'a>>, OutOfFuel> {
        let count = 2 * ends.len() + 1;
        let regions = match answer {
            Answer::Reals => vec![true; count],
            Answer::Sequence(brackets, items) => {
                let [low, high] = &items[..] else { return Ok(None) };
                let (Some(low), Some(high)) =
                    (self.region(low.expression(), ends)?, self.region(high.expression(), ends)?)
                else {
                    return Ok(None);
                };
                // (3, 1) is a point.
                if low >= high {
                    return Ok(None);
                }
                let has = |region: isize| {
                    (low < region || brackets.closed_left && low == region)
                        && (region < high || brackets.closed_right && region == high)
                };
                regions(ends, has)
            }
            Answer::Set(items) => {
                let mut points = Vec::with_capacity(items.len());
                for item in items {
                    let Some(point) = self.region(item.expression(), ends)? else {
                        return Ok(None);
                    };
                    points.push(point);
                }
                regions(ends, |region| points.contains(&region))
            }
            Answer::Union(parts) => return self.combined(parts, ends, |a, b| a | b),
            Answer::Intersection(parts) => return self.combined(parts, ends, |a, b| a & b),
            Answer::Difference(sets) => {
                let (Some(of), Some(without)) =
                    (self.described(&sets.0, ends)?, self.described(&sets.1, ends)?)
                else {
                    return Ok(None);
                };
                of.regions.iter().zip(without.regions).map(|(of, without)| of & !without).collect()
            }
            Answer::Chain(sides, relations) => return self.condition(sides, relations, ends),
            // Conditions in a list hold together if a number can meet all; otherwise each is a
            // case.
            Answer::List(parts) if parts.iter().all(|part| matches!(part, Answer::Chain(..))) => {
                return match self.combined(parts, ends, |a, b| a & b)? {
                    Some(common) if !common.regions.contains(&true) => {
                        self.combined(parts, ends, |a, b| a | b)
                    }
                    common => Ok(common),
                };
            }
            _ => return Ok(None),
        };
        Ok(Some(NamedSet { name: None, regions }))
    }

    /// The regions of several answers together.
    fn combined<'a>(
        &mut self,
        parts: &'a [Answer],
        ends: &SharedNumbers,
        combine: fn(bool, bool) -> bool,
    ) -> Result<Option<NamedSet<'a>>, OutOfFuel> {
        let mut all: Option<NamedSet<'a>> = None;
        for part in parts {
            let Some(part) = self.described(part, ends)? else { return Ok(None) };
            let Some(before) = all else {
                all = Some(part);
                continue;
            };
            let Some(name) = common_name(before.name, part.name) else { return Ok(None) };
            let pairs = before.regions.iter().zip(&part.regions);
            let regions = pairs.map(|(a, b)| combine(*a, *b)).collect();
            all = Some(NamedSet { name, regions });
        }
        Ok(all)
    }

    /// The numbers for which a chain of relations about one variable holds.
    fn condition<'a>(
        &mut self,
        sides: &'a [Answer],
        relations: &[Relation],
        ends: &SharedNumbers,
    ) -> Result<Option<NamedSet<'a>>, OutOfFuel> {
        if let ([member, set], [Relation::In]) = (sides, relations)
            && set.expression().is_none()
        {
            let name = member.expression().filter(|member| is_variable(member));
            let set = if name.is_some() { self.described(set, ends)? } else { None };
            return Ok(set.map(|set| NamedSet { name, ..set }));
        }
        let (mut name, mut regions) = (None, vec![true; 2 * ends.len() + 1]);
        for (pair, relation) in sides.windows(2).zip(relations) {
            let (Some(left), Some(right)) = (pair[0].expression(), pair[1].expression()) else {
                return Ok(None);
            };
            let (side, relation, bound) = if right.is_number() {
                (left, *relation, right)
            } else {
                (right, relation.turned(), left)
            };
            // -3 < x < 3 is |x| < 3.
            let distance = match side {
                Expression::Function(Function::Abs, of) if relation.is_order() => of.first(),
                _ => None,
            };
            let variable = distance.unwrap_or(side);
            let Some(end) = self.region(Some(bound), ends)? else { return Ok(None) };
            let opposite = bound.clone().negated();
            let opposite = self.region(distance.map(|_| &opposite), ends)?;
            if !is_variable(variable) || *name.get_or_insert(variable) != variable {
                return Ok(None);
            }
            for (region, has) in (0..).zip(&mut regions) {
                *has &= match relation {
                    Relation::Less => region < end && opposite.is_none_or(|low| low < region),
                    Relation::LessOrEqual => {
                        region <= end && opposite.is_none_or(|low| low <= region)
                    }
                    Relation::Greater => region > end || opposite.is_some_and(|low| region < low),
                    Relation::GreaterOrEqual => {
                        region >= end || opposite.is_some_and(|low| region <= low)
                    }
                    Relation::NotEqual => region != end,
                    Relation::Equal => region == end,
                    _ => return Ok(None),
                };
            }
        }
        Ok(Some(NamedSet { name, regions }))
    }

    /// The region of a number; infinities are beyond all regions. `None` for anything else.
    fn region(
        &mut self,
        number: Option<&Expression>,
        ends: &SharedNumbers,
    ) -> Result<Option<isize>, OutOfFuel> {
        let Some(number) = number else { return Ok(None) };
        if is_infinite(number) {
            let order = compare(number, &Expression::integer(0), self.fuel)?;
            let beyond = 2 * ends.len() as isize + 1;
            return Ok(order.map(|order| if order.is_lt() { -1 } else { beyond }));
        }
        let place = ends.iter().position(|spellings| spellings.contains(number));
        Ok(place.map(|place| 2 * place as isize + 1))
    }
}

/// Whether a set has each region.
fn regions(ends: &SharedNumbers, has: impl Fn(isize) -> bool) -> Vec<bool> {
    (0..=2 * ends.len() as isize).map(has).collect()
}

/// The finite numbers that an answer mentions, and their negatives if it has distances.
fn numbers(answer: &Answer) -> Vec<Expression> {
    let mut found = written_numbers(answer);
    // Once for all: chains within chains would double them at every level.
    if has_distance(answer) {
        found.extend(found.clone().into_iter().map(Expression::negated));
    }
    found
}

fn written_numbers(answer: &Answer) -> Vec<Expression> {
    let (answers, formulas) = answer.parts();
    let mut found: Vec<Expression> = answers.into_iter().flat_map(written_numbers).collect();
    found.extend(
        formulas.into_iter().filter(|part| part.is_number() && !is_infinite(part)).cloned(),
    );
    found
}

/// Whether an answer has a chain with a side `|...|`.
fn has_distance(answer: &Answer) -> bool {
    let is_distance =
        |side: &Answer| matches!(side.expression(), Some(Expression::Function(Function::Abs, _)));
    matches!(answer, Answer::Chain(sides, _) if sides.iter().any(is_distance))
        || answer.parts().0.into_iter().any(has_distance)
}

fn is_variable(expression: &Expression) -> bool {
    matches!(expression, Expression::Symbol(_) | Expression::Unknown(..))
}

fn is_infinite(expression: &Expression) -> bool {
    match expression {
        Expression::Constant(Constant::Infinity) => true,
        Expression::Product(factors) => factors.iter().any(is_infinite),
        _ => false,
    }
}
