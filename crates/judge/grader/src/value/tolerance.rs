//! Decides when a number written with a decimal point stands for another number.
//!
//! Two numbers without a decimal point in either are compared exactly, always. With one, they are
//! the same if they are equal, if they agree when rounded, or if one is a correct rounding of the
//! other. What is easily written exactly is not rounded: 1.23e4 is no rounding of 12345, nor 1.00
//! of 999/1000.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::complex::Complex;
use super::exact;
use crate::expression::{Decimal, Expression};

/// The tolerance of decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    /// Numbers agree when they are the same after rounding to this many decimals; numbers below 1,
    /// to this many significant digits. Values above 1000 are taken as 1000.
    pub decimals: u32,
    /// A decimal with fewer significant digits is no rounding of another number: 0.333 rounds 1/3,
    /// 0.3 does not.
    pub significant_digits: u32,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self { decimals: 6, significant_digits: 3 }
    }
}

impl Tolerance {
    /// Numbers agree only if they are equal to a thousand digits.
    pub const EXACT: Self = Self { decimals: 1000, significant_digits: 1000 };

    /// Whether two numbers agree when rounded. A decimal is part of at least one.
    pub fn agree(self, a: &BigRational, b: &BigRational) -> bool {
        self.agree_at(a, b, self.unit(&[a, b], 0))
    }

    /// [`Self::agree`] for both parts of complex numbers; the larger part sets the scale. Values of
    /// a variable expression are compared to significant digits always.
    pub fn agree_complex(self, a: Complex, b: Complex, varies: bool) -> bool {
        const MAX_BITS: i64 = 8192;
        let [a_re, a_im, b_re, b_im] =
            [a.re, a.im, b.re, b.im].map(|part| part.to_rational(MAX_BITS));
        let (Some(a_re), Some(a_im), Some(b_re), Some(b_im)) = (a_re, a_im, b_re, b_im) else {
            return false;
        };
        let largest = if varies { i64::MAX } else { 0 };
        let unit = self.unit(&[&a_re, &a_im, &b_re, &b_im], largest);
        self.agree_at(&a_re, &b_re, unit) && self.agree_at(&a_im, &b_im, unit)
    }

    /// The power of ten to which numbers of this size are rounded, as if they were below
    /// 10^`largest_size`.
    fn unit(self, values: &[&BigRational], largest_size: i64) -> i64 {
        let largest =
            values.iter().filter(|value| !value.is_zero()).map(|value| magnitude(value)).max();
        largest.unwrap_or(0).min(largest_size) - i64::from(self.decimals.min(1000))
    }

    fn agree_at(self, a: &BigRational, b: &BigRational, unit: i64) -> bool {
        let scale = power_of_ten(-unit);
        let (a, b) = (a * &scale, b * &scale);
        a.round() == b.round()
            || (a - b).abs() * BigRational::from_integer(2.into()) <= BigRational::one()
    }

    /// Whether a number is easily written exactly: an integer of few digits, or one with no more
    /// decimals than numbers must agree to.
    pub fn states(self, value: &BigRational) -> bool {
        const MAX_BITS: u64 = 64;
        let decimals = self.decimals.min(1000);
        // A divisor of 10^k has no more than 4k bits.
        exact::bits(value) <= MAX_BITS.max(4 * u64::from(decimals))
            && (value * power_of_ten(decimals.into())).is_integer()
    }

    /// Whether a decimal as written is a correct rounding of a number.
    pub fn rounds(self, decimal: &Decimal, value: &BigRational) -> bool {
        const MAX_DIGITS: i64 = 2000;
        let last_digit = i64::from(decimal.last_digit);
        if decimal.value.is_zero() || last_digit.abs() > MAX_DIGITS {
            return false;
        }
        let significant = magnitude(&decimal.value).saturating_sub(last_digit);
        let twice_the_error = (&decimal.value - value).abs() * BigRational::from_integer(2.into());
        significant >= i64::from(self.significant_digits)
            && twice_the_error <= power_of_ten(last_digit)
    }
}

/// The k for which the magnitude of a nonzero number is below 10^k, and not below 10^(k-1).
fn magnitude(value: &BigRational) -> i64 {
    let value = value.abs();
    let bits = value.numer().bits() as f64 - value.denom().bits() as f64;
    let mut k = (bits * std::f64::consts::LOG10_2).floor() as i64;
    while value >= power_of_ten(k) {
        k += 1;
    }
    while value < power_of_ten(k - 1) {
        k -= 1;
    }
    k
}

fn power_of_ten(exponent: i64) -> BigRational {
    let power = BigRational::from_integer(
        BigInt::from(10).pow(exponent.unsigned_abs().to_u32().unwrap_or(0)),
    );
    if exponent < 0 { power.recip() } else { power }
}

/// Whether an expression is an integer that is written out.
pub fn is_integer_literal(expression: &Expression) -> bool {
    matches!(expression, Expression::Number(value) if value.is_integer())
}

/// Whether a decimal is a part of an expression.
pub fn has_decimal(expression: &Expression) -> bool {
    expression.any(&|part| matches!(part, Expression::Decimal(_)))
}

/// The decimal that an expression consists of, perhaps with a minus, or in hundredths: -2.5,
/// 33.3/100.
pub fn literal(expression: &Expression) -> Option<Decimal> {
    let factors = match expression {
        Expression::Decimal(decimal) => return Some(decimal.clone()),
        Expression::Product(factors) => factors,
        _ => return None,
    };
    match &factors[..] {
        [sign, Expression::Decimal(decimal)] if *sign == Expression::integer(-1) => {
            Some(Decimal { value: -&decimal.value, ..*decimal })
        }
        [number, percent] if percent.divisor() == Some(&Expression::integer(100)) => {
            Some(literal(number)?.shifted(-2))
        }
        _ => None,
    }
}
