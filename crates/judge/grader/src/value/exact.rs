//! Computes exact values of expressions of rational numbers.

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::{BigRational, Ratio};
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::expression::{Expression, Function};
use crate::fuel::{Fuel, OutOfFuel};

/// A rational number in machine words, enough for most exponents.
pub type Exponent = Ratio<i64>;

/// Bits of the largest numerator or denominator that is computed exactly.
pub const MAX_BITS: u64 = 1 << 15;

/// Deepest nesting of an expression; it bounds the stack.
pub const MAX_DEPTH: u32 = 500;

/// Largest argument of a factorial, and most factors of a binomial.
const MAX_FACTORS: u64 = 2000;

/// Bits of a number: the larger of numerator and denominator.
pub fn bits(value: &BigRational) -> u64 {
    value.numer().bits().max(value.denom().bits())
}

/// The exact value of an expression. `None` if a part of it is not rational, has no value or is too
/// large.
pub fn rational(
    expression: &Expression,
    fuel: &mut Fuel,
) -> Result<Option<BigRational>, OutOfFuel> {
    nested(expression, 0, fuel)
}

fn nested(
    expression: &Expression,
    depth: u32,
    fuel: &mut Fuel,
) -> Result<Option<BigRational>, OutOfFuel> {
    if depth > MAX_DEPTH {
        return Err(OutOfFuel);
    }
    fuel.spend(1)?;
    let value = match expression {
        Expression::Number(value) => value.clone(),
        Expression::Decimal(decimal) => decimal.value.clone(),
        Expression::Unknown(name, parts) if **name == *"mod" && parts.len() == 2 => {
            let dividend = nested(&parts[0], depth + 1, fuel)?.filter(BigRational::is_integer);
            let modulus = nested(&parts[1], depth + 1, fuel)?.filter(BigRational::is_integer);
            let modulus = modulus.filter(BigRational::is_positive);
            let (Some(dividend), Some(modulus)) = (dividend, modulus) else { return Ok(None) };
            pay(bits(&dividend) + bits(&modulus), fuel)?;
            BigRational::from_integer(dividend.numer().mod_floor(modulus.numer()))
        }
        Expression::Constant(_) | Expression::Symbol(_) | Expression::Unknown(..) => {
            return Ok(None);
        }
        Expression::Sum(terms) => {
            let mut sum = BigRational::zero();
            for term in terms {
                let Some(term) = nested(term, depth + 1, fuel)? else { return Ok(None) };
                pay(bits(&sum) + bits(&term), fuel)?;
                sum += term;
            }
            sum
        }
        Expression::Product(factors) => {
            let mut product = BigRational::one();
            for factor in factors {
                let Some(factor) = nested(factor, depth + 1, fuel)? else { return Ok(None) };
                pay(bits(&product) + bits(&factor), fuel)?;
                product *= factor;
                if bits(&product) > MAX_BITS {
                    return Ok(None);
                }
            }
            product
        }
        Expression::Power(power) => {
            let Some(exponent) = nested(&power.1, depth + 1, fuel)? else { return Ok(None) };
            let Some(base) = nested(&power.0, depth + 1, fuel)? else { return Ok(None) };
            return raised(&base, &exponent, fuel);
        }
        Expression::Function(function, arguments) => {
            let mut values = Vec::with_capacity(arguments.len());
            for argument in arguments {
                let Some(value) = nested(argument, depth + 1, fuel)? else { return Ok(None) };
                values.push(value);
            }
            return applied(*function, &values, fuel);
        }
    };
    Ok(Some(value).filter(|value| bits(value) <= MAX_BITS))
}

/// Pays for arithmetic with numbers of `bits` bits; reducing a fraction costs the square of that.
fn pay(bits: u64, fuel: &mut Fuel) -> Result<(), OutOfFuel> {
    fuel.spend(2 + bits.saturating_mul(bits) / 16384)
}

/// The number as an exponent, if it fits.
pub fn as_exponent(value: &BigRational) -> Option<Exponent> {
    const LARGEST: u64 = 1 << 40;
    let (numerator, denominator) = (value.numer().to_i64()?, value.denom().to_i64()?);
    (numerator.unsigned_abs() <= LARGEST && denominator.unsigned_abs() <= LARGEST)
        .then(|| Exponent::new_raw(numerator, denominator))
}

