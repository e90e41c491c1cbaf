//! Sets of real numbers as spans between ends, whatever they are written as: intervals, unions,
//! inequalities, points.

use std::cmp::Ordering;

use super::super::answer::Answer;
use super::super::expression::{Constant, Expression, Function};
use super::super::fuel::OutOfFuel;
use super::super::relation::Relation;
use super::super::value::compare;
use super::Comparison;

/// One end of a span.
#[derive(Clone, Debug)]
struct End {
    /// A constant; infinity is one.
    value: Expression,
    /// Whether the end itself belongs to the span.
    closed: bool,
}

/// The numbers between two ends, of which the first is not greater.
#[derive(Clone, Debug)]
struct Span {
    low: End,
    high: End,
}

/// Spans in ascending order that do not touch.
type Spans = Vec<Span>;

/// A set of numbers, and the variable or function that is said to be in it.
struct Described<'a> {
    name: Option<&'a Expression>,
    spans: Spans,
}

impl<'a> Described<'a> {
    fn unnamed(spans: Spans) -> Self {
        Self { name: None, spans }
    }
}

/// The one name of things of which some have none; `None` where there are two.
fn common_name<'a>(
    a: Option<&'a Expression>,
    b: Option<&'a Expression>,
) -> Option<Option<&'a Expression>> {
    (a.is_none() || b.is_none() || a == b).then(|| a.or(b))
}

/// Most spans of a set.
const MAX_SPANS: usize = 64;

fn infinity() -> Expression {
    Expression::Constant(Constant::Infinity)
}

impl Span {
    fn point(value: &Expression) -> Self {
        let end = End { value: value.clone(), closed: true };
        Self { low: end.clone(), high: end }
    }

    fn below(value: &Expression, closed: bool) -> Self {
        Self {
            low: End { value: infinity().negated(), closed: false },
            high: End { value: value.clone(), closed },
        }
    }

    fn above(value: &Expression, closed: bool) -> Self {
        Self {
            low: End { value: value.clone(), closed },
            high: End { value: infinity(), closed: false },
        }
    }

    fn reals() -> Self {
        Self::above(&infinity().negated(), false)
    }
}

