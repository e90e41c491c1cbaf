//! Powers and roots of canonical forms.
//!
//! Roots are split as if what is under them were positive: sqrt(x y) is sqrt(x) sqrt(y), and x^(2/3) the square of the
//! cube root. A root of a square stays as it is, since sqrt(x^2) is not x, and so does one of a negative multiple. An
//! odd root of a negative number is the real one: (-8)^(1/3) is -2.

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};

use super::failure::Failure;
use super::form::Form;
use super::monomial::{Atom, MAX_EXPANDED, Monomial, Multiplied, Shared};
use super::number::{self, Exponent};
use super::polynomial::Polynomial;
use crate::expression::Function;
use crate::fuel::Fuel;

/// Terms that the power of a sum may have if it is multiplied out.
const MAX_TERMS: u64 = 300;

/// base^exponent.
pub fn raise(base: &Form, exponent: &Form, fuel: &mut Fuel) -> Result<Form, Failure> {
    fuel.spend(1)?;
    if let Some(value) = exponent.as_rational() {
        if let Some(small) = number::as_exponent(&value)
            && let Some(power) = rational_power(base, small, fuel)?
        {
            return Ok(power);
        }
        if base.is_zero() {
            return if value.is_positive() { Ok(Form::integer(0)) } else { Err(Failure::Undefined) };
        }
        return Ok(Form::atom(Atom::Power(base.clone(), exponent.clone())));
    }
    if base.is_zero() {
        return Err(Failure::Undefined);
    }
    let Some(polynomial) = exponent.as_polynomial() else {
        return general_power(base, exponent, &BigRational::one(), fuel);
    };
    // b^(c m + d n) is (b^m)^c (b^n)^d.
    let mut power = Form::integer(1);
    for (monomial, coefficient) in polynomial.terms() {
        let factor = if monomial.is_one() {
            raise(base, &Form::rational(coefficient.clone()), fuel)?
        } else {
            let unit = Form::from(Polynomial::term(monomial.clone(), BigRational::one()));
            general_power(base, &unit, coefficient, fuel)?
        };
        power = power.times(&factor, fuel)?;
    }
    Ok(power)
}

/// base^(coefficient * exponent), where the exponent is no rational number.
fn general_power(
    base: &Form,
    exponent: &Form,
    coefficient: &BigRational,
    fuel: &mut Fuel,
) -> Result<Form, Failure> {
    if let Some((monomial, factor)) = base.as_term() {
        // Numbers: each prime has its own power, so that 6^x is 2^x 3^x and (1/2)^x is 2^-x.
        if base.is_positive_constant() || monomial.is_one() {
            let mut power = Form::integer(1);
            for (prime, of_prime) in factors(factor, fuel)? {
                let coefficient = coefficient * BigRational::from_integer(of_prime.into());
                let prime = Form::rational(BigRational::from_integer(prime));
                power = power.times(&atomic_power(prime, exponent, &coefficient, fuel)?, fuel)?;
            }
            for (atom, of_atom) in &monomial.0 {
                let of_atom = BigRational::new((*of_atom.numer()).into(), (*of_atom.denom()).into());
                let atom = match &**atom {
                    Atom::Integer(value) => Form::rational(BigRational::from_integer(value.clone())),
                    Atom::Pi => Form::atom(Atom::Pi),
                    _ => Form::atom(Atom::E),
                };
                let coefficient = coefficient * of_atom;
                power = power.times(&atomic_power(atom, exponent, &coefficient, fuel)?, fuel)?;
            }
            return Ok(power);
        }
    }
    atomic_power(base.clone(), exponent, coefficient, fuel)
}

/// base^(coefficient * exponent), where the base is taken as a whole.
fn atomic_power(
    base: Form,
    exponent: &Form,
    coefficient: &BigRational,
    fuel: &mut Fuel,
) -> Result<Form, Failure> {
    if coefficient.is_zero() {
        return Ok(Form::integer(1));
    }
    let small = number::as_exponent(coefficient);
    if let (true, Some(small)) = (matches!(base.as_atom(), Some(Atom::E)), small)
        && let Some(power) = exponential(exponent, small, fuel)?
    {
        return Ok(power);
    }
    match small.filter(|small| small.is_integer() || base.is_positive_constant()) {
        Some(small) => Ok(Form::atom_power(Atom::Power(base, exponent.clone()), small)),
        None => Ok(Form::atom(Atom::Power(base, exponent.times_rational(coefficient, fuel)?))),
    }
}

