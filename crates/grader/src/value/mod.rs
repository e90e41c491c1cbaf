//! The value of expressions: whether two are equal, which of two is greater, what a canonical form looks like.
//!
//! What can be decided exactly is: expressions become quotients of polynomials (`form.rs`) with rational coefficients, in
//! the variables, roots of primes, pi, e and functions of such quotients, and sums, products, powers and the better
//! known values of functions are computed. A difference that has no zero form goes to `probe.rs`, which evaluates it in
//! 256 bits: at one point if it is constant, else at several pseudo-random ones. A difference that is clearly not zero
//! at one point makes the expressions different; one that is zero to thirty digits at all points makes them the same.
//! That is evidence, not proof: numbers that differ after thirty digits beyond cancellation pass for equal.
//!
//! Exact forms keep `2^{1009} + x` apart from `2^{1009}`, which an evaluation in 256 bits takes for equal.
//!
//! The type of a value is recursive, and so the files of its parts import each other: a form (`form.rs`) is a quotient of
//! polynomials, a polynomial (`polynomial.rs`) a sum of monomials, a monomial (`monomial.rs`) a product of powers of atoms,
//! and an atom may be a function of forms or a root of a polynomial. Read them in this order. All else here imports
//! one way.
//!
//! Variables are real; in factorials, and in exponents of negative numbers as in (-1)^n, positive integers. Where a root
//! or a logarithm is taken of a negative number, as in sqrt(x) sqrt(y) against sqrt(x y) for negative x and y,
//! expressions count as the same if they agree everywhere else: sqrt(x^2) differs from x, since nothing negative is
//! under the root, but ln(x^2) equals 2 ln(x).

mod canonical;
mod complex;
mod display;
mod evaluator;
mod extent;
mod failure;
mod form;
mod function;
mod monomial;
mod number;
mod polynomial;
mod power;
mod probe;
mod real;
mod tolerance;
mod trigonometry;

use std::cmp::Ordering;

use num_rational::BigRational;
use num_traits::{Signed, Zero};

pub use tolerance::{Tolerance, has_decimal};

use self::canonical::canonical;
use self::extent::Extent;
use self::failure::Failure;
use self::form::Form;
use self::monomial::Atom;
use self::number::Exponent;
use self::polynomial::Polynomial;
use self::probe::Finding;
use super::expression::Expression;
use super::fuel::{Fuel, OutOfFuel};

/// Fuel for one comparison, several times what the longest honest answers take, and used up in some tens of milliseconds.
pub const DEFAULT_FUEL: u64 = 600_000;

/// What a comparison of values found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sameness {
    /// The values are equal, or within the tolerance.
    Same,
    /// They are not.
    Different,
    /// Neither could be shown, as of an expression that is undefined.
    Unknown,
}

impl From<Finding> for Sameness {
    fn from(finding: Finding) -> Self {
        match finding {
            Finding::Zero => Self::Same,
            Finding::Nonzero => Self::Different,
            Finding::Unclear => Self::Unknown,
        }
    }
}

/// The sign of a factor by which expressions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FactorSign {
    /// The factor is a positive number.
    Positive,
    /// The factor is a negative number.
    Negative,
    /// The factor is not a real number.
    NotReal,
}

/// Whether two expressions have the same value for all values of their variables. Identical expressions have, even if
/// they are undefined. Decimals count as what is within the tolerance of them.
///
/// # Errors
/// [`OutOfFuel`] when that takes too much work.
pub fn same_value(
    a: &Expression,
    b: &Expression,
    tolerance: Tolerance,
    fuel: &mut Fuel,
) -> Result<Sameness, OutOfFuel> {
    if a == b {
        return Ok(Sameness::Same);
    }
    if let (Expression::Number(_), Expression::Number(_)) = (a, b) {
        return Ok(Sameness::Different);
    }
    settle(same_forms(a, b, tolerance, fuel), Sameness::Unknown)
}

