//! Trigonometric and hyperbolic functions of canonical forms: known at multiples of pi/12, the rest in terms of sine,
//! cosine and powers of e.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, ToPrimitive, Zero};

use super::failure::Failure;
use super::form::Form;
use super::monomial::{Atom, Monomial};
use super::polynomial::Polynomial;
use super::power::raise;
use crate::expression::Function;
use crate::fuel::Fuel;

/// A rational multiple of pi.
pub fn pi_times(numerator: i64, denominator: i64) -> Form {
    let ratio = BigRational::new(numerator.into(), denominator.into());
    Polynomial::term(Monomial::of(Atom::Pi, 1.into()), ratio).into()
}

/// The rational number times pi that a form is.
fn over_pi(x: &Form) -> Option<BigRational> {
    if x.is_zero() {
        return Some(BigRational::zero());
    }
    let (monomial, coefficient) = x.as_term()?;
    match monomial.0.as_slice() {
        [(atom, exponent)] if **atom == Atom::Pi && exponent.is_one() => Some(coefficient.clone()),
        _ => None,
    }
}

/// sqrt(a)/b.
fn root_over(a: i64, b: i64, fuel: &mut Fuel) -> Result<Form, Failure> {
    let half = Form::rational(BigRational::new(1.into(), 2.into()));
    raise(&Form::integer(a), &half, fuel)?.times_rational(&BigRational::new(BigInt::one(), b.into()), fuel)
}

/// sin(k pi/12) for k from 0 to 6.
fn sine_of_twelfths(k: i64, fuel: &mut Fuel) -> Result<Form, Failure> {
    match k {
        0 => Ok(Form::integer(0)),
        1 => root_over(6, 4, fuel)?.minus(&root_over(2, 4, fuel)?, fuel),
        2 => root_over(1, 2, fuel),
        3 => root_over(2, 2, fuel),
        4 => root_over(3, 2, fuel),
        5 => root_over(6, 4, fuel)?.plus(&root_over(2, 4, fuel)?, fuel),
        _ => Ok(Form::integer(1)),
    }
}

/// sin(x).
pub fn sine(x: &Form, fuel: &mut Fuel) -> Result<Form, Failure> {
    if let Some(turns) = over_pi(x) {
        // As k pi/12 with k from 0 to below 24, then by symmetry from 0 to 6.
        let period = BigRational::from_integer(2.into());
        let reduced = &turns - (&turns / &period).floor() * &period;
        let twelfths = &reduced * BigRational::from_integer(12.into());
        if twelfths.is_integer()
            && let Some(k) = twelfths.to_integer().to_i64()
        {
            let (k, sign) = if k >= 12 { (k - 12, -1) } else { (k, 1) };
            let value = sine_of_twelfths(k.min(12 - k), fuel)?;
            return if sign < 0 { value.negated(fuel) } else { Ok(value) };
        }
    }
    if x.is_shown_negative() {
        return Form::function(Function::Sin, x.negated(fuel)?).negated(fuel);
    }
    Ok(Form::function(Function::Sin, x.clone()))
}

/// cos(x).
pub fn cosine(x: &Form, fuel: &mut Fuel) -> Result<Form, Failure> {
    if over_pi(x).is_some() {
        return sine(&pi_times(1, 2).minus(x, fuel)?, fuel);
    }
    let x = if x.is_shown_negative() { x.negated(fuel)? } else { x.clone() };
    Ok(Form::function(Function::Cos, x))
}

/// The arc, a multiple of pi/12, of which a function has this value.
fn known_arc(
    x: &Form,
    value: impl Fn(&Form, &mut Fuel) -> Result<Form, Failure>,
    largest: i64,
    fuel: &mut Fuel,
) -> Result<Option<Form>, Failure> {
    if x.any_atom(&mut |atom| !matches!(atom, Atom::Integer(_))) {
        return Ok(None);
    }
    for k in -largest..=largest {
        let arc = pi_times(k, 12);
        if value(&arc, fuel)?.minus(x, fuel)?.is_zero() {
            return Ok(Some(arc));
        }
    }
    Ok(None)
}

/// arcsin(x).
pub fn arcsine(x: &Form, fuel: &mut Fuel) -> Result<Form, Failure> {
    if let Some(arc) = known_arc(x, sine, 6, fuel)? {
        return Ok(arc);
    }
    if x.is_shown_negative() {
        return Form::function(Function::Arcsin, x.negated(fuel)?).negated(fuel);
    }
    Ok(Form::function(Function::Arcsin, x.clone()))
}

/// arctan(x).
pub fn arctangent(x: &Form, fuel: &mut Fuel) -> Result<Form, Failure> {
    let tangent = |arc: &Form, fuel: &mut Fuel| sine(arc, fuel)?.over(&cosine(arc, fuel)?, fuel);
    if let Some(arc) = known_arc(x, tangent, 5, fuel)? {
        return Ok(arc);
    }
    if x.is_shown_negative() {
        return Form::function(Function::Arctan, x.negated(fuel)?).negated(fuel);
    }
    Ok(Form::function(Function::Arctan, x.clone()))
}

/// (e^x + sign e^-x)/2.
pub fn hyperbolic(x: &Form, sign: i64, fuel: &mut Fuel) -> Result<Form, Failure> {
    let growing = raise(&Form::atom(Atom::E), x, fuel)?;
    let falling = growing.inverse(fuel)?.times_rational(&BigRational::from_integer(sign.into()), fuel)?;
    growing.plus(&falling, fuel)?.times_rational(&BigRational::new(1.into(), 2.into()), fuel)
}
