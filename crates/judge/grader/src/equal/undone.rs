//! Finds arithmetic that is left undone: 73 + 64 where 137 is asked for.
//!
//! The answer "73 + 64" to the question what 73 + 64 is says nothing. A policy whose reward says
//! otherwise finds that out, and answers every such question with itself. So where a ground truth
//! is numbers in digits or fractions, an answer is a number, a fraction, or one power, root or the
//! like: 2^10 for 1024, but not 2^10 - 24 for 1000.

use super::super::answer::{Answer, Quantity};
use super::super::expression::{Constant, Expression, Function};
use super::super::fuel::OutOfFuel;
use super::super::relation::Relation;
use super::super::value::{has_decimal, rational_value};
use super::Comparison;
use super::conclusion::named_value;
use super::quantity::{congruence, is_name, without_unit_letters};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};

/// A number with more digits may be given as any shorter formula: 2^100 - 1.
const MOST_DIGITS: usize = 6;

impl Comparison<'_> {
    /// Whether an answer with the ground truth's value leaves arithmetic undone.
    pub(super) fn is_undone(&mut self, gold: &Answer, given: &Answer) -> Result<bool, OutOfFuel> {
        match (gold, given) {
            (Answer::For(gold, _), given) => self.is_undone(gold, given),
            (gold, Answer::For(given, _)) => self.is_undone(gold, given),
            _ if !asks_for_numbers(gold) => Ok(false),
            _ => self.leaves_undone(gold, given),
        }
    }

    /// Whether a ratio, as a quotient, leaves arithmetic undone for the ground truth's number.
    pub(super) fn is_division(
        &mut self,
        gold: &Quantity,
        quotient: &Expression,
    ) -> Result<bool, OutOfFuel> {
        let gold = &gold.expression;
        // A ratio is no fraction.
        self.is_boxed = false;
        let is_undone =
            !self.allow_undone && is_asked(gold) && self.has_arithmetic(quotient, &[gold])?;
        self.is_left_undone |= is_undone;
        Ok(is_undone)
    }

    /// Whether an answer leaves arithmetic undone, for a ground truth of numbers.
    fn leaves_undone(&mut self, gold: &Answer, given: &Answer) -> Result<bool, OutOfFuel> {
        let mut asked = formulas(gold);
        asked.retain(|formula| is_written_out(formula));
        match (gold, given) {
            (_, Answer::Chain(sides, relations)) if are_equations(relations) => {
                let number = match gold {
                    Answer::Quantity(_) => Some(gold),
                    Answer::Chain(sides, relations) => named_value(sides, relations),
                    _ => None,
                };
                match number {
                    Some(number) => self.does_not_arrive(number, sides, &asked),
                    None => self.is_unfinished(given, &asked),
                }
            }
            // One number in several forms.
            (Answer::Quantity(_), Answer::List(forms) | Answer::Set(forms)) => Ok(!forms
                .is_empty()
                && !self.some(forms, |this, form| Ok(!this.is_unfinished(form, &asked)?))?),
            _ => self.is_unfinished(given, &asked),
        }
    }

    /// Whether no side of an equation does the arithmetic of the others: false for 73 + 64 = 137,
    /// true for 73 + 64 = 64 + 73 and 73 + 64 ≈ 100.
    fn does_not_arrive(
        &mut self,
        gold: &Answer,
        sides: &[Answer],
        asked: &[&Expression],
    ) -> Result<bool, OutOfFuel> {
        let mut some_unfinished = false;
        for side in sides {
            if self.is_unfinished(side, asked)? {
                some_unfinished = true;
            } else if self.answers(gold, side)?.is_some() {
                return Ok(false);
            }
        }
        Ok(some_unfinished)
    }

    /// Whether a number in an answer is left undone; `asked` are the exact numbers asked for, if
    /// known. In equations, one side must have done the arithmetic.
    fn is_unfinished(&mut self, answer: &Answer, asked: &[&Expression]) -> Result<bool, OutOfFuel> {
        self.fuel.spend(1)?;
        if let Answer::Chain(sides, relations) = answer
            && are_equations(relations)
        {
            return self.some(sides, |this, side| {
                let is_what_it_comes_to = |this: &mut Self, other: &Answer| {
                    Ok(says_number(other)
                        && !this.is_unfinished(other, asked)?
                        && this.answers(side, other)?.is_some())
                };
                Ok(this.is_unfinished(side, asked)? && !this.some(sides, is_what_it_comes_to)?)
            });
        }
        // The column for a tuple may have a factor before it, but not be a sum of columns.
        if let Answer::Matrix(matrix) = answer {
            for entry in matrix.rows().iter().flatten() {
                if has_sum(entry) && self.has_arithmetic(entry, asked)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let (answers, formulas) = answer.parts();
        for formula in formulas {
            if self.has_arithmetic(formula, asked)? {
                return Ok(true);
            }
        }
        self.some(answers, |this, answer| this.is_unfinished(answer, asked))
    }

    /// Whether a formula for a rational number has operations left to do. A unit's letters do not
    /// count.
    fn has_arithmetic(
        &mut self,
        formula: &Expression,
        asked: &[&Expression],
    ) -> Result<bool, OutOfFuel> {
        let bare = without_unit_letters(formula);
        let formula = bare.as_ref().unwrap_or(formula);
        let is_quotient = self.is_boxed && is_integer_quotient(formula);
        if is_written_out(formula) || is_one_operation(formula) || is_quotient {
            return Ok(false);
        }
        let Some(value) = self.rational(formula, asked)? else { return Ok(false) };
        let digits = digits_of(&value);
        let is_long = digits > MOST_DIGITS && !is_short_decimal(&value);
        let is_shorter = is_long && has_power(formula) && digits_in(formula) < digits;
        Ok(!is_shorter && !is_fraction_of_powers(formula, &value))
    }

    /// The value of a rational formula: found exactly, or equal to one of the exact numbers asked
    /// for.
    fn rational(
        &mut self,
        formula: &Expression,
        asked: &[&Expression],
    ) -> Result<Option<BigRational>, OutOfFuel> {
        let value = rational_value(formula, self.fuel)?;
        if value.is_some() || is_name(formula) {
            return Ok(value);
        }
        for number in asked {
            // A decimal may round an irrational number, but not a formula whose letters cancel.
            let may_be_rounded = has_decimal(number) && formula.is_number();
            if !may_be_rounded && self.expressions(number, formula)? {
                return rational_value(number, self.fuel);
            }
        }
        Ok(None)
    }

    /// Whether `is_so` holds for one of the answers.
    pub(super) fn some<'a>(
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

/// Whether an answer consists of numbers, names and infinities only.
fn asks_for_numbers(gold: &Answer) -> bool {
    let formulas = formulas(gold);
    formulas.iter().any(|formula| is_asked(formula))
        && formulas
            .iter()
            .all(|formula| is_asked(formula) || is_name(formula) || is_infinity(formula))
}

/// Whether a formula is a number in digits or a fraction, perhaps with a unit's letters, or a
/// number times a power of ten.
fn is_asked(formula: &Expression) -> bool {
    let bare = without_unit_letters(formula);
    let formula = bare.as_ref().unwrap_or(formula);
    is_written_out(formula) || is_scientific(without_sign(formula))
}

fn says_number(answer: &Answer) -> bool {
    let (answers, formulas) = answer.parts();
    formulas.into_iter().any(Expression::is_number) || answers.into_iter().any(says_number)
}

fn has_sum(formula: &Expression) -> bool {
    formula.any(&|part| matches!(part, Expression::Sum(_)))
}

fn are_equations(relations: &[Relation]) -> bool {
    relations.iter().all(|relation| matches!(relation, Relation::Equal | Relation::Approximate))
}

/// All formulas of an answer, without the entries of matrices: a ground truth that is a matrix may
/// be answered with a sum of matrices, or with a factor before one.
fn formulas(answer: &Answer) -> Vec<&Expression> {
    if let Answer::Matrix(_) = answer {
        return Vec::new();
    }
    let (answers, mut found) = answer.parts();
    found.extend(answers.into_iter().flat_map(formulas));
    found
}

/// Whether a formula is a number in digits or a fraction of two integers, with a sign or without,
/// in degrees or without.
pub(super) fn is_written_out(formula: &Expression) -> bool {
    let Expression::Product(factors) = formula else { return is_digits(formula) };
    match &factors[..] {
        [number, Expression::Constant(Constant::Degree)] => is_written_out(number),
        [numerator, divisor] if is_fraction(numerator, divisor) => true,
        [sign, number] => *sign == Expression::integer(-1) && is_unsigned(number),
        _ => false,
    }
}

/// Whether a formula is a decimal or a fraction without a sign. For integers the sign counts as an
/// operation: -1 times 7 is undone.
fn is_unsigned(formula: &Expression) -> bool {
    match formula {
        Expression::Decimal(decimal) => !decimal.value.is_negative(),
        Expression::Product(factors) => match &factors[..] {
            [Expression::Number(numerator), divisor] => {
                !numerator.is_negative() && is_fraction(&factors[0], divisor)
            }
            _ => false,
        },
        _ => false,
    }
}

fn is_digits(formula: &Expression) -> bool {
    matches!(formula, Expression::Number(_) | Expression::Decimal(_))
}

/// Whether a quotient is a fraction of two integers that is done: 84/4 is not done, 5/1 is.
fn is_fraction(numerator: &Expression, divisor: &Expression) -> bool {
    let (Expression::Number(numerator), Some(Expression::Number(divisor))) =
        (numerator, divisor.divisor())
    else {
        return false;
    };
    numerator.is_integer()
        && divisor.is_integer()
        && !divisor.is_zero()
        && (divisor.abs().is_one() || !(numerator / divisor).is_integer())
}

/// Whether a formula is a fraction of two integers, whatever its value: 6/2.
fn is_integer_quotient(formula: &Expression) -> bool {
    let is_integer =
        |part: &Expression| matches!(part, Expression::Number(number) if number.is_integer());
    match without_sign(formula) {
        Expression::Product(factors) => match &factors[..] {
            [numerator, divisor] => {
                is_integer(numerator) && divisor.divisor().is_some_and(is_integer)
            }
            _ => false,
        },
        _ => false,
    }
}

/// Whether a number that is written out is this integer: -1, -1.0, -1/1, \frac{2}{-2}.
fn equals_integer(formula: &Expression, integer: i32) -> bool {
    let value = BigRational::from_integer(integer.into());
    match formula {
        Expression::Number(number) => *number == value,
        Expression::Decimal(decimal) => decimal.value == value,
        Expression::Product(factors) => match &factors[..] {
            [Expression::Number(numerator), divisor] if divisor.divisor().is_some() => {
                matches!(divisor.divisor(), Some(Expression::Number(divisor)) if *numerator == divisor * value)
            }
            [sign, number] => *sign == Expression::integer(-1) && equals_integer(number, -integer),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a number is no integer, and a decimal of few digits: 12.008, which is 1501/125.
fn is_short_decimal(value: &BigRational) -> bool {
    let shifted = value * BigRational::from_integer(BigInt::from(10).pow(MOST_DIGITS as u32));
    let has_few = || shifted.numer().abs().to_string().trim_end_matches('0').len() <= MOST_DIGITS;
    !value.is_integer() && shifted.is_integer() && has_few()
}

/// Whether a formula has an operation that writes a long number in few digits. A sum has none: 12 +
/// 0.008 has fewer digits than 1501/125.
fn has_power(formula: &Expression) -> bool {
    use Function::{Abs, Ceiling, Floor, Gcd, Lcm, Max, Min};
    formula.any(&|part| match part {
        Expression::Power(power) => !equals_integer(&power.1, 1) && !equals_integer(&power.1, -1),
        Expression::Function(function, _) => {
            !matches!(function, Abs | Ceiling | Floor | Gcd | Lcm | Max | Min)
        }
        _ => false,
    })
}

/// Infinity with a sign or without.
fn is_infinity(formula: &Expression) -> bool {
    *without_sign(formula) == Expression::Constant(Constant::Infinity)
}

/// Whether a formula is a single operation on numbers that may be the best way to write its value:
/// a power, a root, a factorial, a binomial, a logarithm, a sine, a remainder, or a number times a
/// power of ten; with a sign or without.
fn is_one_operation(formula: &Expression) -> bool {
    use Function::{Abs, Ceiling, Floor, Gcd, Lcm, Max, Min};
    let formula = without_sign(formula);
    if let Some((dividend, modulus)) = congruence(formula) {
        return is_digits(dividend) && is_digits(modulus);
    }
    match formula {
        Expression::Power(power) => {
            let (base, exponent) = &**power;
            // (4/84)^{-1.0} is a division too.
            let is_same = equals_integer(exponent, 1);
            let is_division = equals_integer(exponent, -1) && !is_digits(base);
            is_written_out(base) && is_written_out(exponent) && !is_same && !is_division
        }
        Expression::Function(function, arguments) => {
            !matches!(function, Abs | Ceiling | Floor | Gcd | Lcm | Max | Min)
                && arguments.iter().all(is_written_out)
        }
        formula => is_scientific(formula),
    }
}

/// Whether a formula is a number in digits times a power of ten.
fn is_scientific(formula: &Expression) -> bool {
    let Expression::Product(factors) = formula else { return false };
    match &factors[..] {
        [number, factor @ Expression::Power(power)] => {
            is_digits(number)
                && power.0 == Expression::integer(10)
                && is_digits(&power.1)
                && factor.divisor().is_none()
        }
        _ => false,
    }
}

/// Whether a formula is a fraction with such an operation above or below, and its value no integer:
/// 3!/20.
fn is_fraction_of_powers(formula: &Expression, value: &BigRational) -> bool {
    let Expression::Product(factors) = without_sign(formula) else { return false };
    let [numerator, reciprocal] = &factors[..] else { return false };
    let Some(divisor) = reciprocal.divisor() else { return false };
    let is_simple = |part: &Expression| is_digits(part) || is_one_operation(part);
    let are_digits = is_digits(numerator) && is_digits(divisor);
    is_simple(numerator) && is_simple(divisor) && !are_digits && !value.is_integer()
}

/// The formula without its sign.
fn without_sign(formula: &Expression) -> &Expression {
    match formula {
        Expression::Product(factors) => match &factors[..] {
            [sign, formula] if *sign == Expression::integer(-1) => formula,
            _ => formula,
        },
        formula => formula,
    }
}

/// The number of digits in a number's numerator and denominator.
fn digits_of(number: &BigRational) -> usize {
    let below = if number.denom().is_one() { 0 } else { number.denom().to_string().len() };
    number.numer().abs().to_string().len() + below
}

/// How many digits a formula has.
fn digits_in(formula: &Expression) -> usize {
    match formula {
        Expression::Number(number) => digits_of(number),
        Expression::Decimal(decimal) => digits_of(&decimal.value),
        other => other.parts().map(digits_in).sum(),
    }
}
