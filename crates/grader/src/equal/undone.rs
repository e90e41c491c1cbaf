//! Arithmetic that is left to be done: 73 + 64 where 137 is asked for.
//!
//! Who is asked what 73 + 64 is and says "73 + 64" has said nothing. A policy whose reward says otherwise finds that out, and
//! answers every such question with itself.

use super::super::answer::{Answer, Unit};
use super::super::expression::{Expression, Function};
use super::super::fuel::OutOfFuel;
use super::Comparison;
use super::conclusion::{is_value, named_value};
use num_rational::BigRational;
use num_traits::{One, Signed};

impl Comparison<'_> {
    /// Whether an answer to a question for numbers, as the ground truth has them, leaves some of it to be done.
    pub(super) fn is_undone(&mut self, gold: &Answer, given: &Answer) -> Result<bool, OutOfFuel> {
        match (gold, given) {
            (Answer::For(gold, _), given) => self.is_undone(gold, given),
            (gold, Answer::For(given, _)) => self.is_undone(gold, given),
            (Answer::Chain(sides, relations), given) => match named_value(sides, relations) {
                Some(gold) => self.is_undone(gold, given),
                None => Ok(false),
            },
            (gold, Answer::Chain(sides, _)) => self.is_left(gold, sides),
            (Answer::Quantity(gold), Answer::Quantity(given)) => {
                let asks_for_integer = gold.unit == Unit::None && is_integer(&gold.expression);
                Ok(is_written_out(&gold.expression) && leaves_undone(&given.expression, asks_for_integer))
            }
            (Answer::Quantity(_), Answer::List(forms) | Answer::Set(forms)) => {
                let done = self.find(forms, |this, form| Ok(!this.is_undone(gold, form)?))?;
                Ok(!forms.is_empty() && !done)
            }
            (
                Answer::List(golds) | Answer::Set(golds) | Answer::Sequence(_, golds),
                Answer::List(given) | Answer::Set(given) | Answer::Sequence(_, given),
            ) => self.find(given, |this, given| {
                let done = this.find(golds, |this, gold| Ok(!this.is_undone(gold, given)?))?;
                Ok(!golds.is_empty() && !done)
            }),
            _ => Ok(false),
        }
    }

    /// Whether sides of an equation leave something to be done which no other side has done: 73 + 64 = 137 does not,
    /// 73 + 64 = 64 + 73 and 73 + 64 ≈ 100 do.
    fn is_left(&mut self, gold: &Answer, sides: &[Answer]) -> Result<bool, OutOfFuel> {
        let (mut undone, mut done) = (false, Vec::new());
        for side in sides.iter().filter(|side| is_value(side)) {
            match self.is_undone(gold, side)? {
                true => undone = true,
                false => done.push(side),
            }
        }
        Ok(undone && !self.find(done, |this, side| Ok(this.answers(gold, side)?.is_some()))?)
    }

    /// Whether this is so of one of them.
    fn find<'a>(
        &mut self,
        answers: impl IntoIterator<Item = &'a Answer>,
        mut is_so: impl FnMut(&mut Self, &Answer) -> Result<bool, OutOfFuel>,
    ) -> Result<bool, OutOfFuel> {
        for answer in answers {
            if is_so(self, answer)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a number is written in digits, or as a fraction of two such.
fn is_written_out(number: &Expression) -> bool {
    is_rational(number) && !leaves_undone(number, false)
}

fn is_integer(number: &Expression) -> bool {
    match number {
        Expression::Number(number) => number.is_integer(),
        Expression::Product(factors) => factors.iter().all(is_integer),
        _ => false,
    }
}

/// Whether operations between rational numbers are in a formula. Where an integer is asked for, a fraction is one: 84/4 for 21.
/// Powers, roots, factorials and binomials are not, as they may be the best way to write a number.
fn leaves_undone(formula: &Expression, asks_for_integer: bool) -> bool {
    let some_in = |parts: &[Expression]| parts.iter().any(|part| leaves_undone(part, false));
    match formula {
        Expression::Number(_) | Expression::Decimal(_) | Expression::Constant(_) | Expression::Symbol(_) => {
            false
        }
        Expression::Sum(terms) => terms.iter().filter(|term| is_rational(term)).count() > 1 || some_in(terms),
        Expression::Product(factors) => {
            let factors = || factors.iter().filter(|factor| !is_one(factor));
            let multiplied = factors().filter(|factor| is_rational(factor) && !is_reciprocal(factor)).count();
            let is_fraction = factors().any(is_reciprocal) && factors().all(is_rational);
            // -(84/4): of a sign and what it is the sign of, the latter is asked.
            let is_signed = factors().count() == 1;
            multiplied > 1
                || asks_for_integer && is_fraction
                || factors().any(|factor| leaves_undone(factor, asks_for_integer && is_signed))
        }
        Expression::Power(power) => leaves_undone(&power.0, false) || leaves_undone(&power.1, false),
        Expression::Function(function, arguments) => {
            use Function::{Abs, Ceiling, Floor, Gcd, Lcm, Max, Min};
            matches!(function, Abs | Ceiling | Floor | Gcd | Lcm | Max | Min)
                && arguments.iter().all(is_rational)
                || some_in(arguments)
        }
        Expression::Unknown(_, arguments) => some_in(arguments),
    }
}

fn is_rational(formula: &Expression) -> bool {
    match formula {
        Expression::Number(_) | Expression::Decimal(_) => true,
        Expression::Product(factors) => factors.iter().all(is_rational),
        _ => is_reciprocal(formula),
    }
}

/// 1/n, as divisions have it.
fn is_reciprocal(formula: &Expression) -> bool {
    let Expression::Power(power) = formula else { return false };
    matches!(&power.1, Expression::Number(exponent) if *exponent == -BigRational::one())
        && is_rational(&power.0)
}

/// 1 or -1, of which signs and divisions make a factor; and 1/1.
fn is_one(factor: &Expression) -> bool {
    match factor {
        Expression::Number(number) => number.abs().is_one(),
        Expression::Power(power) => is_one(&power.0) && is_one(&power.1),
        _ => false,
    }
}
