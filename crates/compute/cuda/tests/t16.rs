//! A tensor core's chain over blocks of products, by arithmetic of whole numbers: another
//! computation of what `mma.sync` gives than the emulator's, after the same description (MMA-Sim,
//! arXiv:2511.10909).

/// How a tensor core adds.
#[derive(Clone, Copy)]
pub struct Step {
    /// Products that are added at once.
    terms: usize,
    /// Bits of a term below the largest power of two among them.
    bits: i32,
}

impl Step {
    /// The arithmetic of a compute capability: Hopper's and later ones', or that of Ampere and Ada.
    pub fn of(capability: (u32, u32)) -> Self {
        if capability.0 >= 9 { Self { terms: 16, bits: 25 } } else { Self { terms: 8, bits: 24 } }
    }

    /// Blocks in ascending order. What is missing of the last one are zeros, which change nothing.
    pub fn chain(self, start: f32, a: &[f32], b: &[f32]) -> f32 {
        a.chunks(self.terms)
            .zip(b.chunks(self.terms))
            .fold(start, |sum, (a, b)| block(self.bits, sum, a, b))
    }
}

/// A finite number as `significand * 2^exponent`; a zero, and what is subnormal, has the exponent
/// of the least normal ones.
fn parts(x: f32) -> (i128, i32) {
    let bits = x.to_bits();
    let (biased, fraction) = ((bits >> 23) & 0xff, bits & 0x7f_ffff);
    let significand = i128::from(if biased == 0 { fraction } else { fraction | 0x80_0000 });
    (if bits >> 31 == 1 { -significand } else { significand }, biased.max(1) as i32 - 150)
}

/// `sum + a[0] b[0] + a[1] b[1] + ...` as the tensor core adds: every term is cut, towards zero, to
/// so many bits below the largest power of two among them (of a product the sum of its factors'
/// powers), zeros left out, and 2^-133; the sum is exact, and cut to an f32.
fn block(bits: i32, sum: f32, a: &[f32], b: &[f32]) -> f32 {
    let all = || a.iter().zip(b).map(|(a, b)| (*a, *b));
    if !sum.is_finite() || all().any(|(a, b)| !a.is_finite() || !b.is_finite()) {
        // IEEE decides what is not finite.
        return all().fold(sum, |sum, (a, b)| sum + a * b);
    }
    // A number is its significand, below 2^24, times 2^exponent; its power of two is exponent + 23.
    let power = |x: f32| parts(x).1 + 23;
    let mut terms = vec![(parts(sum).0, parts(sum).1, power(sum))];
    for (a, b) in all() {
        let ((p, e), (q, f)) = (parts(a), parts(b));
        terms.push((p * q, e + f, power(a) + power(b)));
    }
    let largest =
        terms.iter().filter(|term| term.0 != 0).map(|term| term.2).max().unwrap_or(-133).max(-133);
    let unit = largest - bits;
    let cut = |&(significand, exponent, _): &(i128, i32, i32)| {
        let by = exponent - unit;
        let magnitude = significand.unsigned_abs();
        let kept = if by >= 0 {
            magnitude << by
        } else {
            magnitude.checked_shr(by.unsigned_abs()).unwrap_or(0)
        };
        if significand < 0 { -(kept as i128) } else { kept as i128 }
    };
    let total: i128 = terms.iter().map(cut).sum();
    towards_zero(total, unit)
}

/// `total * 2^unit`, cut to an f32.
fn towards_zero(total: i128, unit: i32) -> f32 {
    let mut magnitude = total.unsigned_abs();
    let length = 128 - magnitude.leading_zeros() as i32;
    // Bits below the last one of an f32 of this size.
    let lowest = (length + unit - 24).max(-149);
    if lowest > unit {
        magnitude = magnitude.checked_shr((lowest - unit).unsigned_abs()).unwrap_or(0);
    }
    // The rest has 24 bits at most, so that all that follows is exact.
    let value = magnitude as f64 * 2f64.powi(lowest.max(unit));
    // A sum that is cut to zero has no sign.
    (if total < 0 && magnitude > 0 { -value } else { value }) as f32
}
