//! The arithmetic of tensor cores, bf16 into f32, to the bit.
//!
//! microsoft/MMA-Sim has found it on the hardware (`mmasim/simulator/nv_ptx.py` and `arithmetic.py`
//! there). The products and the sum so far are cut, towards zero, to some fraction bits below the
//! largest exponent among them, added exactly, and cut to f32, towards zero. The exponent of a
//! product is the sum of its factors' exponents (so a product may be 4 - epsilon times that power
//! of two); a subnormal has -126. A sum of 0 is +0. Hopper and Blackwell add 16 products at once
//! and keep 25 bits; Ampere and Ada add two times 8, with 24 bits. Infinities follow IEEE, and
//! there is one NaN.
//!
//! MMA-Sim gives zeros the exponent -126, but on an H200 they do not count: neither a product with
//! a factor of zero nor a sum of zero. If nothing else is larger, the largest exponent is -133. All
//! 358,400 sums near zero that it has computed agree (`tests/fixtures/h200_near_zero.txt` has some
//! of them). Ampere, Ada and Blackwell are assumed to do the same, untried.
#![allow(
    clippy::needless_range_loop,
    reason = "loops over several arrays at once, of which vectors are made"
)]

/// How the tensor cores of a generation add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorCore {
    /// Ampere and Ada: 8 products at once, 24 fraction bits.
    Ampere,
    /// Hopper and Blackwell: 16 products at once, 25 fraction bits.
    Hopper,
}

impl TensorCore {
    /// The one of a compute capability.
    pub fn of(capability: (u32, u32)) -> Self {
        if capability.0 >= 9 { Self::Hopper } else { Self::Ampere }
    }
}

/// The NaN that tensor cores give.
const NAN: u32 = 0x7fff_ffff;
/// The least that the largest exponent is.
const LEAST: i32 = -133;
/// The exponent of zero, which with any other's is below the least.
const OF_ZERO: i32 = -1000;

/// A number as `magnitude * 2^(exponent - fraction bits)`, with its sign as a mask.
#[derive(Clone, Copy, Default)]
struct Parts {
    magnitude: i32,
    exponent: i32,
    /// 0 or -1.
    sign: i32,
}

impl Parts {
    /// A finite number with `bits` fraction bits, from the bits of its fraction and of its
    /// exponent.
    #[inline(always)]
    fn new(fraction: u32, exponent: u32, bits: u32, negative: bool) -> Self {
        let hidden = i32::from(exponent != 0) << bits;
        let magnitude = fraction.cast_signed() | hidden;
        let exponent = if magnitude == 0 { OF_ZERO } else { exponent.max(1).cast_signed() - 127 };
        Self { magnitude, exponent, sign: -i32::from(negative) }
    }

    #[inline(always)]
    fn of_bf16(x: u16) -> Self {
        let x = u32::from(x);
        Self::new(x & 0x7f, (x >> 7) & 0xff, 7, x >> 15 == 1)
    }

    #[inline(always)]
    fn of_f32(x: f32) -> Self {
        let x = x.to_bits();
        Self::new(x & 0x7f_ffff, (x >> 23) & 0xff, 23, x >> 31 == 1)
    }
}

/// Sixteen bf16 along k.
#[derive(Clone, Copy)]
struct Row {
    magnitude: [i32; 16],
    exponent: [i32; 16],
    sign: [i32; 16],
    bits: [u16; 16],
    finite: bool,
}

impl Row {
    #[inline(always)]
    fn new(bits: [u16; 16]) -> Self {
        let mut row =
            Self { magnitude: [0; 16], exponent: [0; 16], sign: [0; 16], bits, finite: true };
        for (i, &x) in bits.iter().enumerate() {
            let parts = Parts::of_bf16(x);
            row.magnitude[i] = parts.magnitude;
            row.exponent[i] = parts.exponent;
            row.sign[i] = parts.sign;
            row.finite &= x & 0x7f80 != 0x7f80;
        }
        row
    }
}

