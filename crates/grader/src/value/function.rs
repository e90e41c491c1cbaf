//! Functions of canonical forms, evaluated where that is exact.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive};

use super::failure::Failure;
use super::form::Form;
use super::monomial::Atom;
use super::number;
use super::probe;
use super::trigonometry::{arcsine, arctangent, cosine, hyperbolic, pi_times, sine};
use crate::expression::Function;
use crate::fuel::Fuel;

/// The largest whole number by which an argument of a factorial is shifted, or a binomial multiplied out.
const MAX_FACTORS: i64 = 50;

/// A function of its arguments.
pub fn apply(function: Function, arguments: Vec<Form>, fuel: &mut Fuel) -> Result<Form, Failure> {
    fuel.spend(1)?;
    match (function, arguments.as_slice()) {
        (Function::Sin, [x]) => sine(x, fuel),
        (Function::Cos, [x]) => cosine(x, fuel),
        (Function::Tan, [x]) => sine(x, fuel)?.over(&cosine(x, fuel)?, fuel),
        (Function::Cot, [x]) => cosine(x, fuel)?.over(&sine(x, fuel)?, fuel),
        (Function::Sec, [x]) => cosine(x, fuel)?.inverse(fuel),
        (Function::Csc, [x]) => sine(x, fuel)?.inverse(fuel),
        (Function::Arcsin, [x]) => arcsine(x, fuel),
        (Function::Arccos, [x]) => pi_times(1, 2).minus(&arcsine(x, fuel)?, fuel),
        (Function::Arctan, [x]) => arctangent(x, fuel),
        (Function::Arccot, [x]) => pi_times(1, 2).minus(&arctangent(x, fuel)?, fuel),
        (Function::Sinh, [x]) => hyperbolic(x, -1, fuel),
        (Function::Cosh, [x]) => hyperbolic(x, 1, fuel),
        (Function::Tanh, [x]) => hyperbolic(x, -1, fuel)?.over(&hyperbolic(x, 1, fuel)?, fuel),
        (Function::Ln, [x]) => logarithm(x, fuel),
        (Function::Log, [x, base]) => logarithm(x, fuel)?.over(&logarithm(base, fuel)?, fuel),
        (Function::Abs, [x]) => absolute(x, fuel),
        (Function::Floor, [x]) => floor(x, fuel),
        (Function::Ceiling, [x]) => floor(&x.negated(fuel)?, fuel)?.negated(fuel),
        (Function::Factorial, [x]) => factorial(x, fuel),
        (Function::Binomial, [n, k]) => binomial(n, k, fuel),
        (Function::Gcd | Function::Lcm, _) => divisor_or_multiple(function, arguments, fuel),
        (Function::Min | Function::Max, _) => extreme(function, arguments, fuel),
        // Of another number of arguments nothing is known.
        _ => Ok(Form::atom(Atom::Function(function, arguments))),
    }
}

/// The sum of the logarithms of a constant's factors; that of any other form is left.
fn logarithm(x: &Form, fuel: &mut Fuel) -> Result<Form, Failure> {
    if x.is_zero() {
        return Err(Failure::Undefined);
    }
    if let Some(Atom::Power(base, exponent)) = x.as_atom()
        && matches!(base.as_atom(), Some(Atom::E))
        && x.as_atom().is_some_and(Atom::is_positive)
    {
        return Ok(exponent.clone());
    }
    if x.as_rational().is_some_and(|value| value.is_negative()) {
        let positive = logarithm(&x.negated(fuel)?, fuel)?;
        return positive.plus(&pi_times(1, 1).times(&Form::i(), fuel)?, fuel);
    }
    let Some((monomial, coefficient)) = x.as_term().filter(|_| x.is_positive_constant()) else {
        return Ok(Form::function(Function::Ln, x.clone()));
    };
    let mut sum = Form::integer(0);
    for (value, sign) in [(coefficient.numer(), 1), (coefficient.denom(), -1)] {
        for (prime, exponent) in number::factorise(value, fuel)? {
            let prime = Form::function(Function::Ln, Form::rational(BigRational::from_integer(prime)));
            let exponent = BigRational::from_integer((sign * exponent).into());
            sum = sum.plus(&prime.times_rational(&exponent, fuel)?, fuel)?;
        }
    }
    for (atom, exponent) in &monomial.0 {
        let of_atom = match &**atom {
            Atom::E => Form::integer(1),
            Atom::Integer(value) => {
                Form::function(Function::Ln, Form::rational(BigRational::from_integer(value.clone())))
            }
            _ => Form::function(Function::Ln, Form::atom(Atom::Pi)),
        };
        let exponent = BigRational::new((*exponent.numer()).into(), (*exponent.denom()).into());
        sum = sum.plus(&of_atom.times_rational(&exponent, fuel)?, fuel)?;
    }
    Ok(sum)
}

fn absolute(x: &Form, fuel: &mut Fuel) -> Result<Form, Failure> {
    if let Some(value) = x.as_rational() {
        return Ok(Form::rational(value.abs()));
    }
    if x.is_positive_constant() {
        return Ok(x.clone());
    }
    if x.is_constant()
        && let Some(sign) = probe::sign(x, fuel)?
    {
        return if sign.is_lt() { x.negated(fuel) } else { Ok(x.clone()) };
    }
    let content = x.numerator().content(fuel)?;
    let rest = x.times_rational(&content.recip(), fuel)?;
    Form::function(Function::Abs, rest).times_rational(&content.abs(), fuel)
}