impl Comparison<'_> {
    /// Whether two answers are the same set of real numbers, of the same variable if both name one;
    /// false where one is not known to be a set of spans.
    pub(super) fn same_spans(&mut self, gold: &Answer, given: &Answer) -> Result<bool, OutOfFuel> {
        let (Some(a), Some(b)) = (self.described(gold)?, self.described(given)?) else {
            return Ok(false);
        };
        if common_name(a.name, b.name).is_none() || a.spans.len() != b.spans.len() {
            return Ok(false);
        }
        for (a, b) in a.spans.iter().zip(&b.spans) {
            for (a, b) in [(&a.low, &b.low), (&a.high, &b.high)] {
                if a.closed != b.closed || !self.expressions(&a.value, &b.value)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The spans of an answer; `None` if it is something else, its ends cannot be put in order, or
    /// it is about several variables.
    fn described<'a>(&mut self, answer: &'a Answer) -> Result<Option<Described<'a>>, OutOfFuel> {
        let spans = match answer {
            Answer::Reals => Some(vec![Span::reals()]),
            Answer::Sequence(brackets, items) => {
                let [low, high] = &items[..] else { return Ok(None) };
                let (Some(low), Some(high)) = (low.expression(), high.expression()) else {
                    return Ok(None);
                };
                if !low.is_number() || !high.is_number() {
                    return Ok(None);
                }
                let low = End { value: low.clone(), closed: brackets.closed_left };
                let high = End { value: high.clone(), closed: brackets.closed_right };
                // (3, 1) is a point.
                let order = compare(&low.value, &high.value, self.fuel)?;
                if order == Some(Ordering::Less) {
                    self.united(vec![Span { low, high }])?
                } else {
                    None
                }
            }
            Answer::Set(items) => {
                let points =
                    items.iter().map(|item| item.expression().filter(|value| value.is_number()));
                match points.collect::<Option<Vec<_>>>() {
                    Some(points) => self.united(points.into_iter().map(Span::point).collect())?,
                    None => None,
                }
            }
            Answer::Union(parts) => return self.union(parts),
            Answer::Intersection(parts) => return self.intersection(parts),
            Answer::Difference(sets) => {
                let (Some(of), Some(without)) =
                    (self.described(&sets.0)?, self.described(&sets.1)?)
                else {
                    return Ok(None);
                };
                match self.complement(without.spans)? {
                    Some(rest) => self.common(of.spans, rest)?,
                    None => None,
                }
            }
            Answer::Chain(sides, relations) => return self.described_by_chain(sides, relations),
            // Conditions hold together where they can; where no number meets all, each is a case.
            Answer::List(parts) if parts.iter().all(|part| matches!(part, Answer::Chain(..))) => {
                return match self.intersection(parts)? {
                    Some(common) if common.spans.is_empty() => self.union(parts),
                    common => Ok(common),
                };
            }
            _ => None,
        };
        Ok(spans.map(Described::unnamed))
    }

    fn union<'a>(&mut self, parts: &'a [Answer]) -> Result<Option<Described<'a>>, OutOfFuel> {
        let (mut name, mut spans) = (None, Vec::new());
        for part in parts {
            let Some(part) = self.described(part)? else { return Ok(None) };
            let Some(common) = common_name(name, part.name) else { return Ok(None) };
            name = common;
            spans.extend(part.spans);
        }
        Ok(self.united(spans)?.map(|spans| Described { name, spans }))
    }

    fn intersection<'a>(
        &mut self,
        parts: &'a [Answer],
    ) -> Result<Option<Described<'a>>, OutOfFuel> {
        let (mut name, mut spans) = (None, vec![Span::reals()]);
        for part in parts {
            let Some(part) = self.described(part)? else { return Ok(None) };
            let Some(common) = common_name(name, part.name) else { return Ok(None) };
            let Some(both) = self.common(spans, part.spans)? else { return Ok(None) };
            (name, spans) = (common, both);
        }
        Ok(Some(Described { name, spans }))
    }

    /// The numbers of which a chain of inequalities about one variable is true.
    fn described_by_chain<'a>(
        &mut self,
        sides: &'a [Answer],
        relations: &[Relation],
    ) -> Result<Option<Described<'a>>, OutOfFuel> {
        let (mut name, mut spans) = (None, vec![Span::reals()]);
        for (pair, relation) in sides.windows(2).zip(relations) {
            let (left, right) = (pair[0].expression(), pair[1].expression());
            if *relation == Relation::In && sides.len() == 2 && right.is_none() {
                let set = if is_variable(left) { self.described(&pair[1])? } else { None };
                return Ok(set.map(|set| Described { name: left, ..set }));
            }
            let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
            let condition = if right.is_number() {
                condition(left, *relation, right)
            } else if left.is_number() {
                condition(right, relation.turned(), left)
            } else {
                None
            };
            let Some((variable, condition)) = condition else { return Ok(None) };
            if *name.get_or_insert(variable) != variable {
                return Ok(None);
            }
            let Some(condition) = self.united(condition)? else { return Ok(None) };
            let Some(both) = self.common(spans, condition)? else { return Ok(None) };
            spans = both;
        }
        Ok(Some(Described { name, spans }))
    }

    /// Spans in order, without those that are empty and with those that touch made one.
    fn united(&mut self, spans: Vec<Span>) -> Result<Option<Spans>, OutOfFuel> {
        if spans.len() > MAX_SPANS {
            return Ok(None);
        }
        let mut sorted: Spans = Vec::with_capacity(spans.len());
        for mut span in spans {
            for end in [&mut span.low, &mut span.high] {
                end.closed &= !is_infinite(&end.value);
            }
            match compare(&span.low.value, &span.high.value, self.fuel)? {
                None => return Ok(None),
                Some(Ordering::Less) => {}
                Some(Ordering::Equal) if span.low.closed && span.high.closed => {}
                Some(_) => continue,
            }
            let mut place = sorted.len();
            while place > 0 {
                match compare(&sorted[place - 1].low.value, &span.low.value, self.fuel)? {
                    None => return Ok(None),
                    Some(Ordering::Less) => break,
                    Some(Ordering::Equal) if sorted[place - 1].low.closed || !span.low.closed => {
                        break;
                    }
                    Some(_) => place -= 1,
                }
            }
            sorted.insert(place, span);
        }
        let mut united: Spans = Vec::with_capacity(sorted.len());
        for span in sorted {
            let Some(last) = united.last_mut() else {
                united.push(span);
                continue;
            };
            match compare(&last.high.value, &span.low.value, self.fuel)? {
                None => return Ok(None),
                Some(Ordering::Less) => united.push(span),
                Some(Ordering::Equal) if !last.high.closed && !span.low.closed => united.push(span),
                Some(_) => match compare(&last.high.value, &span.high.value, self.fuel)? {
                    None => return Ok(None),
                    Some(Ordering::Less) => last.high = span.high,
                    Some(Ordering::Equal) => last.high.closed |= span.high.closed,
                    Some(Ordering::Greater) => {}
                },
            }
        }
        Ok(Some(united))
    }

    /// All real numbers that are in none of the spans, which are in order.
    fn complement(&mut self, spans: Spans) -> Result<Option<Spans>, OutOfFuel> {
        let mut gaps = Vec::with_capacity(spans.len() + 1);
        let mut low = End { value: infinity().negated(), closed: false };
        for span in spans {
            gaps.push(Span { low, high: End { value: span.low.value, closed: !span.low.closed } });
            low = End { value: span.high.value, closed: !span.high.closed };
        }
        gaps.push(Span { low, high: End { value: infinity(), closed: false } });
        self.united(gaps)
    }

    /// The intersection.
    fn common(&mut self, a: Spans, b: Spans) -> Result<Option<Spans>, OutOfFuel> {
        let (Some(mut outside), Some(b)) = (self.complement(a)?, self.complement(b)?) else {
            return Ok(None);
        };
        outside.extend(b);
        match self.united(outside)? {
            Some(outside) => self.complement(outside),
            None => Ok(None),
        }
    }
}