/// `sum * 2^(top - bits)` cut to f32, towards zero.
#[inline(always)]
fn cut(sum: i64, top: i32, bits: i32) -> f32 {
    let magnitude = sum.unsigned_abs();
    if magnitude == 0 {
        return 0.0;
    }
    let length = 64 - magnitude.leading_zeros().cast_signed();
    let exponent = top - bits + length - 1;
    let shifted = |by: i32| if by >= 0 { magnitude << by } else { magnitude >> (-by).min(63) };
    let finite = match exponent {
        128.. => 0x7f80_0000,
        -126..=127 => {
            ((exponent + 127).cast_unsigned() << 23) | (shifted(24 - length) as u32 & 0x7f_ffff)
        }
        // In units of the smallest subnormal, 2^-149.
        _ => shifted(top - bits + 149) as u32,
    };
    // A term that is cut to zero has no sign.
    let sign = u32::from(sum < 0 && finite != 0) << 31;
    f32::from_bits(finite | sign)
}

/// `c` plus the products of terms `FROM .. FROM + TERMS`, all finite, with `bits` fraction bits.
#[inline(always)]
fn step<const FROM: usize, const TERMS: usize>(bits: i32, c: f32, a: &Row, b: &Row) -> f32 {
    let c = Parts::of_f32(c);
    let mut exponents = [0i32; TERMS];
    let mut top = c.exponent.max(LEAST);
    for i in 0..TERMS {
        exponents[i] = a.exponent[FROM + i] + b.exponent[FROM + i];
        top = top.max(exponents[i]);
    }
    // A product has 14 fraction bits and is below 2^16 in them, so each term is below 2^27, and
    // eight of them fit an i32.
    let mut sums = [0i32; 2];
    for (half, sum) in sums.iter_mut().enumerate() {
        for i in half * (TERMS / 2)..(half + 1) * (TERMS / 2) {
            let product = a.magnitude[FROM + i] * b.magnitude[FROM + i];
            let term = (product << (bits - 14)) >> (top - exponents[i]).min(31);
            let sign = a.sign[FROM + i] ^ b.sign[FROM + i];
            *sum += (term ^ sign) - sign;
        }
    }
    let term = (c.magnitude << (bits - 23)) >> (top - c.exponent).min(31);
    let sum = i64::from(sums[0]) + i64::from(sums[1]) + i64::from((term ^ c.sign) - c.sign);
    cut(sum, top, bits)
}

/// The sum where a term may not be finite.
#[inline(never)]
fn careful<const FROM: usize, const TERMS: usize>(bits: i32, c: f32, a: &Row, b: &Row) -> f32 {
    let wide = |x: u16| f64::from(f32::from_bits(u32::from(x) << 16));
    // No product of bf16 and no sum of these overflows an f64.
    let products = (FROM..FROM + TERMS).map(|i| wide(a.bits[i]) * wide(b.bits[i]));
    let sum = products.sum::<f64>() + f64::from(c);
    if sum.is_nan() {
        f32::from_bits(NAN)
    } else if sum.is_infinite() {
        sum as f32
    } else {
        step::<FROM, TERMS>(bits, c, a, b)
    }
}

impl TensorCore {
    #[inline(always)]
    fn rows(self, c: f32, a: &Row, b: &Row) -> f32 {
        let finite = a.finite && b.finite && c.is_finite();
        match (self, finite) {
            (Self::Hopper, true) => step::<0, 16>(25, c, a, b),
            (Self::Hopper, false) => careful::<0, 16>(25, c, a, b),
            (Self::Ampere, _) => {
                let half = careful::<0, 8>(24, c, a, b);
                careful::<8, 8>(24, half, a, b)
            }
        }
    }

    /// `c + sum over i of a[i] b[i]`, bf16 by their bits: one element of an m16n8k16.
    pub fn dot(self, c: f32, a: [u16; 16], b: [u16; 16]) -> f32 {
        self.rows(c, &Row::new(a), &Row::new(b))
    }

