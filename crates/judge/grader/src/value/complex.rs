//! Complex numbers of 256 bits and their elementary functions. Logarithms, broken powers and inverse
//! functions have real arguments only. The square root of a negative number is imaginary.

use std::cmp::Ordering;
use std::sync::LazyLock;

use num_bigint::BigInt;
use num_rational::BigRational;

use super::exact::Exponent;
use super::real::Real;

/// A complex number.
#[derive(Clone, Copy, Debug)]
pub struct Complex {
    pub re: Real,
    /// Imaginary part; of a real number zero exactly.
    pub im: Real,
}

/// Pi, e and the natural logarithm of 2.
static PI: LazyLock<Real> = LazyLock::new(|| {
    // Machin: pi/4 = 4 arctan(1/5) - arctan(1/239).
    fraction(&(arctan_of_inverse(5, true) * 16 - arctan_of_inverse(239, true) * 4))
});
static E: LazyLock<Complex> = LazyLock::new(|| Complex::integer(1).exp().unwrap_or(Complex::ZERO));
static LN_2: LazyLock<Real> = LazyLock::new(|| fraction(&(arctan_of_inverse(3, false) * 2)));

/// 1/n for n from 1, as many as the series of the exponential function needs.
static INVERSES: LazyLock<[Real; 19]> = LazyLock::new(|| {
    std::array::from_fn(|n| Real::rational(&BigRational::new(1.into(), (n + 1).into())))
});

/// Bits after the point while constants are summed.
const GUARDED: u32 = 320;

/// arctan(1/n), or artanh(1/n), times 2^320.
fn arctan_of_inverse(n: u32, alternating: bool) -> BigInt {
    let mut power = (BigInt::from(1) << GUARDED) / n;
    let mut sum = BigInt::from(0);
    let mut k = 1u32;
    while power > BigInt::from(0) {
        let term = &power / k;
        sum += if alternating && k % 4 == 3 { -term } else { term };
        power /= n * n;
        k += 2;
    }
    sum
}

fn fraction(scaled: &BigInt) -> Real {
    let value = Real::rational(&BigRational::new(scaled.clone(), BigInt::from(1) << GUARDED));
    value.with_noise(value.exponent() - 256)
}

/// Largest binary exponent of an argument of the exponential function.
const LARGEST_EXPONENT: i64 = 40;

impl Complex {
    pub const ZERO: Self = Self { re: Real::ZERO, im: Real::ZERO };

    pub fn real(re: Real) -> Self {
        Self { re, im: Real::ZERO }
    }

    pub fn integer(value: i64) -> Self {
        Self::real(Real::integer(value))
    }

    pub fn i() -> Self {
        Self { re: Real::ZERO, im: Real::integer(1) }
    }

    pub fn pi() -> Self {
        Self::real(*PI)
    }

    pub fn e() -> Self {
        *E
    }

    /// Whether the number is known to be zero.
    pub fn is_exact_zero(self) -> bool {
        self.re.is_exact_zero() && self.im.is_exact_zero()
    }

    /// Whether the imaginary part is certainly zero.
    pub fn is_real(self) -> bool {
        self.im.is_exact_zero()
    }

    /// The number's real part, if the imaginary part is zero within its error.
    pub fn as_real(self) -> Option<Real> {
        matches!(self.im.sign(), None | Some(Ordering::Equal)).then_some(self.re)
    }

    /// Binary exponent of the larger part.
    pub fn exponent(self) -> i64 {
        self.re.exponent().max(self.im.exponent())
    }

    /// Power of two of the largest error that a part may have.
    pub fn error(self) -> i64 {
        self.re.error().max(self.im.error())
    }

    /// Whether the number is certainly not zero.
    pub fn is_clearly_nonzero(self) -> bool {
        [self.re, self.im].iter().any(|part| part.sign().is_some_and(Ordering::is_ne))
    }

    /// Times 2^power, exactly.
    pub fn scaled(self, power: i64) -> Self {
        Self { re: self.re.scaled(power), im: self.im.scaled(power) }
    }

    fn exact(self) -> Self {
        Self { re: self.re.exact(), im: self.im.exact() }
    }

    fn times_i(self) -> Self {
        Self { re: -self.im, im: self.re }
    }

    /// 1/self; `None` if that may be infinite.
    pub fn reciprocal(self) -> Option<Self> {
        if self.is_real() {
            return self.re.reciprocal().map(Self::real);
        }
        let inverse = (self.re * self.re + self.im * self.im).reciprocal()?;
        Some(Self { re: self.re * inverse, im: -self.im * inverse })
    }

    /// Distance from zero.
    pub fn magnitude(self) -> Option<Real> {
        if self.is_real() {
            return Some(self.re.magnitude());
        }
        (self.re * self.re + self.im * self.im).square_root()
    }