/// The variable that a relation to a number is about, and the spans in which that puts it; they
/// need be neither in order nor apart.
fn condition<'a>(
    side: &'a Expression,
    relation: Relation,
    bound: &Expression,
) -> Option<(&'a Expression, Vec<Span>)> {
    // -3 < x < 3 is |x| < 3.
    let (variable, is_distance) = match side {
        Expression::Function(Function::Abs, arguments) if relation.is_order() => {
            (arguments.first()?, true)
        }
        side => (side, false),
    };
    if !is_variable(Some(variable)) {
        return None;
    }
    let end = |value: Expression, closed| End { value, closed };
    let closed = matches!(relation, Relation::LessOrEqual | Relation::GreaterOrEqual);
    let spans = match (relation, is_distance) {
        (Relation::Less | Relation::LessOrEqual, false) => vec![Span::below(bound, closed)],
        (Relation::Less | Relation::LessOrEqual, true) => {
            vec![Span {
                low: end(bound.clone().negated(), closed),
                high: end(bound.clone(), closed),
            }]
        }
        (Relation::Greater | Relation::GreaterOrEqual, false) => vec![Span::above(bound, closed)],
        (Relation::Greater | Relation::GreaterOrEqual, true) => {
            vec![Span::below(&bound.clone().negated(), closed), Span::above(bound, closed)]
        }
        (Relation::NotEqual, _) => vec![Span::below(bound, false), Span::above(bound, false)],
        (Relation::Equal, _) => vec![Span::point(bound)],
        _ => return None,
    };
    Some((variable, spans))
}

fn is_variable(expression: Option<&Expression>) -> bool {
    matches!(expression, Some(Expression::Symbol(_) | Expression::Unknown(..)))
}

fn is_infinite(expression: &Expression) -> bool {
    match expression {
        Expression::Constant(Constant::Infinity) => true,
        Expression::Product(factors) => factors.iter().any(is_infinite),
        _ => false,
    }
}
