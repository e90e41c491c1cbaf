//! Remainders: `12 \bmod 7` is 5, and `5 \pmod 7` says 5.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, Zero};

use super::super::expression::Expression;
use super::super::fuel::{Fuel, OutOfFuel};

/// The parts of `a \bmod m` and `a \pmod m`, and whether it is the latter: a congruence rather than an operation.
pub(super) fn parts(expression: &Expression) -> Option<(&Expression, &Expression, bool)> {
    match expression {
        Expression::Unknown(name, parts) if matches!(&**name, "mod" | "pmod") => {
            let [dividend, modulus] = &parts[..] else { return None };
            Some((dividend, modulus, **name == *"pmod"))
        }
        _ => None,
    }
}

/// The remainder that `a \bmod m` is, or that `a \pmod m` gives as it stands, which is one from 0 to m - 1; `None` of
/// anything else, and where a is not made of integers by sums, products and powers.
///
/// # Errors
/// [`OutOfFuel`].
pub(super) fn remainder(expression: &Expression, fuel: &mut Fuel) -> Result<Option<Expression>, OutOfFuel> {
    let Some((dividend, modulus, is_congruence)) = parts(expression) else { return Ok(None) };
    let Some(modulus) = integer(modulus).filter(|modulus| modulus.is_positive()) else { return Ok(None) };
    if is_congruence {
        let is_reduced = integer(dividend).is_some_and(|value| !value.is_negative() && value < modulus);
        return Ok(is_reduced.then(|| dividend.clone()));
    }
    Ok(residue(dividend, modulus, fuel)?.map(Expression::integer))
}

fn integer(expression: &Expression) -> Option<&BigInt> {
    match expression {
        Expression::Number(number) if number.is_integer() => Some(number.numer()),
        _ => None,
    }
}

/// What is left of an expression of integers when it is divided by a positive modulus.
fn residue(expression: &Expression, modulus: &BigInt, fuel: &mut Fuel) -> Result<Option<BigInt>, OutOfFuel> {
    let words = 1 + modulus.bits() / 64;
    fuel.spend(words * words)?;
    match expression {
        Expression::Sum(terms) => {
            let mut sum = BigInt::zero();
            for term in terms {
                let Some(term) = residue(term, modulus, fuel)? else { return Ok(None) };
                sum = (sum + term).mod_floor(modulus);
            }
            Ok(Some(sum))
        }
        Expression::Product(factors) => {
            let mut product = BigInt::from(1).mod_floor(modulus);
            for factor in factors {
                let Some(factor) = residue(factor, modulus, fuel)? else { return Ok(None) };
                product = (product * factor).mod_floor(modulus);
            }
            Ok(Some(product))
        }
        Expression::Power(power) => {
            let Some(exponent) = integer(&power.1).filter(|exponent| exponent.is_positive()) else {
                return Ok(None);
            };
            let Some(base) = residue(&power.0, modulus, fuel)? else { return Ok(None) };
            fuel.spend(exponent.bits().saturating_mul(words * words))?;
            Ok(Some(base.modpow(exponent, modulus)))
        }
        other => {
            let Some(value) = integer(other) else { return Ok(None) };
            fuel.spend(words * (1 + value.bits() / 64))?;
            Ok(Some(value.mod_floor(modulus)))
        }
    }
}