/// e^(coefficient * exponent) where that is no exponential: of a logarithm, or of a multiple of i pi.
fn exponential(exponent: &Form, coefficient: Exponent, fuel: &mut Fuel) -> Result<Option<Form>, Failure> {
    if let Some(Atom::Function(Function::Ln, arguments)) = exponent.as_atom()
        && let [argument] = arguments.as_slice()
    {
        return rational_power(argument, coefficient, fuel);
    }
    let Some((monomial, _)) = exponent.as_term() else { return Ok(None) };
    match monomial.0.as_slice() {
        [(minus_one, half), (pi, one)]
            if *half == Exponent::new_raw(1, 2)
                && one.is_one()
                && **pi == Atom::Pi
                && matches!(&**minus_one, Atom::Integer(value) if value.is_negative()) =>
        {
            Ok(Some(power_of_minus_one(coefficient, fuel)?))
        }
        _ => Ok(None),
    }
}

/// e^(i pi exponent).
fn power_of_minus_one(exponent: Exponent, fuel: &mut Fuel) -> Result<Form, Failure> {
    let minus_one = Monomial(vec![(Shared::new(Atom::Integer((-1).into())), Exponent::one())]);
    multiplied(minus_one.power(exponent, fuel)?, fuel)
}

/// base^exponent; `None` if that is too large.
fn rational_power(base: &Form, exponent: Exponent, fuel: &mut Fuel) -> Result<Option<Form>, Failure> {
    if exponent.is_zero() {
        return Ok(Some(Form::integer(1)));
    }
    if base.is_zero() {
        return if exponent.is_positive() { Ok(Some(Form::integer(0))) } else { Err(Failure::Undefined) };
    }
    if let Some(value) = base.as_rational()
        && exponent.is_integer()
    {
        return Ok(number::power(&value, *exponent.numer(), fuel)?.map(Form::rational));
    }
    let Some(numerator) = polynomial_power(base.numerator(), exponent, fuel)? else { return Ok(None) };
    if base.as_polynomial().is_some() {
        return Ok(Some(numerator));
    }
    let Some(denominator) = polynomial_power(base.denominator(), exponent, fuel)? else { return Ok(None) };
    Ok(Some(numerator.over(&denominator, fuel)?))
}

fn polynomial_power(base: &Polynomial, exponent: Exponent, fuel: &mut Fuel) -> Result<Option<Form>, Failure> {
    if let Some((monomial, coefficient)) = base.as_term() {
        return term_power(monomial, coefficient, exponent, fuel);
    }
    let mut content = base.content(fuel)?;
    if content.is_negative() && exponent.denom().is_even() {
        content = -content;
    }
    let Some(scale) = number_power(&content, exponent, fuel)? else { return Ok(None) };
    let group = base.times_rational(&content.recip(), fuel)?;
    let whole = exponent.numer().div_floor(exponent.denom());
    let (whole, root) = if is_expanded(&group, whole) {
        let power = group.power(whole.unsigned_abs(), fuel)?.into();
        (if whole < 0 { Form::integer(1).over(&power, fuel)? } else { power }, exponent - whole)
    } else {
        (Form::integer(1), exponent)
    };
    let root = Form::atom_power(Atom::Group(group), root);
    Ok(Some(whole.times(&root, fuel)?.times(&scale, fuel)?))
}

/// Whether a sum to this power is multiplied out.
fn is_expanded(base: &Polynomial, exponent: i64) -> bool {
    if exponent.abs() > MAX_EXPANDED {
        return false;
    }
    // Powers of sums of roots have no more terms than there are products of the roots.
    if !base.any_atom(&mut |atom| !matches!(atom, Atom::Integer(_))) {
        return true;
    }
    let terms = base.terms().len() as u64;
    // A power of n terms has (n + k - 1 over k) terms.
    let mut count = 1u64;
    for k in 1..=exponent.unsigned_abs() {
        count = count * (terms + k - 1) / k;
        if count > MAX_TERMS {
            return false;
        }
    }
    true
}

