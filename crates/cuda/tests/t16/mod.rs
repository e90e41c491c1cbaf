//! Hopper's chain over blocks of 16 products, by arithmetic of whole numbers: another computation of what `mma.sync` gives than
//! the emulator's, after the same description (MMA-Sim, arXiv:2511.10909).

/// A finite number as `significand * 2^exponent`; a zero, and what is subnormal, has the exponent of the least normal ones.
fn parts(x: f32) -> (i128, i32) {
    let bits = x.to_bits();
    let (biased, fraction) = ((bits >> 23) & 0xff, bits & 0x7f_ffff);
    let significand = i128::from(if biased == 0 { fraction } else { fraction | 0x80_0000 });
    (if bits >> 31 == 1 { -significand } else { significand }, biased.max(1) as i32 - 150)
}

/// `sum + a[0] b[0] + ... + a[15] b[15]` as the tensor core adds: every term is cut, towards zero, to 25 bits below the largest
/// power of two among them (of a product the sum of its factors' powers), the sum is exact, and cut to an f32.
fn block(sum: f32, a: &[f32], b: &[f32]) -> f32 {
    let all = || a.iter().zip(b).map(|(a, b)| (*a, *b));
    if !sum.is_finite() || all().any(|(a, b)| !a.is_finite() || !b.is_finite()) {
        // IEEE decides what is not finite.
        return all().fold(sum, |sum, (a, b)| sum + a * b);
    }
    // A number is its significand, below 2^24, times 2^exponent; its power of two is exponent + 23.
    let power = |x: f32| if x == 0.0 { -126 } else { parts(x).1 + 23 };
    let mut terms = vec![(parts(sum).0, parts(sum).1, power(sum))];
    for (a, b) in all() {
        let ((p, e), (q, f)) = (parts(a), parts(b));
        terms.push((p * q, e + f, power(a) + power(b)));
    }
    let largest = terms.iter().map(|term| term.2).max().unwrap();
    let unit = largest - 25;
    let cut = |&(significand, exponent, _): &(i128, i32, i32)| {
        let by = exponent - unit;
        let magnitude = significand.unsigned_abs();
        let kept =
            if by >= 0 { magnitude << by } else { magnitude.checked_shr(by.unsigned_abs()).unwrap_or(0) };
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
    // What is left has 24 bits at most, so that all that follows is exact.
    let value = magnitude as f64 * 2f64.powi(lowest.max(unit));
    (if total < 0 { -value } else { value }) as f32
}

/// Blocks of 16 in ascending order, the last one padded by zeros.
pub fn chain(start: f32, a: &[f32], b: &[f32]) -> f32 {
    a.chunks(16).zip(b.chunks(16)).fold(start, |sum, (a, b)| block(sum, a, b))
}