/// Which of two constant expressions is greater; `None` unless both are real numbers, or infinite, and it is clear.
///
/// # Errors
/// [`OutOfFuel`] when that takes too much work.
pub fn compare(a: &Expression, b: &Expression, fuel: &mut Fuel) -> Result<Option<Ordering>, OutOfFuel> {
    let order = |fuel: &mut Fuel| {
        let (a, b) = (canonical(a, fuel)?, canonical(b, fuel)?);
        match (Extent::of(&a), Extent::of(&b)) {
            (Extent::Finite, Extent::Finite) => sign(&a.minus(&b, fuel)?, fuel),
            (a, b) => Ok(Some(a.cmp(&b))),
        }
    };
    settle(order(fuel), None)
}

/// Whether a = c b for a constant c that is not zero, and its sign; so a = 0 and b = 0 are the same equation, and a > 0
/// and b > 0 the same inequality if c is positive. `None` if there is no such constant, or none is found.
///
/// # Errors
/// [`OutOfFuel`] when that takes too much work.
pub fn constant_ratio(
    a: &Expression,
    b: &Expression,
    fuel: &mut Fuel,
) -> Result<Option<FactorSign>, OutOfFuel> {
    let ratio = |fuel: &mut Fuel| {
        let (a, b) = (canonical(a, fuel)?, canonical(b, fuel)?);
        if a.is_zero() && b.is_zero() {
            return Ok(Some(FactorSign::Positive));
        }
        if a.is_zero() || b.is_zero() {
            return Ok(None);
        }
        let ratio = a.over(&b, fuel)?;
        if ratio.is_constant() {
            return Ok(match sign(&ratio, fuel)? {
                Some(Ordering::Less) => Some(FactorSign::Negative),
                Some(Ordering::Equal) => None,
                Some(Ordering::Greater) => Some(FactorSign::Positive),
                None => Some(FactorSign::NotReal),
            });
        }
        let value = probe::common_value(&ratio, fuel)?;
        Ok(value.map(|value| match value.as_real().and_then(real::Real::sign) {
            Some(Ordering::Less) => FactorSign::Negative,
            Some(Ordering::Greater) => FactorSign::Positive,
            _ => FactorSign::NotReal,
        }))
    };
    settle(ratio(fuel), None)
}

/// The exact value of an expression that is shown to be a rational number; a decimal is what it says.
///
/// # Errors
/// [`OutOfFuel`] when that takes too much work.
pub fn rational_value(expression: &Expression, fuel: &mut Fuel) -> Result<Option<BigRational>, OutOfFuel> {
    settle(canonical(expression, fuel).map(|form| form.as_rational()), None)
}

/// The canonical form as text, for people: `3/4`, `x^2 + 2*sqrt(2)`; `undefined` if there is no value. Expressions with
/// the same text have the same value, but not the other way round.
///
/// # Errors
/// [`OutOfFuel`] when that takes too much work.
pub fn normal_form(expression: &Expression, fuel: &mut Fuel) -> Result<String, OutOfFuel> {
    settle(canonical(expression, fuel).map(|form| form.to_string()), "undefined".into())
}

fn settle<T>(result: Result<T, Failure>, undefined: T) -> Result<T, OutOfFuel> {
    match result {
        Ok(found) => Ok(found),
        Err(Failure::Undefined) => Ok(undefined),
        Err(Failure::OutOfFuel) => Err(OutOfFuel),
    }
}

fn sign(form: &Form, fuel: &mut Fuel) -> Result<Option<Ordering>, Failure> {
    if let Some(value) = form.as_rational() {
        return Ok(Some(value.cmp(&Zero::zero())));
    }
    if form.is_constant() { probe::sign(form, fuel) } else { Ok(None) }
}

