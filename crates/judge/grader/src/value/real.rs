//! Real numbers of 256 bits with a bound on their rounding error.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};
use num_rational::BigRational;
use num_traits::{Signed, Zero};

/// Bits of a mantissa.
const BITS: i64 = 256;

/// The error bound of a number without error, and the exponent of zero.
const NONE: i64 = i64::MIN / 4;

/// Doublings of the error bound that cover the number of operations: an operation takes the larger
/// bound of its operands, not their sum, so after n operations the error may be n times the bound.
const SLACK: i64 = 32;

/// A floating-point number: sign * mantissa / 2^256 * 2^exponent, where the mantissa's first bit is
/// set, or zero.
#[derive(Clone, Copy, Debug)]
pub struct Real {
    negative: bool,
    exponent: i64,
    /// Least significant word first.
    mantissa: [u64; 4],
    /// The error is at most about 2^noise, see [`SLACK`].
    noise: i64,
}

impl Real {
    pub const ZERO: Self = Self { negative: false, exponent: NONE, mantissa: [0; 4], noise: NONE };

    pub fn integer(value: i64) -> Self {
        let word = value.unsigned_abs();
        Self { negative: value < 0, exponent: BITS, mantissa: [word, 0, 0, 0], noise: NONE }
            .normalised()
    }

    /// The exact value of an f64, or 0 for infinities and NaN: a first guess.
    pub fn guess(value: f64) -> Self {
        let (fraction, exponent) = libm::frexp(value);
        if !fraction.is_finite() {
            return Self::ZERO;
        }
        Self::integer((fraction * (1u64 << 53) as f64) as i64).scaled(i64::from(exponent) - 53)
    }

    /// The nearest number, or almost.
    pub fn rational(value: &BigRational) -> Self {
        let (numerator, denominator) = (value.numer().magnitude(), value.denom().magnitude());
        // The shift is large enough for all bits of the quotient.
        let shift = (BITS + 2 - numerator.bits() as i64 + denominator.bits() as i64).max(0);
        let shifted = numerator << shift;
        let quotient = &shifted / denominator;
        let inexact = &quotient * denominator != shifted;
        let excess = quotient.bits() as i64 - BITS;
        let (words, lost) = if excess > 0 {
            let kept = &quotient >> excess;
            let lost = (&kept << excess) != quotient;
            (kept, lost)
        } else {
            (quotient, false)
        };
        let mut mantissa = [0; 4];
        for (word, digit) in mantissa.iter_mut().zip(words.to_u64_digits()) {
            *word = digit;
        }
        let number = Self {
            negative: value.is_negative(),
            exponent: BITS + excess.max(0) - shift,
            mantissa,
            noise: NONE,
        }
        .normalised();
        if inexact || lost { number.with_noise(number.exponent - BITS) } else { number }
    }