    /// A chain of such dot products, over blocks of 16 in ascending order; the last block is padded
    /// with zeros.
    pub fn chain(self, c: f32, a: &[u16], b: &[u16]) -> f32 {
        let block = |from: &[u16]| std::array::from_fn(|i| from.get(i).copied().unwrap_or(0));
        a.chunks(16).zip(b.chunks(16)).fold(c, |c, (a, b)| self.dot(c, block(a), block(b)))
    }

    /// `d += a b` of a warp's fragments.
    pub(crate) fn mma(self, lanes: &mut [Fragments; 32]) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.mma_avx2(lanes) };
        }
        self.mma_anywhere(lanes);
    }

    /// The same, by vectors: whole numbers are the same everywhere.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn mma_avx2(self, lanes: &mut [Fragments; 32]) {
        self.mma_anywhere(lanes);
    }

    // Loops over arrays, without closures: closures would not be compiled for the processor that
    // the caller is compiled for.
    #[inline(always)]
    fn mma_anywhere(self, lanes: &mut [Fragments; 32]) {
        // Row by row; the words of a lane hold neighbours along k: see device.h.
        let (mut a, mut b, mut d) = ([[0u16; 16]; 16], [[0u16; 16]; 8], [[0.0f32; 8]; 16]);
        for (lane, fragments) in lanes.iter().enumerate() {
            let (g, t) = (lane / 4, lane % 4 * 2);
            for i in 0..4 {
                let (row, k) = (g + i % 2 * 8, t + i / 2 * 8);
                (a[row][k], a[row][k + 1]) = (fragments.a[i] as u16, (fragments.a[i] >> 16) as u16);
                d[g + i / 2 * 8][t + i % 2] = fragments.d[i];
            }
            for i in 0..2 {
                (b[g][t + i * 8], b[g][t + i * 8 + 1]) =
                    (fragments.b[i] as u16, (fragments.b[i] >> 16) as u16);
            }
        }
        let columns = Columns::new(&b);
        for row in 0..16 {
            let c = d[row];
            let of_a = Row::new(a[row]);
            let finite = of_a.finite && columns.finite && all_finite(&c);
            let mut done = finite;
            if finite && self == Self::Hopper {
                d[row] = columns.step::<0, 16>(25, c, &of_a);
            } else if finite {
                let half = columns.step::<0, 8>(24, c, &of_a);
                done = all_finite(&half);
                d[row] = columns.step::<8, 8>(24, half, &of_a);
            }
            if !done {
                for column in 0..8 {
                    d[row][column] = self.rows(c[column], &of_a, &Row::new(b[column]));
                }
            }
        }
        for (lane, fragments) in lanes.iter_mut().enumerate() {
            for i in 0..4 {
                fragments.d[i] = d[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2];
            }
        }
    }
}

#[inline(always)]
fn all_finite(numbers: &[f32; 8]) -> bool {
    let mut finite = true;
    for number in numbers {
        finite &= number.is_finite();
    }
    finite
}

/// Eight columns of b side by side: vectors run across them.
struct Columns {
    magnitude: [[i32; 8]; 16],
    exponent: [[i32; 8]; 16],
    sign: [[i32; 8]; 16],
    finite: bool,
}

impl Columns {
    #[inline(always)]
    fn new(b: &[[u16; 16]; 8]) -> Self {
        let mut columns = Self {
            magnitude: [[0; 8]; 16],
            exponent: [[0; 8]; 16],
            sign: [[0; 8]; 16],
            finite: true,
        };
        for k in 0..16 {
            for j in 0..8 {
                let x = b[j][k];
                let parts = Parts::of_bf16(x);
                columns.magnitude[k][j] = parts.magnitude;
                columns.exponent[k][j] = parts.exponent;
                columns.sign[k][j] = parts.sign;
                columns.finite &= x & 0x7f80 != 0x7f80;
            }
        }
        columns
    }