fn same_forms(
    a: &Expression,
    b: &Expression,
    tolerance: Tolerance,
    fuel: &mut Fuel,
) -> Result<Sameness, Failure> {
    let (form_a, form_b) = (canonical(a, fuel)?, canonical(b, fuel)?);
    if form_a == form_b {
        return Ok(Sameness::Same);
    }
    match (Extent::of(&form_a), Extent::of(&form_b)) {
        (Extent::Finite, Extent::Finite) => {}
        (a, b) => return Ok(if a == b { Sameness::Same } else { Sameness::Different }),
    }
    if has_decimal(a) || has_decimal(b) {
        let is_rounded = is_rounding(a, b, &form_b, tolerance, fuel)?
            || is_rounding(b, a, &form_a, tolerance, fuel)?
            || agree(&form_a, &form_b, tolerance, fuel)?;
        if is_rounded {
            return Ok(Sameness::Same);
        }
    }
    let difference = form_a.cross_difference(&form_b, fuel)?;
    if difference.is_zero() {
        return Ok(Sameness::Same);
    }
    if is_independent(&difference) {
        return Ok(Sameness::Different);
    }
    let denominator = form_a.denominator().times(form_b.denominator(), fuel)?;
    Ok(probe::vanishes(&difference, &denominator, fuel)?.into())
}

/// Whether expression `a` is a decimal that is a correct rounding of `b`, which is a decimal with more digits, or a
/// formula whose value is not easily written exactly.
fn is_rounding(
    a: &Expression,
    b: &Expression,
    form_b: &Form,
    tolerance: Tolerance,
    fuel: &mut Fuel,
) -> Result<bool, Failure> {
    const MAX_BITS: i64 = 8192;
    let Some(decimal) = tolerance::literal(a).filter(|_| form_b.is_constant()) else { return Ok(false) };
    let has_no_more_digits = tolerance::literal(b).is_some_and(|b| b.last_digit >= decimal.last_digit);
    if has_no_more_digits || tolerance::is_integer_literal(b) {
        return Ok(false);
    }
    let value = match form_b.as_rational() {
        Some(value) => Some(value),
        None => probe::constant(form_b, fuel)?
            .and_then(complex::Complex::as_real)
            .and_then(|value| value.to_rational(MAX_BITS)),
    };
    fuel.spend(value.as_ref().map_or(1, |value| number::bits(value) / 8))?;
    let is_exact = |value: &_| !has_decimal(b) && tolerance.states(value);
    Ok(value.is_some_and(|value| !is_exact(&value) && tolerance.rounds(&decimal, &value)))
}

/// Whether two forms' values agree when rounded, wherever both have one. What varies is no rounding of a number, however
/// small the part of it that does.
fn agree(a: &Form, b: &Form, tolerance: Tolerance, fuel: &mut Fuel) -> Result<bool, Failure> {
    if a.is_constant() != b.is_constant() {
        return Ok(false);
    }
    if let (Some(a), Some(b)) = (a.as_rational(), b.as_rational()) {
        fuel.spend((number::bits(&a) + number::bits(&b)) / 8)?;
        return Ok(tolerance.agree(&a, &b));
    }
    let pairs = probe::pairs(a, b, fuel)?;
    fuel.spend(100 * pairs.len() as u64)?;
    let varies = !a.is_constant();
    Ok(!pairs.is_empty() && pairs.into_iter().all(|(a, b)| tolerance.agree_complex(a, b, varies)))
}

/// Whether a polynomial that is not zero as it is written has no other way to be zero: its atoms are variables, pi or e, and
/// roots of primes, which are linearly independent of each other over the rational numbers (Besicovitch 1940).
fn is_independent(polynomial: &Polynomial) -> bool {
    let (mut has_pi, mut has_e, mut others) = (false, false, false);
    for (monomial, _) in polynomial.terms() {
        for (atom, exponent) in &monomial.0 {
            match &**atom {
                Atom::Symbol(_) => {}
                Atom::Pi => has_pi = true,
                Atom::E => has_e = true,
                Atom::Integer(value) if value.is_negative() => {
                    others |= *exponent != Exponent::new_raw(1, 2);
                }
                Atom::Integer(value) => others |= !number::is_certainly_prime(value),
                _ => others = true,
            }
        }
    }
    !(others || has_pi && has_e)
}

#[cfg(test)]
mod tests;