    /// The number's bits as a fraction; `None` if that would have more than `limit` bits.
    pub fn to_rational(self, limit: i64) -> Option<BigRational> {
        if self.is_zero() {
            return Some(BigRational::zero());
        }
        let shift = self.exponent.saturating_sub(BITS);
        if shift.saturating_abs() > limit {
            return None;
        }
        let words =
            self.mantissa.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]).collect();
        let sign = if self.negative { Sign::Minus } else { Sign::Plus };
        let mantissa = BigInt::new(sign, words);
        Some(if shift >= 0 {
            BigRational::from_integer(mantissa << shift)
        } else {
            BigRational::new(mantissa, BigInt::from(1) << -shift)
        })
    }

    /// The nearest f64, or almost; infinite beyond the range of f64.
    pub fn to_f64(self) -> f64 {
        let fraction = self.mantissa[3] as f64 / (u64::MAX as f64 + 1.0);
        let magnitude = libm::ldexp(fraction, self.exponent.clamp(-2000, 2000) as i32);
        if self.negative { -magnitude } else { magnitude }
    }

    /// The exponent e for which the magnitude is below 2^e, and not below half of that.
    pub fn exponent(self) -> i64 {
        self.exponent
    }

    /// Power of two of the largest error that the number may have.
    pub fn error(self) -> i64 {
        if self.noise == NONE { NONE } else { self.noise.saturating_add(SLACK) }
    }

    /// Whether the stored number is zero, exactly or not.
    pub fn is_zero(self) -> bool {
        self.mantissa == [0; 4]
    }

    /// Whether the number is known to be zero.
    pub fn is_exact_zero(self) -> bool {
        self.is_zero() && self.noise == NONE
    }

    /// The certain sign of the number; None if the error covers it, unless it is exactly zero.
    pub fn sign(self) -> Option<Ordering> {
        if self.is_exact_zero() {
            Some(Ordering::Equal)
        } else if self.is_zero() || self.exponent <= self.error() {
            None
        } else if self.negative {
            Some(Ordering::Less)
        } else {
            Some(Ordering::Greater)
        }
    }

    /// Whether the smaller of two numbers, which is not zero, is lost in the rounding of their sum.
    pub fn loses(self, other: Self) -> bool {
        let small = if self.exponent < other.exponent { self } else { other };
        small.sign().is_some_and(Ordering::is_ne) && small.exponent <= (self + other).error()
    }

    /// The number with this error bound instead of its own.
    pub fn with_noise(self, noise: i64) -> Self {
        Self { noise, ..self }
    }

    /// The number, as if it were exact.
    pub fn exact(self) -> Self {
        self.with_noise(NONE)
    }

    pub fn magnitude(self) -> Self {
        Self { negative: false, ..self }
    }

    /// Times 2^power, exactly.
    pub fn scaled(self, power: i64) -> Self {
        let scale = |value: i64| if value == NONE { NONE } else { value.saturating_add(power) };
        Self { exponent: scale(self.exponent), noise: scale(self.noise), ..self }
    }

    /// 1/self; `None` if the error covers zero.
    pub fn reciprocal(self) -> Option<Self> {
        self.sign().filter(|sign| sign.is_ne())?;
        let mantissa = Self { negative: false, exponent: 0, ..self }.exact();
        let mut inverse = Self::guess(1.0 / mantissa.to_f64());
        // Newton's iteration doubles the right bits: 52, 104, 208, all.
        for _ in 0..3 {
            inverse = (inverse * (Self::integer(2) - mantissa * inverse)).exact();
        }
        let exponent = inverse.exponent.saturating_sub(self.exponent);
        let propagated =
            bound(self.noise.saturating_sub(self.exponent.saturating_mul(2)).saturating_add(2));
        Some(Self {
            negative: self.negative,
            exponent,
            noise: propagated.max(exponent - BITS + 4),
            ..inverse
        })
    }

    /// The square root of a number that is certainly positive, or exactly zero.
    pub fn square_root(self) -> Option<Self> {
        match self.sign()? {
            Ordering::Equal => return Some(Self::ZERO),
            Ordering::Less => return None,
            Ordering::Greater => {}
        }
        let half = self.exponent.div_euclid(2);
        let mantissa = Self { exponent: self.exponent - 2 * half, ..self }.exact();
        // Newton's iteration for 1/sqrt.
        let mut inverse = Self::guess(1.0 / mantissa.to_f64().sqrt());
        for _ in 0..3 {
            inverse =
                (inverse * (Self::integer(3) - mantissa * inverse * inverse)).scaled(-1).exact();
        }
        let root = (mantissa * inverse).scaled(half);
        let propagated = bound(self.noise.saturating_sub(half).saturating_add(1));
        Some(root.with_noise(propagated.max(root.exponent - BITS + 4)))
    }

    fn normalised(mut self) -> Self {
        if self.is_zero() {
            return Self { negative: false, exponent: NONE, ..self };
        }
        while self.mantissa[3] == 0 {
            self.mantissa = [0, self.mantissa[0], self.mantissa[1], self.mantissa[2]];
            self.exponent = self.exponent.saturating_sub(64);
        }
        let shift = self.mantissa[3].leading_zeros();
        if shift > 0 {
            let [a, b, c, d] = self.mantissa;
            self.mantissa = [
                a << shift,
                b << shift | a >> (64 - shift),
                c << shift | b >> (64 - shift),
                d << shift | c >> (64 - shift),
            ];
            self.exponent = self.exponent.saturating_sub(i64::from(shift));
        }
        self
    }
}