    /// [`step`] for each column, with finite operands. The results may be infinite.
    #[inline(always)]
    fn step<const FROM: usize, const TERMS: usize>(
        &self,
        bits: i32,
        c: [f32; 8],
        a: &Row,
    ) -> [f32; 8] {
        let (mut top, mut magnitudes, mut signs) = ([0i32; 8], [0i32; 8], [0i32; 8]);
        let mut exponents = [0i32; 8];
        for j in 0..8 {
            let parts = Parts::of_f32(c[j]);
            (top[j], exponents[j]) = (parts.exponent.max(LEAST), parts.exponent);
            (magnitudes[j], signs[j]) = (parts.magnitude << (bits - 23), parts.sign);
        }
        for k in FROM..FROM + TERMS {
            for j in 0..8 {
                top[j] = top[j].max(a.exponent[k] + self.exponent[k][j]);
            }
        }
        // As in `step`: eight terms fit an i32, and c, which is smaller than one of them, is added
        // to neither.
        let mut sums = [[0i32; 8]; 2];
        for k in FROM..FROM + TERMS {
            let sums = &mut sums[(k - FROM) / 8];
            for j in 0..8 {
                let product = (a.magnitude[k] * self.magnitude[k][j]) << (bits - 14);
                let below = (top[j] - (a.exponent[k] + self.exponent[k][j])).min(31);
                let sign = a.sign[k] ^ self.sign[k][j];
                sums[j] += ((product >> below) ^ sign) - sign;
            }
        }
        let mut d = [0.0; 8];
        for j in 0..8 {
            let term = magnitudes[j] >> (top[j] - exponents[j]).min(31);
            let c = i64::from((term ^ signs[j]) - signs[j]);
            d[j] = cut(i64::from(sums[0][j]) + i64::from(sums[1][j]) + c, top[j], bits);
        }
        d
    }
}

/// A lane's operands and results of an mma; `Mma` in runtime/emulator.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Fragments {
    pub(crate) d: [f32; 4],
    pub(crate) a: [u32; 4],
    pub(crate) b: [u32; 2],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_warp_computes_what_its_dot_products_do() {
        let random = Random::new(&[3]);
        for core in [TensorCore::Hopper, TensorCore::Ampere] {
            for case in 0..400 {
                // Now and then a number is not finite, or everything is large enough to overflow.
                let exponent = |range: usize| [100, 40, 200][case % 3] + random.below(range) as u32;
                let half = || {
                    let exponent =
                        if case % 10 == 0 && random.below(40) == 0 { 255 } else { exponent(50) };
                    (random.bits() & 0x807f) as u16 | (exponent << 7) as u16
                };
                let a: [[u16; 16]; 16] = std::array::from_fn(|_| std::array::from_fn(|_| half()));
                let b: [[u16; 16]; 8] = std::array::from_fn(|_| std::array::from_fn(|_| half()));
                let c: [[f32; 8]; 16] = std::array::from_fn(|_| {
                    std::array::from_fn(|_| f32::from_bits(u32::from(half()) << 16))
                });
                let pair =
                    |row: &[u16; 16], k: usize| u32::from(row[k]) | u32::from(row[k + 1]) << 16;
                // The fragments' layout of the PTX manual, figures of mma.m16n8k16.
                let mut lanes: [Fragments; 32] = std::array::from_fn(|lane| {
                    let (g, t) = (lane / 4, lane % 4 * 2);
                    Fragments {
                        d: [c[g][t], c[g][t + 1], c[g + 8][t], c[g + 8][t + 1]],
                        a: [
                            pair(&a[g], t),
                            pair(&a[g + 8], t),
                            pair(&a[g], t + 8),
                            pair(&a[g + 8], t + 8),
                        ],
                        b: [pair(&b[g], t), pair(&b[g], t + 8)],
                    }
                });
                core.mma(&mut lanes);
                for (i, row) in c.iter().enumerate() {
                    for (j, &c) in row.iter().enumerate() {
                        let got = lanes[i % 8 * 4 + j / 2].d[i / 8 * 2 + j % 2];
                        assert_eq!(
                            got.to_bits(),
                            core.dot(c, a[i], b[j]).to_bits(),
                            "{core:?} {case} {i} {j}"
                        );
                    }
                }
            }
        }
    }
}
