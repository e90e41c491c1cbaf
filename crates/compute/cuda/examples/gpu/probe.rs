//! Compares the tensor core with the model of its bits, by the kernel that every product uses.

use crate::Scale;
use crate::report::Report;
use isentrope_cuda::Cuda;
use isentrope_cuda_emulator::TensorCore;
use isentrope_kernels::{Backend, Kind, Linear, Role};

/// Terms of one step of the tensor core.
const TERMS: usize = 16;

/// Random bits, the same ones every time.
pub struct Random(u64);

impl Random {
    /// From a place.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number in [-1, 1).
    pub fn number(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / 8_388_608.0 - 1.0
    }
}

/// The kinds of numbers tried.
struct Numbers {
    what: &'static str,
    /// The smallest biased exponent of a factor, and the number of exponents from there.
    exponents: (u64, u64),
    /// Whether half of all factors are zeros of both signs, and start values are tiny: zeros,
    /// subnormal numbers, and 2^-120.
    has_zeros: bool,
}

/// Checks sums of 16 products, each added to a start value: a weight's gradient over 16 tokens is
/// one step of the tensor core for each weight. The factors have the magnitudes of a model's
/// numbers, magnitudes far apart, nearly all magnitudes, and half of them zeros or subnormal
/// numbers. Short blocks are padded with zeros, so they rely on this: a zero changes no sum that is
/// not tiny.
pub fn probe(backend: &Cuda, scale: Scale, report: &mut Report) {
    let core = TensorCore::of(backend.device().limits().capability);
    let numbers = |what, exponents, has_zeros| Numbers { what, exponents, has_zeros };
    let kinds = [
        numbers("of like magnitudes", (120, 14), false),
        numbers("of 70 magnitudes", (90, 70), false),
        numbers("of 200 magnitudes", (20, 200), false),
        numbers("half of them zeros, of 28 magnitudes", (120, 28), true),
        numbers("half of them zeros, of the 21 least magnitudes", (0, 21), true),
        numbers("half of them zeros, of 150 magnitudes", (0, 150), true),
    ];
    let width = ((scale.probed / kinds.len()) as f64).sqrt().ceil() as usize;
    let width = width.next_multiple_of(8);
    let shape = Linear { inputs: width, outputs: width };
    let kind = Kind::Matrix(shape);
    for (seed, Numbers { what, exponents: (lowest, magnitudes), has_zeros }) in
        kinds.into_iter().enumerate()
    {
        let mut random = Random::new(seed as u64 + 1);
        let mut half = || {
            let bits = random.bits();
            let exponent = (lowest + (bits >> 8) % magnitudes).min(254);
            let magnitude =
                if has_zeros && bits >> 50 & 1 == 1 { 0 } else { exponent << 7 | bits >> 40 & 127 };
            ((bits & 1) << 15 | magnitude) as u16
        };
        let a: Vec<u16> = (0..TERMS * width).map(|_| half()).collect();
        let b: Vec<u16> = (0..TERMS * width).map(|_| half()).collect();
        let little =
            [0.0, -0.0, f32::from_bits(0x0001_2345), -f32::from_bits(0x0040_0001), 2f32.powi(-120)];
        let before: Vec<f32> = (0..width * width)
            .map(|place| match has_zeros {
                true => little[place % little.len()],
                false => f32::from_bits(u32::from(half()) << 16 | u32::from(half())),
            })
            .collect();
        let upload = |halves: &[u16]| {
            let mut buffer = backend.buffer(Role::Activation(TERMS, width));
            let wide: Vec<f32> =
                halves.iter().map(|&half| f32::from_bits(u32::from(half) << 16)).collect();
            backend.write(&mut buffer, 0, &wide);
            buffer
        };
        let (dy, x) = (upload(&a), upload(&b));
        let mut sums = backend.allocate(Role::Gradient(kind)).unwrap();
        backend.pack(kind, 0, &before, &mut sums);
        backend.linear_backward_weight(shape, &dy, &x, &mut sums, TERMS);
        let mut after = vec![0.0; width * width];
        backend.unpack(kind, 0, &sums, &mut after);

        let column =
            |of: &[u16], place: usize| std::array::from_fn(|term| of[term * width + place]);
        let columns: Vec<[u16; TERMS]> = (0..width).map(|place| column(&b, place)).collect();
        let (mut different, mut first) = (0, None);
        for output in 0..width {
            let of_a = column(&a, output);
            for (input, of_b) in columns.iter().enumerate() {
                let place = output * width + input;
                let should = core.dot(before[place], of_a, *of_b);
                let is_same = after[place].to_bits() == should.to_bits()
                    || (after[place].is_nan() && should.is_nan());
                if !is_same {
                    different += 1;
                    let bits = (before[place].to_bits(), after[place].to_bits(), should.to_bits());
                    first.get_or_insert_with(|| format!("{bits:x?} of {of_a:x?} and {of_b:x?}"));
                }
            }
        }
        let verdict = match first {
            None => Ok(format!("{} sums have the bits of {core:?}", width * width)),
            Some(first) => Err(format!(
                "{different} of {} sums differ from {core:?}; before, after and expected: {first}",
                width * width
            )),
        };
        report.verdict("tensor core", &format!("sums of 16 products {what}"), verdict);
    }
}
