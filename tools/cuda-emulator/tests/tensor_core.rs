//! The tensor cores' arithmetic against its definition in whole numbers of any size, and against
//! published measurements of the hardware.
//!
//! The definition is microsoft/MMA-Sim's (`fused_sum`, `nv_fused_dot_add` in
//! `mmasim/simulator/arithmetic.py`, validated on GPUs by its authors; arXiv:2511.10909), except
//! for zeros and the least exponent, which follow an H200. Here every number is a whole multiple of
//! 2^-600, and only divisions of such numbers shift or round: no step is shared with the
//! implementation.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_cuda_emulator::TensorCore;
use num_bigint::{BigInt, Sign};

/// All numbers are multiples of this power of two.
const UNIT: i32 = -600;

fn power(exponent: i32) -> BigInt {
    BigInt::from(1) << usize::try_from(exponent - UNIT).unwrap()
}

/// A finite f32 in units.
fn units(x: f32) -> BigInt {
    let wide = f64::from(x);
    let mut mantissa = wide;
    let mut exponent = 0;
    while mantissa.fract() != 0.0 {
        mantissa *= 2.0;
        exponent -= 1;
    }
    let mut whole = BigInt::from(0);
    let mut rest = mantissa.abs();
    let mut digits = Vec::new();
    while rest > 0.0 {
        digits.push((rest % 65536.0) as u32);
        rest = (rest / 65536.0).floor();
    }
    for digit in digits.into_iter().rev() {
        whole = whole * 65536 + digit;
    }
    let whole = whole * power(exponent);
    if wide < 0.0 { -whole } else { whole }
}

/// floor(log2 |x|), but at least -126.
fn exponent(x: f32) -> i32 {
    let mut exponent = -126;
    while f64::from(x).abs() >= 2f64.powi(exponent + 1) {
        exponent += 1;
    }
    exponent
}

fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// One step in whole numbers: terms are cut to `fraction_bits` bits below 2^top, towards zero, and
/// added; the sum is cut to f32.
fn step(fraction_bits: i32, c: f32, a: &[u16], b: &[u16]) -> f32 {
    let mut terms = vec![(units(c), exponent(c))];
    for (&a, &b) in a.iter().zip(b) {
        let (a, b) = (bf16(a), bf16(b));
        // In units of 2^-1200, so divided by one unit.
        let product = units(a) * units(b) / power(0);
        assert_eq!(&product * power(0), units(a) * units(b), "a product is a multiple of the unit");
        terms.push((product, exponent(a) + exponent(b)));
    }
    let zero = BigInt::from(0);
    let counted = terms.iter().filter(|(value, _)| *value != zero).map(|(_, exponent)| *exponent);
    let top = counted.max().unwrap_or(-133).max(-133);
    let grid = power(top - fraction_bits);
    // Division of BigInt is towards zero.
    let sum: BigInt = terms.iter().map(|(value, _)| value / &grid).sum();
    to_f32(&(sum * grid))
}

/// Cuts to f32 towards zero. A result of zero has no sign, and one that is too large is infinite.
fn to_f32(sum: &BigInt) -> f32 {
    let magnitude = sum.magnitude().clone();
    let length = i32::try_from(magnitude.bits()).unwrap();
    // The weight of the last bit that an f32 of this size has.
    let last = (length - 1 + UNIT - 23).max(-149);
    let steps = BigInt::from_biguint(Sign::Plus, magnitude) / power(last);
    let steps: u64 = steps.try_into().unwrap();
    if length - 1 + UNIT >= 128 {
        return if sum.sign() == Sign::Minus { f32::NEG_INFINITY } else { f32::INFINITY };
    }
    let value = steps as f64 * 2f64.powi(last);
    assert_eq!(f64::from(value as f32), value, "an f32 holds it");
    if sum.sign() == Sign::Minus && value != 0.0 { -(value as f32) } else { value as f32 }
}