/// base^exponent. An odd root of a negative number is the real one.
fn raised(
    base: &BigRational,
    exponent: &BigRational,
    fuel: &mut Fuel,
) -> Result<Option<BigRational>, OutOfFuel> {
    if base.is_one() || exponent.is_zero() {
        return Ok(Some(BigRational::one()));
    }
    if base.is_zero() {
        return Ok(exponent.is_positive().then(BigRational::zero));
    }
    if exponent.is_integer() && (-base).is_one() {
        return Ok(Some(if exponent.numer().is_even() { -base } else { base.clone() }));
    }
    let Some(exponent) = as_exponent(exponent) else { return Ok(None) };
    pay(bits(base), fuel)?;
    let Some(root) = root(base, *exponent.denom()) else { return Ok(None) };
    let size = bits(&root).saturating_mul(exponent.numer().unsigned_abs());
    if size > MAX_BITS {
        return Ok(None);
    }
    pay(size, fuel)?;
    Ok(exponent.numer().to_i32().map(|exponent| root.pow(exponent)))
}

/// The root of a number that is rational.
fn root(value: &BigRational, degree: i64) -> Option<BigRational> {
    if degree == 1 {
        return Some(value.clone());
    }
    let degree = u32::try_from(degree).ok().filter(|&degree| degree <= 64)?;
    if value.is_negative() && degree.is_even() {
        return None;
    }
    let (above, below) = (value.numer().nth_root(degree), value.denom().nth_root(degree));
    let is_exact = above.pow(degree) == *value.numer() && below.pow(degree) == *value.denom();
    is_exact.then(|| BigRational::new(above, below))
}

/// The value of a function of rational numbers.
pub fn applied(
    function: Function,
    arguments: &[BigRational],
    fuel: &mut Fuel,
) -> Result<Option<BigRational>, OutOfFuel> {
    fuel.spend(arguments.iter().map(bits).sum::<u64>() / 64)?;
    let integer = |value: &BigRational| value.is_integer().then(|| value.to_integer());
    let integers = || arguments.iter().map(integer).collect::<Option<Vec<_>>>();
    Ok(match (function, arguments) {
        (Function::Abs, [x]) => Some(x.abs()),
        (Function::Floor, [x]) => Some(x.floor()),
        (Function::Ceiling, [x]) => Some(x.ceil()),
        (Function::Min, _) => arguments.iter().min().cloned(),
        (Function::Max, _) => arguments.iter().max().cloned(),
        (Function::Factorial, [x]) => match integer(x) {
            Some(n) => factorial(&n, fuel)?.map(BigRational::from_integer),
            None => None,
        },
        (Function::Binomial, [n, k]) => match (integer(n), integer(k)) {
            (Some(n), Some(k)) => binomial(&n, &k, fuel)?.map(BigRational::from_integer),
            _ => None,
        },
        (Function::Permutations, [n, k]) => match (integer(n), integer(k)) {
            (Some(n), Some(k)) => binomial(&n, &k, fuel)?
                .zip(factorial(&k, fuel)?)
                .map(|(chosen, orders)| BigRational::from_integer(chosen * orders)),
            _ => None,
        },
        (Function::Gcd | Function::Lcm, _) => match integers() {
            Some(integers) => gcd_or_lcm(&integers, function, fuel)?.map(BigRational::from_integer),
            None => None,
        },
        _ => None,
    })
}

/// n!; `None` if n is negative or large.
fn factorial(n: &BigInt, fuel: &mut Fuel) -> Result<Option<BigInt>, OutOfFuel> {
    let Some(n) = n.to_u64().filter(|&n| n <= MAX_FACTORS) else { return Ok(None) };
    fuel.spend(1 + n + n * n / 64)?;
    Ok(Some((2..=n).fold(BigInt::one(), |product, factor| product * factor)))
}

/// n over k; `None` if it is too large.
fn binomial(n: &BigInt, k: &BigInt, fuel: &mut Fuel) -> Result<Option<BigInt>, OutOfFuel> {
    if k.is_negative() || !n.is_negative() && k > n {
        return Ok(Some(BigInt::zero()));
    }
    // The symmetric binomial may have fewer factors.
    let k = if n.is_negative() { k.clone() } else { k.min(&(n - k)).clone() };
    let Some(count) = k.to_u64().filter(|&count| count <= MAX_FACTORS) else { return Ok(None) };
    let mut value = BigInt::one();
    for step in 0..count {
        fuel.spend(2 + value.bits() / 64)?;
        value = value * (n - step) / (step + 1);
        if value.bits() > MAX_BITS {
            return Ok(None);
        }
    }
    Ok(Some(value))
}

/// Greatest common divisor or least common multiple.
fn gcd_or_lcm(
    values: &[BigInt],
    function: Function,
    fuel: &mut Fuel,
) -> Result<Option<BigInt>, OutOfFuel> {
    let Some((first, rest)) = values.split_first() else { return Ok(None) };
    let mut result = first.abs();
    for value in rest {
        pay(result.bits() + value.bits(), fuel)?;
        result = if function == Function::Lcm { result.lcm(value) } else { result.gcd(value) };
        if result.bits() > MAX_BITS {
            return Ok(None);
        }
    }
    Ok(Some(result))
}