    /// e^self; `None` if it is too large.
    pub fn exp(self) -> Option<Self> {
        // Halving the argument twelve times makes the Taylor series a third as long.
        const HALVINGS: i64 = 12;
        if self.exponent() > LARGEST_EXPONENT {
            return None;
        }
        let twos = (self.re.to_f64() * std::f64::consts::LOG2_E).round() as i64;
        let quarters = (self.im.to_f64() * std::f64::consts::FRAC_2_PI).round() as i64;
        let reduced = Self {
            re: self.re - Real::integer(twos) * *LN_2,
            im: self.im - Real::integer(quarters) * PI.scaled(-1),
        }
        .scaled(-HALVINGS);
        let mut sum = Self::integer(1);
        for inverse in INVERSES.iter().rev() {
            sum = sum * (reduced * Self::real(*inverse)) + Self::integer(1);
        }
        for _ in 0..HALVINGS {
            sum = sum * sum;
        }
        for _ in 0..quarters.rem_euclid(4) {
            sum = sum.times_i();
        }
        Some(sum.scaled(twos))
    }

    /// Natural logarithm of a number that is certainly positive.
    pub fn ln(self) -> Option<Self> {
        if !self.is_real() || self.re.sign() != Some(Ordering::Greater) {
            return None;
        }
        let twos = self.exponent();
        let reduced = self.scaled(-twos);
        let mut logarithm = Self::real(Real::guess(libm::log(reduced.re.to_f64())));
        // Halley's iteration triples the right bits: 50, 150, all.
        for _ in 0..2 {
            logarithm = logarithm.exact();
            let power = logarithm.exp()?;
            let correction = (reduced - power) * (reduced + power).reciprocal()?;
            logarithm = logarithm + correction.scaled(1);
        }
        Some(logarithm + Self::real(Real::integer(twos) * *LN_2))
    }

    /// The square root of a real number.
    pub fn square_root(self) -> Option<Self> {
        match (self.is_real(), self.re.sign()?) {
            (false, _) => None,
            (true, Ordering::Less) => {
                (-self.re).square_root().map(|root| Self::real(root).times_i())
            }
            (true, _) => self.re.square_root().map(Self::real),
        }
    }

    /// self^exponent. An odd root of a negative number is the real one.
    pub fn power(self, exponent: Exponent) -> Option<Self> {
        let (numerator, denominator) = (*exponent.numer(), *exponent.denom());
        if denominator == 1 && numerator.unsigned_abs() <= 64 {
            return self.small_power(numerator);
        }
        if self.is_exact_zero() {
            return (numerator > 0).then_some(Self::ZERO);
        }
        if self.is_real() && self.re.sign()? == Ordering::Less && denominator % 2 == 1 {
            let magnitude = Self::real(-self.re).power(exponent)?;
            return Some(if numerator % 2 == 0 { magnitude } else { -magnitude });
        }
        if denominator == 2 && numerator.unsigned_abs() <= 64 {
            return self.square_root()?.small_power(numerator);
        }
        let exponent = BigRational::new(numerator.into(), denominator.into());
        (self.ln()? * Self::real(Real::rational(&exponent))).exp()
    }

    fn small_power(self, exponent: i64) -> Option<Self> {
        let (mut power, exponent_bits) = (Self::integer(1), exponent.unsigned_abs());
        for place in (0..u64::BITS - exponent_bits.leading_zeros()).rev() {
            power = power * power;
            if exponent_bits >> place & 1 == 1 {
                power = power * self;
            }
        }
        if exponent < 0 { power.reciprocal() } else { Some(power) }
    }

    pub fn sin(self) -> Option<Self> {
        let power = self.times_i().exp()?;
        if self.is_real() {
            return Some(Self::real(power.im));
        }
        Some(-(power - power.reciprocal()?).times_i().scaled(-1))
    }

    pub fn cos(self) -> Option<Self> {
        let power = self.times_i().exp()?;
        if self.is_real() {
            return Some(Self::real(power.re));
        }
        Some((power + power.reciprocal()?).scaled(-1))
    }

    /// Hyperbolic sine, or cosine.
    pub fn hyperbolic(self, is_cosine: bool) -> Option<Self> {
        let power = self.exp()?;
        let inverse = power.reciprocal()?;
        Some((if is_cosine { power + inverse } else { power - inverse }).scaled(-1))
    }

    /// Inverse sine of a real number from -1 to 1: 2 arctan(x / (1 + sqrt(1 - x^2))).
    pub fn arcsin(self) -> Option<Self> {
        let one = Self::integer(1);
        let cosine = (one - self * self).square_root().filter(|root| root.is_real())?;
        Some((self * (one + cosine).reciprocal()?).arctan()?.scaled(1))
    }

    /// Inverse tangent of a real number.
    pub fn arctan(self) -> Option<Self> {
        let mut arc = Self::real(Real::guess(libm::atan(self.re.to_f64())));
        // The correction's tangent is computed, and the correction is that less a third of its
        // cube, so each step triples the right bits.
        for _ in 0..2 {
            arc = arc.exact();
            let (sine, cosine) = (arc.sin()?, arc.cos()?);
            let tangent = (self * cosine - sine) * (cosine + self * sine).reciprocal()?;
            let third = Self::real(INVERSES[2]);
            arc = arc + tangent - tangent * tangent * tangent * third;
        }
        self.is_real().then_some(arc)
    }
}

impl std::ops::Neg for Complex {
    type Output = Self;

    fn neg(self) -> Self {
        Self { re: -self.re, im: -self.im }
    }
}

impl std::ops::Add for Complex {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl std::ops::Sub for Complex {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl std::ops::Mul for Complex {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}
