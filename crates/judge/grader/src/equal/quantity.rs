//! Expressions with their units.

use std::collections::BTreeSet;

use num_traits::Signed;

use super::super::answer::{Answer, Quantity, Unit};
use super::super::expression::{Constant, Expression};
use super::super::fuel::OutOfFuel;
use super::super::phrases::units::is_unit_letter;
use super::super::value::{Tolerance, has_decimal, rational_value, same_value};
use super::{Comparison, Rule};

impl Comparison<'_> {
    /// Compares two expressions. A ground truth without a decimal point asks for an exact value: if
    /// the value has few decimals, all must be given and no others; a rounding of any other value
    /// needs as many digits as decimals must agree to.
    pub(super) fn expressions(
        &mut self,
        gold: &Expression,
        given: &Expression,
    ) -> Result<bool, OutOfFuel> {
        let mut tolerance = self.tolerance;
        if !has_decimal(gold) {
            tolerance.significant_digits = tolerance.significant_digits.max(tolerance.decimals);
            let states = |value| tolerance.states(&value);
            if has_decimal(given) && rational_value(gold, self.fuel)?.is_some_and(states) {
                tolerance = Tolerance::EXACT;
            }
        }
        same_value(gold, given, tolerance, self.fuel)
    }

    /// Compares two quantities. A unit may be left out: 28% is 28, and 90° is 90. It may also be
    /// applied: 28% is 0.28, and 90° is pi/2.
    pub(super) fn quantities(
        &mut self,
        gold: &Quantity,
        given: &Quantity,
    ) -> Result<Option<Rule>, OutOfFuel> {
        let (a, b) = (&gold.expression, &given.expression);
        let b = match (congruence(a), congruence(b)) {
            // 5 (mod 7) says 5.
            (None, Some((dividend, modulus))) if is_reduced(dividend, modulus) => dividend,
            _ => b,
        };
        match (&gold.unit, &given.unit) {
            // Leaving out the base is right; another base does not answer "in base 8".
            (Unit::Base(digits, _), Unit::None) => {
                let same = super::super::parse::integer(digits);
                let same = same.is_some_and(|digits| *b == digits);
                return Ok(same.then_some("the same digits, base left out"));
            }
            (Unit::Base(_, base), Unit::Base(_, other)) if base != other => return Ok(None),
            (Unit::Base(..), Unit::Percent | Unit::Degree | Unit::Radian) => return Ok(None),
            // Without a base ten is meant.
            (Unit::None, Unit::Base(_, base)) if *base != 10 => return Ok(None),
            // An angle's number does not stand for another unit: 90° is not 90 radians.
            (Unit::Degree, Unit::Radian) | (Unit::Radian, Unit::Degree) => {
                let (a, b) = (in_units(gold), in_units(given));
                return Ok(self.expressions(&a, &b)?.then_some("the same angle"));
            }
            (Unit::None, Unit::Degree) if mentions_pi(a) => {
                return Ok(self.expressions(a, &in_units(given))?.then_some("the same angle"));
            }
            (Unit::Degree, Unit::None) if mentions_pi(b) && !mentions_pi(a) => {
                return Ok(self.expressions(&in_units(gold), b)?.then_some("the same angle"));
            }
            _ => {}
        }
        if self.has_matrices && is_matrix_product(a) && is_matrix_product(b) {
            return Ok((a == b).then_some("the same product in the same order"));
        }
        if self.expressions(a, b)? {
            return Ok(Some(if gold.unit == given.unit {
                "the same value"
            } else {
                "the same value, unit left out"
            }));
        }
        if gold.unit == given.unit {
            if self.has_unit_apart
                && b.is_number()
                && let Some(number) = without_unit_letters(a)
            {
                return Ok(self
                    .expressions(&number, b)?
                    .then_some("the same value, unit left out"));
            }
            let Some(bare) = without_unit_letters(b).filter(|_| a.is_number()) else {
                return Ok(None);
            };
            return Ok(self.expressions(a, &bare)?.then_some("the same value, unit left out"));
        }
        let (a, b) = (in_units(gold), in_units(given));
        Ok(self.expressions(&a, &b)?.then_some("the same value in other units"))
    }
}

