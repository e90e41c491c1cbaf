//! Decisions by numeric evaluation: of constants, and of everything else at fixed pseudo-random points.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use num_bigint::BigInt;
use num_traits::Signed;

use super::complex::Complex;
use super::evaluator::{Evaluator, POINTS, floor_of};
use super::failure::Failure;
use super::form::Form;
use super::monomial::Atom;
use super::number;
use super::polynomial::Polynomial;
use super::real::Real;
use crate::expression::Function;
use crate::fuel::Fuel;

/// Points with a zero difference that are enough.
const ENOUGH_ZEROS: u32 = 6;

/// At least one point in so many must have a value.
const FEWEST_DEFINED: u32 = 5;

/// How much more points a step function takes: two that differ may agree nearly everywhere.
const STEP_ROUNDS: u32 = 10;

/// Bits that must be right beyond the leading one before a difference without any is taken for zero.
const CONVINCING_BITS: i64 = 96;

/// What is known of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is zero as far as some thirty digits can tell.
    Zero,
    /// It is certainly not zero.
    Nonzero,
    /// It is undefined, or lost in rounding errors.
    Unclear,
}

/// The variables that stand for integers: those in factorials, and in exponents of negative numbers as in (-1)^n.
fn integer_variables(polynomials: &[&Polynomial]) -> BTreeSet<Box<str>> {
    let mut names = BTreeSet::new();
    for polynomial in polynomials {
        polynomial.any_atom(&mut |atom| {
            let integers = match atom {
                Atom::Function(Function::Factorial | Function::Gcd | Function::Lcm, arguments) => arguments,
                Atom::Power(base, exponent) if base.as_rational().is_some_and(|base| base.is_negative()) => {
                    std::slice::from_ref(exponent)
                }
                _ => return false,
            };
            for form in integers {
                form.any_atom(&mut |atom| {
                    if let Atom::Symbol(name) = atom {
                        names.insert(name.clone());
                    }
                    false
                });
            }
            false
        });
    }
    names
}

/// The value of a constant form.
pub fn constant(form: &Form, fuel: &mut Fuel) -> Result<Option<Complex>, Failure> {
    Evaluator::at(0, &BTreeSet::new()).form(form, fuel)
}

/// The sign of a constant form, if it is a real number and its sign is clear.
pub fn sign(form: &Form, fuel: &mut Fuel) -> Result<Option<Ordering>, Failure> {
    let no_names = BTreeSet::new();
    let mut evaluator = Evaluator::at(0, &no_names);
    if finding(&mut evaluator, form.numerator(), form.denominator(), fuel)? == Finding::Zero {
        return Ok(Some(Ordering::Equal));
    }
    Ok(constant(form, fuel)?.and_then(Complex::as_real).and_then(Real::sign))
}

/// The floor of a constant form, if it is a real number and clearly between two integers.
pub fn floor(form: &Form, fuel: &mut Fuel) -> Result<Option<BigInt>, Failure> {
    Ok(constant(form, fuel)?.and_then(Complex::as_real).and_then(floor_of))
}

fn finding<'a>(
    evaluator: &mut Evaluator<'a>,
    numerator: &'a Polynomial,
    denominator: &'a Polynomial,
    fuel: &mut Fuel,
) -> Result<Finding, Failure> {
    let Some((value, scale)) = evaluator.polynomial(numerator, fuel)? else {
        return Ok(Finding::Unclear);
    };
    if denominator.as_rational().is_none() {
        let denominator = evaluator.polynomial(denominator, fuel)?;
        if !denominator.is_some_and(|(value, _)| value.is_clearly_nonzero()) {
            return Ok(Finding::Unclear);
        }
    }
    if value.is_clearly_nonzero() {
        return Ok(Finding::Nonzero);
    }
    // Long numbers can come close to each other by construction: a zero must be that much nearer.
    let bits = if is_constant(numerator) { longest_number(numerator, fuel)? as i64 } else { 0 };
    Ok(if value.error() < scale - CONVINCING_BITS - bits { Finding::Zero } else { Finding::Unclear })
}