/// An error bound, or [`NONE`] if it was computed from no error.
fn bound(noise: i64) -> i64 {
    if noise < NONE / 2 { NONE } else { noise }
}

/// Number of zero bits at a mantissa's end.
fn trailing_zeros(mantissa: [u64; 4]) -> i64 {
    let zero_words = mantissa.iter().take_while(|&&word| word == 0).count();
    mantissa
        .get(zero_words)
        .map_or(BITS, |word| 64 * zero_words as i64 + i64::from(word.trailing_zeros()))
}

/// A mantissa shifted towards its end by less than 256 bits.
fn shifted(mantissa: [u64; 4], bits: u32) -> [u64; 4] {
    let (words, bits) = ((bits / 64) as usize, bits % 64);
    std::array::from_fn(|i| {
        let word = |i: usize| mantissa.get(i + words).copied().unwrap_or(0);
        if bits == 0 { word(i) } else { word(i) >> bits | word(i + 1) << (64 - bits) }
    })
}

impl std::ops::Neg for Real {
    type Output = Self;

    fn neg(self) -> Self {
        Self { negative: !self.negative && !self.is_zero(), ..self }
    }
}

impl std::ops::Add for Real {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let noise = self.noise.max(other.noise);
        if self.is_zero() || other.is_zero() {
            return if self.is_zero() { other } else { self }.with_noise(noise);
        }
        let order = self.exponent.cmp(&other.exponent);
        let order = order.then_with(|| self.mantissa.iter().rev().cmp(other.mantissa.iter().rev()));
        let (large, small) = if order.is_ge() { (self, other) } else { (other, self) };
        let rounded = noise.max(large.exponent.saturating_sub(BITS));
        let distance = large.exponent.saturating_sub(small.exponent);
        if distance >= BITS {
            return large.with_noise(rounded);
        }
        // A sum of short numbers loses no bit, not even to a carry.
        let noise = if distance < trailing_zeros(small.mantissa) { noise } else { rounded };
        let addend = shifted(small.mantissa, distance as u32);
        let mut mantissa = large.mantissa;
        if large.negative == small.negative {
            let mut carry = false;
            for (word, &other) in mantissa.iter_mut().zip(&addend) {
                let (sum, first) = word.overflowing_add(other);
                let (sum, second) = sum.overflowing_add(u64::from(carry));
                (*word, carry) = (sum, first || second);
            }
            if carry {
                mantissa = shifted(mantissa, 1);
                mantissa[3] |= 1 << 63;
                return Self {
                    exponent: large.exponent.saturating_add(1),
                    mantissa,
                    noise,
                    ..large
                };
            }
        } else {
            let mut borrow = false;
            for (word, &other) in mantissa.iter_mut().zip(&addend) {
                let (difference, first) = word.overflowing_sub(other);
                let (difference, second) = difference.overflowing_sub(u64::from(borrow));
                (*word, borrow) = (difference, first || second);
            }
        }
        Self { mantissa, noise, ..large }.normalised()
    }
}

impl std::ops::Sub for Real {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl std::ops::Mul for Real {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        if self.is_exact_zero() || other.is_exact_zero() {
            return Self::ZERO;
        }
        let propagated =
            |from: Self, to: Self| bound(from.noise.saturating_add(to.exponent.max(to.noise)));
        let noise = propagated(self, other).max(propagated(other, self));
        if self.is_zero() || other.is_zero() {
            return Self::ZERO.with_noise(noise);
        }
        let mut product = [0u64; 8];
        for (i, &a) in self.mantissa.iter().enumerate() {
            let mut carry = 0u128;
            for (j, &b) in other.mantissa.iter().enumerate() {
                let sum = u128::from(a) * u128::from(b) + u128::from(product[i + j]) + carry;
                product[i + j] = sum as u64;
                carry = sum >> 64;
            }
            product[i + 4] = carry as u64;
        }
        // A power of two loses nothing.
        let lossless = product[..4] == [0; 4];
        let number = Self {
            negative: self.negative != other.negative,
            exponent: self.exponent.saturating_add(other.exponent),
            mantissa: [product[4], product[5], product[6], product[7]],
            noise,
        }
        .normalised();
        if lossless {
            number
        } else {
            number.with_noise(noise.max(number.exponent.saturating_sub(BITS)))
        }
    }
}
