//! Rational arithmetic that is paid for and bounded in size, and the factorisation of integers.

use num_bigint::{BigInt, BigUint};
use num_integer::Integer;
use num_rational::{BigRational, Ratio};
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::failure::Failure;
use crate::fuel::Fuel;

/// A rational number that fits the machine, as exponents do.
pub type Exponent = Ratio<i64>;

/// Bits of the largest numerator or denominator that is computed with.
pub const MAX_BITS: u64 = 1 << 15;

/// Primes up to here are found in integers, which is enough for what people write.
const TRIAL_LIMIT: u32 = 1 << 12;

/// Bits of a number: the larger of numerator and denominator.
pub fn bits(value: &BigRational) -> u64 {
    value.numer().bits().max(value.denom().bits())
}

/// Pays for arithmetic with numbers of so many bits; reducing a fraction costs the square of them.
fn pay(bits: u64, fuel: &mut Fuel) -> Result<(), Failure> {
    if bits > 2 * MAX_BITS {
        return Err(Failure::OutOfFuel);
    }
    Ok(fuel.spend(2 + bits * bits / 2048)?)
}

/// a + b.
pub fn add(a: &BigRational, b: &BigRational, fuel: &mut Fuel) -> Result<BigRational, Failure> {
    if a.is_integer() && b.is_integer() {
        fuel.spend(2 + (bits(a) + bits(b)) / 1024)?;
        return Ok(BigRational::from_integer(a.numer() + b.numer()));
    }
    pay(bits(a) + bits(b), fuel)?;
    Ok(a + b)
}

/// a * b.
pub fn multiply(a: &BigRational, b: &BigRational, fuel: &mut Fuel) -> Result<BigRational, Failure> {
    if a.is_one() {
        return Ok(b.clone());
    }
    if b.is_one() {
        return Ok(a.clone());
    }
    if bits(a) + bits(b) > 2 * MAX_BITS {
        return Err(Failure::OutOfFuel);
    }
    // Nothing is to be reduced.
    if a.is_integer() && b.is_integer() {
        fuel.spend(2 + bits(a) * bits(b) / 65536)?;
        return Ok(BigRational::from_integer(a.numer() * b.numer()));
    }
    pay(bits(a) + bits(b), fuel)?;
    Ok(a * b)
}

/// base^exponent; `None` if that is too large to be computed with.
pub fn power(base: &BigRational, exponent: i64, fuel: &mut Fuel) -> Result<Option<BigRational>, Failure> {
    if base.is_zero() && exponent < 0 {
        return Err(Failure::Undefined);
    }
    if base.is_zero() || base.is_one() || exponent == 0 {
        return Ok(Some(if exponent == 0 { BigRational::one() } else { base.clone() }));
    }
    let Some(size) = bits(base).checked_mul(exponent.unsigned_abs()).filter(|&size| size <= MAX_BITS) else {
        // -1 has a power, however large.
        let is_minus_one = (-base).is_one();
        return Ok(is_minus_one.then(|| if exponent % 2 == 0 { -base } else { base.clone() }));
    };
    pay(size, fuel)?;
    Ok(exponent.to_i32().map(|exponent| base.pow(exponent)))
}

/// The number as an exponent of an atom, if it is not too large for that.
pub fn as_exponent(value: &BigRational) -> Option<Exponent> {
    const LARGEST: u64 = 1 << 40;
    let (numerator, denominator) = (value.numer().to_i64()?, value.denom().to_i64()?);
    (numerator.unsigned_abs() <= LARGEST && denominator.unsigned_abs() <= LARGEST)
        .then(|| Exponent::new_raw(numerator, denominator))
}

/// A positive integer as powers of primes in ascending order. The last factor is what trial division leaves, which may
/// not be prime; it is given as a root's base if it is a square or a cube.
pub fn factorise(value: &BigInt, fuel: &mut Fuel) -> Result<Vec<(BigInt, i64)>, Failure> {
    let mut factors = Vec::new();
    let mut rest = value.magnitude().clone();
    let mut divisor = 2u32;
    while !rest.is_one() && divisor < TRIAL_LIMIT {
        if let Some(small) = rest.to_u64() {
            return small_factors(small, divisor, factors, fuel);
        }
        fuel.spend(1 + rest.bits() / 1024)?;
        let mut exponent = 0;
        while (&rest % divisor).is_zero() {
            fuel.spend(1 + rest.bits() / 1024)?;
            rest /= divisor;
            exponent += 1;
        }
        if exponent > 0 {
            factors.push((divisor.into(), exponent));
        }
        divisor += if divisor == 2 { 1 } else { 2 };
    }
    push_rest(&mut factors, rest, fuel)?;
    Ok(factors)
}

/// The rest of a factorisation, in machine words.
fn small_factors(
    mut rest: u64,
    from: u32,
    mut factors: Vec<(BigInt, i64)>,
    fuel: &mut Fuel,
) -> Result<Vec<(BigInt, i64)>, Failure> {
    let mut divisor = u64::from(from);
    while divisor < u64::from(TRIAL_LIMIT) && divisor * divisor <= rest {
        let mut exponent = 0;
        while rest.is_multiple_of(divisor) {
            rest /= divisor;
            exponent += 1;
        }
        if exponent > 0 {
            factors.push((divisor.into(), exponent));
        }
        divisor += if divisor == 2 { 1 } else { 2 };
    }
    fuel.spend(1 + divisor / 32)?;
    push_rest(&mut factors, rest.into(), fuel)?;
    Ok(factors)
}

fn push_rest(factors: &mut Vec<(BigInt, i64)>, rest: BigUint, fuel: &mut Fuel) -> Result<(), Failure> {
    if rest.is_one() {
        return Ok(());
    }
    // Without a divisor below the limit, a number below its square is prime.
    if rest.bits() > 24 {
        fuel.spend(4 + rest.bits() * rest.bits() / 4096)?;
        for degree in [2, 3] {
            let root = rest.nth_root(degree);
            if root.pow(degree) == rest {
                factors.push((root.into(), degree.into()));
                return Ok(());
            }
        }
    }
    factors.push((rest.into(), 1));
    Ok(())
}

/// Whether a factor that [`factorise`] gave is surely a prime number, or -1.
pub fn is_certainly_prime(factor: &BigInt) -> bool {
    factor.is_negative() || factor.bits() <= 24
}

/// n!; `None` if that is too large to be computed with.
pub fn factorial(n: &BigInt, fuel: &mut Fuel) -> Result<Option<BigInt>, Failure> {
    const LARGEST: u64 = 2000;
    let Some(n) = n.to_u64().filter(|&n| n <= LARGEST) else { return Ok(None) };
    fuel.spend(1 + n + n * n / 64)?;
    Ok(Some((2..=n).fold(BigInt::one(), |product, factor| product * factor)))
}

/// Greatest common divisor or least common multiple of integers.
pub fn gcd_or_lcm(values: &[BigInt], least_multiple: bool, fuel: &mut Fuel) -> Result<BigInt, Failure> {
    let mut values = values.iter();
    let mut result = values.next().ok_or(Failure::Undefined)?.abs();
    for value in values {
        pay(result.bits() + value.bits(), fuel)?;
        result = if least_multiple { result.lcm(value) } else { result.gcd(value) };
    }
    Ok(result)
}