/// The parts of `a \pmod m`, or of `a \bmod m`.
pub(super) fn congruence(expression: &Expression) -> Option<(&Expression, &Expression)> {
    match expression {
        Expression::Unknown(name, parts) if matches!(&**name, "mod" | "pmod") => match &parts[..] {
            [dividend, modulus] => Some((dividend, modulus)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a number is from 0 to below the modulus.
fn is_reduced(dividend: &Expression, modulus: &Expression) -> bool {
    match (dividend, modulus) {
        (Expression::Number(a), Expression::Number(m)) => {
            a.is_integer() && !a.is_negative() && a < m
        }
        _ => false,
    }
}

/// Whether a text inverts or transposes a capital letter or a product, so that these are matrices.
pub(super) fn names_matrices(source: &str) -> bool {
    ["^{-1}", "^T", "^{T}", "^\\top", "^{\\top}", "^t", "^{t}"].iter().any(|mark| {
        let is_capital = |c: char| c.is_ascii_uppercase() || c == ')';
        source.match_indices(mark).any(|(place, _)| source[..place].ends_with(is_capital))
    })
}

/// Whether an expression is a product of numbers, capital letters and their powers, so that its
/// order may matter.
fn is_matrix_product(expression: &Expression) -> bool {
    match expression {
        Expression::Number(_) => true,
        Expression::Symbol(name) => name.starts_with(|c: char| c.is_ascii_uppercase()),
        Expression::Product(factors) => factors.iter().all(is_matrix_product),
        Expression::Power(power) => is_matrix_product(&power.0),
        _ => false,
    }
}

/// Whether a multiple of pi is in an expression: the number of an angle in radians.
fn mentions_pi(expression: &Expression) -> bool {
    match expression {
        Expression::Constant(constant) => *constant == Constant::Pi,
        Expression::Sum(parts) | Expression::Product(parts) => parts.iter().any(mentions_pi),
        _ => false,
    }
}

/// Whether a text is a number and a letter with a space between, as in `63 m`, or an upright
/// letter, as in `300\,\mathrm{K}` or `300 \mathrm{~K}`. The letter in `63m` may be a variable.
pub(super) fn has_unit_apart(source: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b',' | b'.' | b'\\');
    let source = source.trim_matches('$');
    let cuts = [source.split_once([' ', '~']), source.split_once("\\mathrm{")];
    cuts.into_iter().flatten().any(|(number, unit)| {
        number.trim_end_matches([' ', '~']).bytes().all(is_digit)
            && unit.trim_start_matches('~').starts_with(|c: char| c.is_ascii_alphabetic())
    })
}

/// A quantity as a number without a unit.
fn in_units(quantity: &Quantity) -> Expression {
    let expression = quantity.expression.clone();
    match quantity.unit {
        Unit::Percent => expression.over(Expression::integer(100)),
        Unit::Degree => {
            Expression::Product(vec![expression, Expression::Constant(Constant::Degree)])
        }
        Unit::None | Unit::Radian | Unit::Base(..) => expression,
    }
}

/// A number without letters that may be units: 5 m/s^2 is 5.
pub(super) fn without_unit_letters(expression: &Expression) -> Option<Expression> {
    let Expression::Product(factors) = expression else { return None };
    if let [sign, of @ Expression::Product(_)] = &factors[..]
        && *sign == Expression::integer(-1)
    {
        return without_unit_letters(of).map(|number| match number {
            Expression::Number(number) => Expression::Number(-number),
            number => number.negated(),
        });
    }
    let is_unit = |factor: &Expression| {
        let base = match factor {
            Expression::Power(power) if power.1.is_number() => &power.0,
            factor => factor,
        };
        matches!(base, Expression::Symbol(name) if is_unit_letter(name.trim_start_matches('\\')))
    };
    let numbers = factors.iter().take_while(|factor| factor.is_number()).count();
    let rest = &factors[numbers..];
    // More letters than in m/s^2 are variables, not units.
    let are_units = numbers > 0 && (1..=2).contains(&rest.len()) && rest.iter().all(is_unit);
    are_units.then(|| match &factors[..numbers] {
        [number] => number.clone(),
        numbers => Expression::Product(numbers.to_vec()),
    })
}

/// Adds the names of variables and functions in an expression.
pub(super) fn collect_names<'e>(expression: &'e Expression, names: &mut BTreeSet<&'e str>) {
    if let Expression::Symbol(name) | Expression::Unknown(name, _) = expression {
        names.insert(name);
    }
    expression.parts().for_each(|part| collect_names(part, names));
}

/// Adds the names of variables and functions in an answer.
pub(super) fn collect_names_of_answer<'a>(answer: &'a Answer, names: &mut BTreeSet<&'a str>) {
    let (answers, formulas) = answer.parts();
    answers.into_iter().for_each(|part| collect_names_of_answer(part, names));
    formulas.into_iter().for_each(|formula| collect_names(formula, names));
}

/// Whether an expression is no more than a name: a variable, a function of names, products and
/// quotients of these.
pub(super) fn is_name(expression: &Expression) -> bool {
    match expression {
        Expression::Symbol(_) | Expression::Unknown(..) => true,
        Expression::Product(factors) => factors.iter().all(is_name),
        Expression::Power(_) => expression.divisor().is_some_and(is_name),
        Expression::Function(super::super::expression::Function::Abs, arguments) => {
            arguments.iter().all(is_name)
        }
        _ => false,
    }
}