fn floor(x: &Form, fuel: &mut Fuel) -> Result<Form, Failure> {
    if let Some(value) = x.as_rational() {
        return Ok(Form::rational(value.floor()));
    }
    if x.is_constant()
        && let Some(floor) = probe::floor(x, fuel)?
    {
        return Ok(Form::rational(BigRational::from_integer(floor)));
    }
    Ok(Form::function(Function::Floor, x.clone()))
}

/// x!, where (x + k)! is (x + k) ... (x + 1) x! for whole k.
fn factorial(x: &Form, fuel: &mut Fuel) -> Result<Form, Failure> {
    if let Some(value) = x.as_rational().filter(BigRational::is_integer) {
        if value.is_negative() {
            return Err(Failure::Undefined);
        }
        if let Some(factorial) = number::factorial(value.numer(), fuel)? {
            return Ok(Form::rational(BigRational::from_integer(factorial)));
        }
        return Ok(Form::function(Function::Factorial, x.clone()));
    }
    let constant = x.as_polynomial().and_then(|polynomial| {
        let constant = polynomial.terms().find(|(monomial, _)| monomial.is_one());
        constant.and_then(|(_, value)| value.floor().to_integer().to_i64())
    });
    let Some(shift) = constant.filter(|shift| shift.abs() <= MAX_FACTORS) else {
        return Ok(Form::function(Function::Factorial, x.clone()));
    };
    let base = x.clone().plus(&Form::integer(-shift), fuel)?;
    let mut value = Form::function(Function::Factorial, base.clone());
    for step in 1..=shift.abs() {
        let factor = base.clone().plus(&Form::integer(if shift > 0 { step } else { 1 - step }), fuel)?;
        value = if shift > 0 { value.times(&factor, fuel)? } else { value.over(&factor, fuel)? };
    }
    Ok(value)
}

fn binomial(n: &Form, k: &Form, fuel: &mut Fuel) -> Result<Form, Failure> {
    let whole =
        |form: &Form| form.as_rational().filter(BigRational::is_integer).map(|value| value.to_integer());
    let mut lower = k.clone();
    if let (Some(n), Some(k)) = (whole(n), whole(k)) {
        if k.is_negative() || (!n.is_negative() && k > n) {
            return Ok(Form::integer(0));
        }
        // The symmetric one has fewer factors.
        if !n.is_negative() && &k + &k > n {
            lower = Form::rational(BigRational::from_integer(n - k));
        }
    }
    let small = whole(&lower).and_then(|k| k.to_i64());
    let limit = if n.as_rational().is_some() { 20 * MAX_FACTORS } else { MAX_FACTORS };
    if let Some(count) = small.filter(|&count| (0..=limit).contains(&count)) {
        let mut value = Form::integer(1);
        for step in 0..count {
            let factor = n.clone().plus(&Form::integer(-step), fuel)?;
            let factor = factor.times_rational(&BigRational::new(1.into(), (step + 1).into()), fuel)?;
            value = value.times(&factor, fuel)?;
        }
        return Ok(value);
    }
    let chosen = factorial(k, fuel)?.times(&factorial(&n.clone().minus(k, fuel)?, fuel)?, fuel)?;
    factorial(n, fuel)?.over(&chosen, fuel)
}

fn divisor_or_multiple(
    function: Function,
    mut arguments: Vec<Form>,
    fuel: &mut Fuel,
) -> Result<Form, Failure> {
    let integers: Option<Vec<BigInt>> = arguments
        .iter()
        .map(|x| x.as_rational().filter(BigRational::is_integer).map(|value| value.to_integer()))
        .collect();
    if let Some(integers) = integers {
        let value = number::gcd_or_lcm(&integers, function == Function::Lcm, fuel)?;
        return Ok(Form::rational(BigRational::from_integer(value)));
    }
    arguments.sort();
    arguments.dedup();
    Ok(Form::atom(Atom::Function(function, arguments)))
}

/// The least or greatest of the arguments, without those that another one is known to beat.
fn extreme(function: Function, arguments: Vec<Form>, fuel: &mut Fuel) -> Result<Form, Failure> {
    let mut kept: Vec<Form> = Vec::new();
    for argument in arguments {
        let mut is_beaten = false;
        let mut rivals = Vec::new();
        for rival in kept {
            let difference = argument.clone().minus(&rival, fuel)?;
            let sign = if difference.is_constant() { probe::sign(&difference, fuel)? } else { None };
            let sign = if function == Function::Max { sign.map(std::cmp::Ordering::reverse) } else { sign };
            // Now less than the rival is better.
            is_beaten |= sign.is_some_and(std::cmp::Ordering::is_ge);
            if sign.is_none_or(std::cmp::Ordering::is_ge) {
                rivals.push(rival);
            }
        }
        kept = rivals;
        if !is_beaten {
            kept.push(argument);
        }
    }
    kept.sort();
    if let [only] = kept.as_slice() {
        return Ok(only.clone());
    }
    Ok(Form::atom(Atom::Function(function, kept)))
}