/// Bits of the longest number in a polynomial, without a common factor.
fn longest_number(polynomial: &Polynomial, fuel: &mut Fuel) -> Result<u64, Failure> {
    let mut longest = 0;
    polynomial.any_atom(&mut |atom| {
        if let Atom::Integer(value) = atom {
            longest = longest.max(value.bits());
        }
        for form in atom.forms() {
            let polynomials = [form.numerator(), form.denominator()];
            let coefficients = polynomials.into_iter().flat_map(Polynomial::terms);
            longest = coefficients.fold(longest, |longest, (_, value)| longest.max(number::bits(value)));
        }
        false
    });
    let content = polynomial.content(fuel)?;
    for (_, coefficient) in polynomial.terms() {
        longest = longest.max(number::bits(&number::multiply(coefficient, &content.recip(), fuel)?));
    }
    Ok(longest)
}

/// Whether a quotient is zero wherever it is defined. Points where a root or logarithm is taken of what is not positive
/// count only if there are no others.
pub fn vanishes(
    numerator: &Polynomial,
    denominator: &Polynomial,
    fuel: &mut Fuel,
) -> Result<Finding, Failure> {
    if is_constant(numerator) {
        return finding(&mut Evaluator::at(0, &BTreeSet::new()), numerator, denominator, fuel);
    }
    let whole = integer_variables(&[numerator, denominator]);
    let (mut zeros, mut branched) = (0, Finding::Unclear);
    let has_steps = numerator
        .any_atom(&mut |atom| matches!(atom, Atom::Function(Function::Floor | Function::Ceiling, _)));
    let rounds = if has_steps { STEP_ROUNDS } else { 1 };
    for point in 0..POINTS.len() * rounds as usize {
        let mut evaluator = Evaluator::at(point, &whole);
        match finding(&mut evaluator, numerator, denominator, fuel)? {
            Finding::Nonzero if !evaluator.branched => return Ok(Finding::Nonzero),
            Finding::Nonzero => branched = Finding::Nonzero,
            Finding::Zero if !evaluator.branched => zeros += 1,
            Finding::Zero if branched == Finding::Unclear => branched = Finding::Zero,
            Finding::Zero | Finding::Unclear => {}
        }
        if zeros == ENOUGH_ZEROS * rounds {
            break;
        }
    }
    // C(n, k) and C(k, n) agree where both have a value, which is where n is k.
    let tried = POINTS.len() as u32 * rounds;
    Ok(if zeros * FEWEST_DEFINED >= tried || zeros >= ENOUGH_ZEROS { Finding::Zero } else { branched })
}

fn is_constant(polynomial: &Polynomial) -> bool {
    !polynomial.any_atom(&mut |atom| matches!(atom, Atom::Symbol(_) | Atom::Unknown(..)))
}

/// The values of two forms at each point where both have one, without a choice of branch.
pub fn pairs(a: &Form, b: &Form, fuel: &mut Fuel) -> Result<Vec<(Complex, Complex)>, Failure> {
    let whole = integer_variables(&[a.numerator(), a.denominator(), b.numerator(), b.denominator()]);
    let constant = a.is_constant() && b.is_constant();
    let mut pairs = Vec::new();
    for point in 0..if constant { 1 } else { POINTS.len() } {
        let mut evaluator = Evaluator::at(point, &whole);
        let values = (evaluator.form(a, fuel)?, evaluator.form(b, fuel)?);
        if let ((Some(a), Some(b)), false) = (values, evaluator.branched) {
            pairs.push((a, b));
        }
    }
    Ok(pairs)
}

/// The value of a form that has the same at all points, of which at least two must be defined.
pub fn common_value(form: &Form, fuel: &mut Fuel) -> Result<Option<Complex>, Failure> {
    let mut first: Option<Complex> = None;
    let mut agreeing = 0;
    for (value, _) in pairs(form, &Form::integer(0), fuel)? {
        let Some(first) = first else {
            first = Some(value);
            continue;
        };
        let difference = value - first;
        if difference.is_clearly_nonzero() {
            return Ok(None);
        }
        agreeing += u32::from(difference.error() < first.exponent() - CONVINCING_BITS);
    }
    Ok(first.filter(|_| agreeing > 0))
}
