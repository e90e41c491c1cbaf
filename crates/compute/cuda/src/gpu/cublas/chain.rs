//! The tensor core's arithmetic on bfloat16, known for Hopper and Blackwell. Libraries are compared
//! with it.
//!
//! A step adds 16 products to a sum. All 17 terms are cut to 25 fraction bits below the largest
//! exponent among them, which is at least -133 and leaves out zeros. They are added exactly, and
//! the sum is cut to an f32 (Li et al., MMA-Sim, 2025; zeros and -133 from an H200). A product of
//! matrices is a chain of such steps.

/// Terms of a step.
const STEP: usize = 16;
/// Fraction bits that are kept below the largest exponent.
const FRACTION: i32 = 25;
/// The lower limit of the largest exponent.
const LEAST: i32 = -133;

/// `sum + a . b`, by steps over 16 terms in order. The last step may have fewer: zeros change
/// nothing.
///
/// # Panics
/// When the two are not equally long.
pub(crate) fn chain(sum: f32, a: &[u16], b: &[u16]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.chunks(STEP).zip(b.chunks(STEP)).fold(sum, |sum, (a, b)| step(sum, a, b))
}

/// A number as `mantissa * 2^(exponent - bits)`: with `bits` fraction bits.
#[derive(Clone, Copy)]
struct Term {
    mantissa: i128,
    exponent: i32,
    bits: i32,
}

/// The value of an f32. A bfloat16 is an f32 whose last 16 bits are zeros.
fn number(bits: u32) -> Term {
    let (exponent, fraction) = ((bits >> 23 & 255) as i32, i128::from(bits & 0x7f_ffff));
    let (mantissa, exponent) =
        if exponent == 0 { (fraction, -126) } else { (fraction | 1 << 23, exponent - 127) };
    Term { mantissa: if bits >> 31 == 1 { -mantissa } else { mantissa }, exponent, bits: 23 }
}

fn step(sum: f32, a: &[u16], b: &[u16]) -> f32 {
    let wide = |half: u16| number(u32::from(half) << 16);
    let products = a.iter().zip(b).map(|(&a, &b)| {
        let (a, b) = (wide(a), wide(b));
        // The product is not normalised: its mantissa may be 2 or more.
        Term {
            mantissa: a.mantissa * b.mantissa,
            exponent: a.exponent + b.exponent,
            bits: a.bits + b.bits,
        }
    });
    let terms: Vec<Term> = products.chain([number(sum.to_bits())]).collect();
    let counted = terms.iter().filter(|term| term.mantissa != 0);
    let top = counted.map(|term| term.exponent).max().map_or(LEAST, |top| top.max(LEAST));
    let total: i128 = terms
        .iter()
        .map(|term| cut(term.mantissa, term.bits - FRACTION + top - term.exponent))
        .sum();
    // total * 2^(top - FRACTION), towards zero: 24 bits at most, fewer where the f32 is subnormal.
    let magnitude = total.unsigned_abs();
    let length = (128 - magnitude.leading_zeros()).cast_signed();
    let lowest = (top - FRACTION + length - 24).max(-149);
    let mantissa = cut(magnitude.cast_signed(), lowest - (top - FRACTION));
    // Both factors and the result are exact in f64.
    let value = (mantissa as f64 * 2.0_f64.powi(lowest)) as f32;
    if total < 0 { -value } else { value }
}

/// `mantissa / 2^places`, towards zero.
fn cut(mantissa: i128, places: i32) -> i128 {
    if places <= 0 { mantissa << -places } else { mantissa / (1_i128 << places.min(126)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_cuda_emulator::TensorCore;

    /// The emulator's own model has been compared with published measurements of GPUs.
    #[test]
    fn random_chains_are_the_emulators() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for case in 0..20_000_usize {
            let exponents = [(120, 14), (90, 70), (0, 200)][case % 3];
            let mut number = || {
                let random = random();
                let exponent = exponents.0 + (random >> 8) % exponents.1;
                let zero = case % 5 == 0 && random >> 50 & 3 == 0;
                if zero {
                    0
                } else {
                    ((random & 1) << 15 | exponent << 7 | random >> 40 & 127) as u16
                }
            };
            let a: Vec<u16> = (0..1 + case % 40).map(|_| number()).collect();
            let b: Vec<u16> = a.iter().map(|_| number()).collect();
            let sum = f32::from_bits(u32::from(number()) << 16 | u32::from(number()));
            let (ours, theirs) = (chain(sum, &a, &b), TensorCore::Hopper.chain(sum, &a, &b));
            if theirs.is_finite() {
                assert_eq!(ours.to_bits(), theirs.to_bits(), "{sum:e} {a:?} {b:?}");
            }
        }
    }

    fn bf16(x: f32) -> u16 {
        (x.to_bits() >> 16) as u16
    }

    #[test]
    fn what_fits_is_exact_and_the_rest_is_cut_towards_zero() {
        let (a, b): (Vec<u16>, Vec<u16>) =
            (0..20).map(|i| (bf16(i as f32 - 8.0), bf16(0.5 * i as f32))).unzip();
        let exact: f32 = (0..20).map(|i| (i as f32 - 8.0) * 0.5 * i as f32).sum();
        assert_eq!(chain(3.25, &a, &b), exact + 3.25);
        assert_eq!(chain(1.0, &[], &[]), 1.0);
        assert_eq!(chain(-0.0, &[0], &[bf16(1.0)]).to_bits(), 0.0_f32.to_bits());
        // 2^-24 is beyond an f32's 24 bits, but within 25 fraction bits: two such terms count, and
        // a single one is cut.
        let tiny = bf16(2.0_f32.powi(-12));
        assert_eq!(chain(1.0, &[tiny], &[tiny]), 1.0);
        assert_eq!(chain(1.0, &[tiny; 2], &[tiny; 2]), 1.0 + 2.0_f32.powi(-23));
        assert_eq!(chain(-1.0, &[tiny], &[tiny]), -1.0 + 2.0_f32.powi(-24));
        // 2^-26 is beyond the fraction bits, even in many terms.
        let small = bf16(2.0_f32.powi(-13));
        assert_eq!(chain(1.0, &[small; 16], &[small; 16]), 1.0);
        // Rounding to nearest would go up here.
        let three = bf16(1.5 * 2.0_f32.powi(-12));
        assert_eq!(chain(1.0, &[three], &[bf16(2.0_f32.powi(-12))]), 1.0);
        // The smallest subnormal numbers.
        assert_eq!(chain(f32::from_bits(3), &[0], &[0]).to_bits(), 3);
        assert_eq!(chain(0.0, &[bf16(2.0_f32.powi(-70))], &[bf16(2.0_f32.powi(-79))]).to_bits(), 1);
    }
}
