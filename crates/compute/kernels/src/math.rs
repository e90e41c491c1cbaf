//! Transcendental functions, defined here so that their bits do not depend on a system library.

use crate::simd::Simd;

/// Below this, `exp` would be denormal and is defined as 0: `ln(2^-126)`.
const EXP_UNDERFLOW: f32 = -87.336_54;

/// Replaces every argument whose exponential is 0. It is finite, so that products with that 0 are
/// 0.
pub(crate) const EXP_ZERO: f32 = -88.0;

/// `e^x` for `x <= 0` (and, within rounding, a little above), relative error below 1e-7; exactly 0
/// below -87.336; NaN for NaN.
///
/// `x = n ln 2 + r` with `|r| <= ln(2)/2`, ln 2 in two parts (Cody and Waite), Taylor series of
/// degree 7 in r.
#[inline(always)]
pub(crate) unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    // 1.5 * 2^23: adding it leaves the nearest integer in the low bits of the significand.
    const MAGIC: f32 = 12_582_912.0;
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let low = S::splat(EXP_UNDERFLOW);
        let inside = S::max(low, x);
        let magic = S::fma(inside, S::splat(std::f32::consts::LOG2_E), S::splat(MAGIC));
        let n = S::sub(magic, S::splat(MAGIC));
        let r = S::fma(n, S::splat(-355.0 / 512.0), inside);
        let r = S::fma(n, S::splat(2.121_944_4e-4), r);
        let mut p = S::splat(1.0 / 5040.0);
        for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            p = S::fma(p, r, S::splat(c));
        }
        let e = S::mul(p, S::exp2_of_magic(magic));
        S::select_lt(x, low, S::splat(0.0), e)
    }
}

/// `1 / (1 + e^-x)`, by whichever of the two equal forms has the exponential of a negative number.
#[inline(always)]
pub(crate) unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let zero = S::splat(0.0);
        let one = S::splat(1.0);
        let minus = S::sub(zero, x);
        let e = exp::<S>(S::select_lt(x, zero, x, minus));
        S::div(S::select_lt(x, zero, e, one), S::add(one, e))
    }
}

/// Natural logarithm of a positive finite `x`, correctly rounded except rare ties: computed in f64
/// by the series of `2 artanh((m-1)/(m+1))`, `m` in `[1/sqrt 2, sqrt 2)`. NaN for NaN, zero and
/// negative numbers.
pub fn ln(x: f32) -> f32 {
    if x.is_nan() || x <= 0.0 {
        return f32::NAN;
    }
    if x.is_infinite() {
        return x;
    }
    ln_of_f64(f64::from(x)) as f32
}

/// Natural logarithm of `1 + x` for a finite `x` from 0 on. The sum is in f64, so that a small `x`
/// counts, too.
pub(crate) fn ln_1p(x: f32) -> f32 {
    ln_of_f64(1.0 + f64::from(x)) as f32
}

/// Natural logarithm of a positive, finite number that is not subnormal, or NaN of NaN.
fn ln_of_f64(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let mut m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let s2 = s * s;
    let mut series = 0.0;
    for k in (0..9).rev() {
        series = series * s2 + 1.0 / f64::from(2 * k + 1);
    }
    f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Isa, Kernel, LANES};

    struct Map<'a>(&'a [f32], &'a mut [f32], bool);
    impl Kernel for Map<'_> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<S: Simd>(self) {
            for (x, y) in self.0.chunks_exact(LANES).zip(self.1.chunks_exact_mut(LANES)) {
                // SAFETY: chunks of 16.
                unsafe {
                    let v = S::load(x.as_ptr());
                    S::store(y.as_mut_ptr(), if self.2 { exp::<S>(v) } else { sigmoid::<S>(v) });
                }
            }
        }
    }

    fn map(isa: Isa, x: &[f32], exponential: bool) -> Vec<f32> {
        let mut y = vec![0.0; x.len()];
        // SAFETY: the slices are of one length, a multiple of 16.
        unsafe { isa.run(Map(x, &mut y, exponential)) };
        y
    }

    #[test]
    fn exp_and_sigmoid_are_accurate_and_equal_on_every_instruction_set() {
        let x: Vec<f32> = (0..160_000).map(|i| -(i as f32) * 6e-4).collect();
        let reference = map(Isa::Scalar, &x, true);
        for (&x, &y) in x.iter().zip(&reference) {
            let exact = f64::from(x).exp();
            if x < EXP_UNDERFLOW {
                assert_eq!(y, 0.0, "exp({x})");
            } else {
                assert!(
                    (f64::from(y) / exact - 1.0).abs() < 1.2e-7,
                    "exp({x}) = {y}, exactly {exact}"
                );
            }
        }
        let wide: Vec<f32> = (0..160_000).map(|i| (i as f32 - 80_000.0) * 2e-3).collect();
        for (&x, &y) in wide.iter().zip(&map(Isa::Scalar, &wide, false)) {
            let exact = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!(
                (f64::from(y) - exact).abs() <= 2e-7 * exact + 1e-37,
                "sigmoid({x}) = {y}, exactly {exact}"
            );
        }
        for isa in Isa::available() {
            assert_eq!(map(isa, &x, true), reference, "{isa}");
            assert_eq!(map(isa, &wide, false), map(Isa::Scalar, &wide, false), "{isa}");
        }
    }

    #[test]
    fn exp_of_special_values() {
        let mut x = [0.0; LANES];
        (x[1], x[2], x[3]) = (f32::NEG_INFINITY, f32::NAN, -0.0);
        for isa in Isa::available() {
            let y = map(isa, &x, true);
            assert_eq!((y[0], y[1], y[3]), (1.0, 0.0, 1.0), "{isa}");
            assert!(y[2].is_nan(), "{isa}");
        }
    }

    #[test]
    fn ln_is_accurate() {
        let mut x = 1e-30f32;
        while x < 1e30 {
            let exact = f64::from(x).ln();
            assert!((f64::from(ln(x)) - exact).abs() <= exact.abs() * 6.1e-8 + 1e-12, "ln({x})");
            x *= 1.000_7;
        }
        assert_eq!(ln(1.0), 0.0);
        assert!(ln(0.0).is_nan() && ln(-1.0).is_nan() && ln(f32::NAN).is_nan());
    }
}