fn expected(core: TensorCore, c: f32, a: [u16; 16], b: [u16; 16]) -> f32 {
    match core {
        TensorCore::Hopper => step(25, c, &a, &b),
        TensorCore::Ampere => {
            let half = step(24, c, &a[..8], &b[..8]);
            // Nothing finite makes it finite again.
            if half.is_finite() { step(24, half, &a[8..], &b[8..]) } else { half }
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A bf16 with an exponent field in `from .. from + range`.
    fn bf16(&mut self, from: u64, range: u64) -> u16 {
        let x = self.next();
        (((x & 1) << 15) | ((from + (x >> 16) % range) << 7) | ((x >> 48) & 127)) as u16
    }
}

#[test]
fn sums_are_those_of_the_definition_in_whole_numbers() {
    let mut random = Random(5);
    for core in [TensorCore::Hopper, TensorCore::Ampere] {
        let mut distinct = 0;
        for case in 0..6000 {
            // Exponents close together, far apart, among subnormals, and up to overflow.
            let (from, range) =
                [(120, 8), (110, 30), (60, 130), (0, 3), (0, 70), (180, 20), (1, 250)][case % 7];
            let mut a: [u16; 16] = std::array::from_fn(|_| random.bf16(from, range));
            let b: [u16; 16] = std::array::from_fn(|_| random.bf16(from, range));
            if case % 5 == 0 {
                // Zeros, of both signs.
                a[case % 16] &= 0x8000;
                a[case / 16 % 16] &= 0x8000;
            }
            let near = random
                .bf16((2 * from + range).saturating_sub(127).min(254 - range.min(250)), range);
            let c = match case % 4 {
                0 => 0.0,
                1 => bf16(near) * 1.000_123,
                _ => f32::from_bits(
                    (u32::from(random.bf16(from, range)) << 16) | (random.next() as u32 & 0xffff),
                ),
            };
            let c = if c.is_finite() { c } else { 1.0 };
            let (got, want) = (core.dot(c, a, b), expected(core, c, a, b));
            assert_eq!(
                got.to_bits(),
                want.to_bits(),
                "{core:?}: {c:e} {a:04x?} {b:04x?}: {got:e}, not {want:e}"
            );
            distinct += usize::from(got.is_finite() && got != 0.0 && got != c);
        }
        assert!(distinct > 2500, "most cases say something: {distinct}");
    }
}

const ONE: u16 = 0x3f80;

fn power_of_two(exponent: i32) -> u16 {
    ((exponent + 127) << 7) as u16
}

/// Tensor cores are probed with one large term, and small ones that are kept or lost by the number
/// of bits below it (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor
/// cores", 2021).
#[test]
fn bits_below_the_largest_term_are_those_of_each_generation() {
    let dot = |core: TensorCore, c: f32, terms: &[(u16, u16)]| {
        let (mut a, mut b) = ([0; 16], [0; 16]);
        for (i, &(x, y)) in terms.iter().enumerate() {
            (a[i], b[i]) = (x, y);
        }
        core.dot(c, a, b)
    };
    let small = |exponent: i32| (power_of_two(exponent), ONE);
    let minus = (ONE | 0x8000, ONE);
    for (core, bits) in [(TensorCore::Hopper, 25), (TensorCore::Ampere, 24)] {
        // 1 - 1 + 2^-bits is kept; half of it is not.
        assert_eq!(dot(core, 1.0, &[minus, small(-bits)]), 2f32.powi(-bits), "{core:?}");
        assert_eq!(dot(core, 1.0, &[minus, small(-bits - 1)]), 0.0, "{core:?}");
        // Each term is cut by itself, towards zero: two halves do not make a whole, with either
        // sign.
        assert_eq!(dot(core, 1.0, &[minus, small(-bits - 1), small(-bits - 1)]), 0.0, "{core:?}");
        let negative = (power_of_two(-bits - 1) | 0x8000, ONE);
        assert_eq!(dot(core, 1.0, &[minus, negative, negative]), 0.0, "{core:?}");
        // The sum is cut towards zero: 1 + 2^-24 + 2^-24 is exact, 2 - 2^-24 is not, if the term is
        // kept at all.
        assert_eq!(dot(core, 1.0, &[small(-24), small(-24)]), 1.0 + 2f32.powi(-23), "{core:?}");
        let below = if bits == 25 { 2f32.powi(-23) } else { 0.0 };
        assert_eq!(dot(core, 2.0, &[(power_of_two(-24) | 0x8000, ONE)]), 2.0 - below, "{core:?}");
    }
    // Sixteen terms at once, or eight and eight: if the first eight cancel, the next terms keep
    // more bits.
    let mut terms = vec![(0, 0); 16];
    terms[0] = (ONE | 0x8000, ONE);
    terms[8] = small(-40);
    assert_eq!(dot(TensorCore::Hopper, 1.0, &terms), 0.0);
    assert_eq!(dot(TensorCore::Ampere, 1.0, &terms), 2f32.powi(-40));
}

#[test]
fn what_is_not_finite_follows_ieee_with_one_nan() {
    let infinity = 0x7f80u16;
    for core in [TensorCore::Hopper, TensorCore::Ampere] {
        let dot = |c: f32, first: (u16, u16), second: (u16, u16)| {
            let (mut a, mut b) = ([0; 16], [0; 16]);
            ((a[0], b[0]), (a[9], b[9])) = (first, second);
            core.dot(c, a, b)
        };
        let (one, zero) = ((ONE, ONE), (0, 0));
        for nan in [
            dot(f32::NAN, one, zero),
            dot(0.0, (0x7fc1, ONE), zero),
            dot(0.0, (infinity, 0), zero),
            dot(f32::NEG_INFINITY, (infinity, ONE), zero),
            dot(0.0, (infinity, ONE), (infinity | 0x8000, ONE)),
        ] {
            assert_eq!(nan.to_bits(), 0x7fff_ffff, "{core:?}");
        }
        assert_eq!(dot(1.0, (infinity, ONE), one), f32::INFINITY);
        assert_eq!(dot(f32::NEG_INFINITY, one, one), f32::NEG_INFINITY);
        // Too large for an f32 is infinite, though it was cut towards zero.
        assert_eq!(dot(0.0, (power_of_two(127), power_of_two(1)), zero), f32::INFINITY);
        assert_eq!(dot(0.0, (power_of_two(64), power_of_two(63)), zero), 2f32.powi(127));
    }
}

#[test]
fn a_chain_goes_over_blocks_of_sixteen_and_zeros_change_nothing() {
    let mut random = Random(9);
    for core in [TensorCore::Hopper, TensorCore::Ampere] {
        let a: Vec<u16> = (0..40).map(|_| random.bf16(120, 8)).collect();
        let b: Vec<u16> = (0..40).map(|_| random.bf16(120, 8)).collect();
        let block =
            |v: &[u16], at: usize| std::array::from_fn(|i| v.get(at + i).copied().unwrap_or(0));
        let by_hand =
            [0, 16, 32].iter().fold(0.5, |c, &at| core.dot(c, block(&a, at), block(&b, at)));
        assert_eq!(core.chain(0.5, &a, &b), by_hand);
        let mut longer = (a.clone(), b.clone());
        longer.0.extend([0; 40]);
        longer.1.extend([0; 40]);
        assert_eq!(core.chain(0.5, &longer.0, &longer.1), by_hand);
    }
}

/// Sums that GPUs have computed: see fixtures/README.md.
#[test]
fn sums_are_those_of_the_hardware() {
    let directory = std::env::var_os("ISENTROPE_TENSOR_CORE_CASES").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"),
        std::path::PathBuf::from,
    );
    for (name, core) in [
        ("a100", TensorCore::Ampere),
        ("l40s", TensorCore::Ampere),
        ("h100", TensorCore::Hopper),
        ("h200", TensorCore::Hopper),
        ("h200_near_zero", TensorCore::Hopper),
        ("b200", TensorCore::Hopper),
    ] {
        let text = std::fs::read_to_string(directory.join(name).with_extension("txt")).unwrap();
        let mut cases = 0;
        let mut otherwise = 0;
        for line in text.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let numbers = |text: &str| -> [u16; 16] {
                // Sums of 8 terms are followed by zeros.
                std::array::from_fn(|i| {
                    text.get(4 * i..4 * i + 4).map_or(0, |x| u16::from_str_radix(x, 16).unwrap())
                })
            };
            let single = |text: &str| f32::from_bits(u32::from_str_radix(text, 16).unwrap());
            let (a, b, c, d) =
                (numbers(fields[0]), numbers(fields[1]), single(fields[2]), single(fields[3]));
            assert_eq!(core.dot(c, a, b).to_bits(), d.to_bits(), "{name}: {line}");
            cases += 1;
            // The other generation gives another sum, so the cases tell them apart.
            let other =
                if core == TensorCore::Hopper { TensorCore::Ampere } else { TensorCore::Hopper };
            otherwise += usize::from(other.dot(c, a, b) != d);
        }
        assert!(
            cases >= 100 && otherwise > cases / 20,
            "{name}: {cases} cases, {otherwise} tell generations apart"
        );
    }
}
