//! Compares the values of expressions: for equality, and for order.
//!
//! Expressions of rational numbers have exact values (`exact.rs`). Everything else is evaluated in
//! 256 bits with an error bound (`evaluator.rs`, `complex.rs`, `real.rs`): constants once, formulas
//! with variables at fixed pseudo-random points. Two formulas are different if they clearly differ
//! at one point, and equal if thirty digits agree at all points. That is evidence, not proof. A
//! term that is lost in the rounding of a larger one decides nothing, so that 10^100 + sin(1) is
//! not 10^100 + sin(2).
//!
//! Variables are real; in factorials and in exponents of negative numbers, as in (-1)^n, they are
//! positive integers. A root or a logarithm of a negative number that varies has no value, and
//! expressions are equal if they agree wherever both have one: sqrt(x^2) differs from x, since
//! nothing negative is under the root, but ln(x^2) equals 2 ln(x).

mod complex;
mod evaluator;
mod exact;
mod infinity;
mod probe;
mod real;
mod tolerance;

use std::cmp::Ordering;

use num_rational::BigRational;
use num_traits::Zero;

pub use exact::rational as rational_value;
pub use tolerance::{Tolerance, has_decimal};

use self::complex::Complex;
use self::infinity::extent;
use super::expression::Expression;
use super::fuel::{Fuel, OutOfFuel};

/// Fuel for one comparison: several times the need of the longest honest answers, and some tens of
/// milliseconds of work.
pub const DEFAULT_FUEL: u64 = 600_000;

/// The sign of a factor by which expressions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactorSign {
    Positive,
    Negative,
    NotReal,
}

/// Whether two expressions have the same value for all values of their variables. Identical
/// expressions are equal even if undefined. Decimals equal everything within their tolerance.
pub fn same_value(
    a: &Expression,
    b: &Expression,
    tolerance: Tolerance,
    fuel: &mut Fuel,
) -> Result<bool, OutOfFuel> {
    if a == b {
        return Ok(true);
    }
    if let (Expression::Number(_), Expression::Number(_)) = (a, b) {
        return Ok(false);
    }
    match (extent(a, fuel)?, extent(b, fuel)?) {
        (Some(Ordering::Equal), Some(Ordering::Equal)) => {}
        (None, _) | (_, None) => return Ok(false),
        (a, b) => return Ok(a == b),
    }
    let (exact_a, exact_b) = (rational_value(a, fuel)?, rational_value(b, fuel)?);
    let (exact_a, exact_b) = (exact_a.as_ref(), exact_b.as_ref());
    if exact_a.is_some() && exact_a == exact_b {
        return Ok(true);
    }
    if has_decimal(a) || has_decimal(b) {
        let is_rounded = is_rounding(a, (b, exact_b), tolerance, fuel)?
            || is_rounding(b, (a, exact_a), tolerance, fuel)?
            || agree((a, exact_a), (b, exact_b), tolerance, fuel)?;
        if is_rounded {
            return Ok(true);
        }
    }
    if exact_a.is_some() && exact_b.is_some() { Ok(false) } else { probe::are_equal(a, b, fuel) }
}

/// The order of two constant expressions; `None` unless both are real or infinite and their order
/// is clear.
pub fn compare(
    a: &Expression,
    b: &Expression,
    fuel: &mut Fuel,
) -> Result<Option<Ordering>, OutOfFuel> {
    match (extent(a, fuel)?, extent(b, fuel)?) {
        (Some(Ordering::Equal), Some(Ordering::Equal)) => {}
        (Some(a), Some(b)) => return Ok(Some(a.cmp(&b))),
        _ => return Ok(None),
    }
    if let (Some(a), Some(b)) = (rational_value(a, fuel)?, rational_value(b, fuel)?) {
        return Ok(Some(a.cmp(&b)));
    }
    if a.is_number() && b.is_number() { probe::order(a, b, fuel) } else { Ok(None) }
}

/// Whether a = c b for a constant c that is not zero, and its sign; so a = 0 and b = 0 are the same
/// equation, and a > 0 and b > 0 the same inequality if c is positive. `None` if there is no such
/// constant, or none is found.
pub fn constant_ratio(
    a: &Expression,
    b: &Expression,
    fuel: &mut Fuel,
) -> Result<Option<FactorSign>, OutOfFuel> {
    let zero = Expression::integer(0);
    let is_zero =
        |side: &Expression, fuel: &mut Fuel| same_value(side, &zero, Tolerance::EXACT, fuel);
    match (is_zero(a, fuel)?, is_zero(b, fuel)?) {
        (true, true) => return Ok(Some(FactorSign::Positive)),
        (false, false) => {}
        _ => return Ok(None),
    }
    let ratio = probe::ratio(a, b, fuel)?;
    Ok(ratio.map(|ratio| match ratio.as_real().and_then(real::Real::sign) {
        Some(Ordering::Less) => FactorSign::Negative,
        Some(Ordering::Greater) => FactorSign::Positive,
        _ => FactorSign::NotReal,
    }))
}

/// The order of a constant and zero.
fn sign(expression: &Expression, fuel: &mut Fuel) -> Result<Option<Ordering>, OutOfFuel> {
    match rational_value(expression, fuel)? {
        Some(value) => Ok(Some(value.cmp(&Zero::zero()))),
        None if expression.is_number() => probe::order(expression, &Expression::integer(0), fuel),
        None => Ok(None),
    }
}

/// Whether expression `a` is a decimal that is a correct rounding of `b`, which is a decimal with
/// more digits, or a formula whose value is not easily written exactly.
fn is_rounding(
    a: &Expression,
    (b, exact_b): (&Expression, Option<&BigRational>),
    tolerance: Tolerance,
    fuel: &mut Fuel,
) -> Result<bool, OutOfFuel> {
    const MAX_BITS: i64 = 8192;
    let Some(decimal) = tolerance::literal(a).filter(|_| b.is_number()) else { return Ok(false) };
    let has_no_more_digits =
        tolerance::literal(b).is_some_and(|b| b.last_digit >= decimal.last_digit);
    if has_no_more_digits || tolerance::is_integer_literal(b) {
        return Ok(false);
    }
    let value = match exact_b {
        Some(value) => Some(value.clone()),
        None => probe::constant(b, fuel)?
            .and_then(Complex::as_real)
            .and_then(|value| value.to_rational(MAX_BITS)),
    };
    fuel.spend(value.as_ref().map_or(1, |value| exact::bits(value) / 8))?;
    let is_exact = |value: &_| !has_decimal(b) && tolerance.states(value);
    Ok(value.is_some_and(|value| !is_exact(&value) && tolerance.rounds(&decimal, &value)))
}

/// Whether two expressions' values agree when rounded, wherever both have one. An expression that
/// varies is no rounding of a constant.
fn agree(
    (a, exact_a): (&Expression, Option<&BigRational>),
    (b, exact_b): (&Expression, Option<&BigRational>),
    tolerance: Tolerance,
    fuel: &mut Fuel,
) -> Result<bool, OutOfFuel> {
    if a.is_number() != b.is_number() {
        return Ok(false);
    }
    if let (Some(a), Some(b)) = (exact_a, exact_b) {
        fuel.spend((exact::bits(a) + exact::bits(b)) / 8)?;
        return Ok(tolerance.agree(a, b));
    }
    let pairs = probe::pairs(a, b, fuel)?;
    fuel.spend(100 * pairs.len() as u64)?;
    let varies = !a.is_number();
    Ok(!pairs.is_empty() && pairs.into_iter().all(|(a, b)| tolerance.agree_complex(a, b, varies)))
}

#[cfg(test)]
mod tests;