fn term_power(
    monomial: &Monomial,
    coefficient: &BigRational,
    exponent: Exponent,
    fuel: &mut Fuel,
) -> Result<Option<Form>, Failure> {
    // Atoms whose powers' powers are the powers by the product; any whole power does.
    let mut split = Monomial::default();
    let mut kept = Monomial::default();
    for (atom, own) in &monomial.0 {
        let multiplies = exponent.is_integer()
            || atom.is_positive()
            || matches!(**atom, Atom::Integer(_))
            || *own <= Exponent::one() && *own >= -Exponent::one()
            || exponent.denom().is_odd() && own.denom().is_odd();
        if multiplies { &mut split } else { &mut kept }.0.push((atom.clone(), *own));
    }
    // A negative number stays under an even root with what may be negative as well.
    let is_constant = split.0.iter().all(|(atom, _)| atom.is_positive()) && kept.is_one();
    let keeps_sign = coefficient.is_negative() && exponent.denom().is_even() && !is_constant;
    let mut coefficient = coefficient.clone();
    if keeps_sign {
        coefficient = -coefficient;
        let (positive, other) = split.0.into_iter().partition(|(atom, _)| atom.is_positive());
        split = Monomial(positive);
        kept.0.extend::<Vec<_>>(other);
        kept.0.sort();
    }
    let Some(number) = number_power(&coefficient, exponent, fuel)? else { return Ok(None) };
    let Some(power) = split.power(exponent, fuel)? else { return Ok(None) };
    let power = multiplied(Some(power), fuel)?.times(&number, fuel)?;
    if kept.is_one() && !keeps_sign {
        return Ok(Some(power));
    }
    let sign = if keeps_sign { -BigRational::one() } else { BigRational::one() };
    let group = Polynomial::term(kept, sign);
    let whole = exponent.numer().div_floor(exponent.denom());
    let Some(whole_power) = rational_power(&group.clone().into(), whole.into(), fuel)? else {
        return Ok(None);
    };
    let root = Form::atom_power(Atom::Group(group), exponent - whole);
    Ok(Some(power.times(&whole_power, fuel)?.times(&root, fuel)?))
}

/// The form that a product of monomials is.
fn multiplied(product: Option<Multiplied>, fuel: &mut Fuel) -> Result<Form, Failure> {
    let product = product.ok_or(Failure::OutOfFuel)?;
    let mut form = Form::from(Polynomial::term(product.monomial, product.factor));
    for (atom, exponent) in product.expand {
        if let Atom::Group(base) = &*atom {
            let power = base.power(exponent.unsigned_abs(), fuel)?.into();
            form = if exponent < 0 { form.over(&power, fuel)? } else { form.times(&power, fuel)? };
        }
    }
    Ok(form)
}

/// A rational number's power as a product of powers of primes; `None` if it is too large.
fn number_power(value: &BigRational, exponent: Exponent, fuel: &mut Fuel) -> Result<Option<Form>, Failure> {
    if value.is_one() {
        return Ok(Some(Form::integer(1)));
    }
    if exponent.is_integer() {
        return Ok(number::power(value, *exponent.numer(), fuel)?.map(Form::rational));
    }
    let size = number::bits(value).saturating_mul(exponent.numer().unsigned_abs());
    if size / exponent.denom().unsigned_abs() > number::MAX_BITS {
        return Ok(None);
    }
    let mut power = Form::integer(1);
    for (prime, of_prime) in factors(value, fuel)? {
        let factor = if prime.is_negative() && exponent.denom().is_odd() {
            // The real root.
            Form::integer(if exponent.numer().is_odd() { -1 } else { 1 })
        } else {
            let base = Monomial(vec![(Shared::new(Atom::Integer(prime)), Exponent::from_integer(of_prime))]);
            multiplied(base.power(exponent, fuel)?, fuel)?
        };
        power = power.times(&factor, fuel)?;
    }
    Ok(Some(power))
}

/// A rational number that is not zero as powers of primes, and of -1 if it is negative.
fn factors(value: &BigRational, fuel: &mut Fuel) -> Result<Vec<(BigInt, i64)>, Failure> {
    let mut factors = Vec::new();
    if value.is_negative() {
        factors.push((BigInt::from(-1), 1));
    }
    factors.extend(number::factorise(value.numer(), fuel)?);
    factors.extend(number::factorise(value.denom(), fuel)?.into_iter().map(|(prime, power)| (prime, -power)));
    Ok(factors)
}
