//! AdamW (Loshchilov and Hutter, arXiv:1711.05101) in one pass, with clipping by the gradient's
//! global norm, and that norm.

use crate::erased::Buffer;
use crate::simd::{Kernel, LANES, Simd, load, store, vectors};
use crate::threads::{Shared, Workers};
use std::ops::Range;

/// Settings of one update. They are combined in f64, as in PyTorch, and rounded once.
#[derive(Clone, Copy, Debug)]
pub struct AdamW {
    /// Learning rate of this step.
    pub learning_rate: f64,
    /// Decay rate of the first moment.
    pub beta1: f64,
    /// Decay rate of the second moment.
    pub beta2: f64,
    /// Added to the square root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Number of this step, from 1: for the bias corrections.
    pub step: u32,
    /// Factor of gradients, applied first: `min(1, clip / norm)`, or 1.
    pub gradient_scale: f32,
}

/// The factors of an update's formula: combined in f64, each rounded once.
#[derive(Clone, Copy, Debug)]
pub struct UpdateFactors {
    /// Factor of the gradient, applied first.
    pub gradient_scale: f32,
    /// Factor of the weights: 1 less the decay.
    pub keep: f32,
    /// beta1.
    pub beta1: f32,
    /// 1 - beta1.
    pub one_minus_beta1: f32,
    /// beta2.
    pub beta2: f32,
    /// 1 - beta2.
    pub one_minus_beta2: f32,
    /// sqrt(1 - beta2^step), the bias correction, which divides the root of the second moment.
    pub sqrt_correction2: f32,
    /// Added to the second moment's root.
    pub eps: f32,
    /// Factor of the moments' quotient before it is added to the weights.
    pub rate: f32,
}

impl AdamW {
    /// The factors of this step.
    pub fn factors(self) -> UpdateFactors {
        let Self { learning_rate, beta1, beta2, eps, weight_decay, step, gradient_scale } = self;
        let correction = |beta: f64| 1.0 - libm::pow(beta, f64::from(step));
        UpdateFactors {
            gradient_scale,
            keep: (1.0 - learning_rate * weight_decay) as f32,
            beta1: beta1 as f32,
            one_minus_beta1: (1.0 - beta1) as f32,
            beta2: beta2 as f32,
            one_minus_beta2: (1.0 - beta2) as f32,
            sqrt_correction2: correction(beta2).sqrt() as f32,
            eps: eps as f32,
            rate: -(learning_rate / correction(beta1)) as f32,
        }
    }
}

/// Some elements of one parameter in an update.
pub struct UpdateSlice<'a> {
    /// The parameter's weights.
    pub weights: &'a mut Buffer,
    /// The range of elements.
    pub elements: Range<usize>,
    /// Their gradient, with the place of its first element in the buffer.
    pub gradient: (&'a Buffer, usize),
    /// The running mean of the gradient, for this range only.
    pub first: &'a mut Buffer,
    /// The running mean of the gradient's squares, for this range only.
    pub second: &'a mut Buffer,
}

/// Elements of a block. Squares are summed block by block, so that the norm does not depend on the
/// division of the work.
pub const NORM_BLOCK: usize = 4096;

/// The Euclidean norm of all tensors together, from the sums of squares of their blocks. Adds in
/// f64: first the blocks of each tensor in order, then the tensors.
pub fn norm<'a>(tensors: impl IntoIterator<Item = &'a [f32]>) -> f64 {
    let of_tensor = |sums: &[f32]| sums.iter().copied().map(f64::from).sum::<f64>();
    tensors.into_iter().map(of_tensor).sum::<f64>().sqrt()
}

/// The sum of squares of each block of each part: f32 chains in 16 lanes.
pub(crate) fn square_sums(workers: &Workers, parts: &[&[f32]]) -> Vec<f32> {
    // The first block of each part, and the end of all blocks.
    let mut starts = vec![0];
    starts.extend(parts.iter().scan(0, |end, x| {
        *end += x.len().div_ceil(NORM_BLOCK);
        Some(*end)
    }));
    let mut sums = vec![0.0f32; starts[parts.len()]];
    let shared = Shared::of(&mut sums);
    workers.threads.ranges(starts[parts.len()], 1, 8, |blocks| {
        for block in blocks {
            let part = starts.partition_point(|&start| start <= block) - 1;
            let (x, at) = (parts[part], (block - starts[part]) * NORM_BLOCK);
            let x = &x[at..(at + NORM_BLOCK).min(x.len())];
            // SAFETY: blocks are disjoint.
            unsafe { *shared.start().add(block) = workers.isa.run(SumOfSquares(x)) };
        }
    });
    sums
}

struct SumOfSquares<'a>(&'a [f32]);

impl Kernel for SumOfSquares<'_> {
    type Output = f32;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> f32 {
        // SAFETY: reads stay within the slice.
        unsafe {
            let mut sum = S::splat(0.0);
            vectors!(self.0.len(), |i, n| {
                let v = load::<S>(self.0.as_ptr().add(i), n);
                sum = S::fma(v, v, sum);
            });
            S::sum(sum)
        }
    }
}

/// Updates `weights` and both moments from `gradient`.
pub(crate) fn step(
    workers: &Workers,
    settings: AdamW,
    weights: &mut [f32],
    gradient: &[f32],
    first: &mut [f32],
    second: &mut [f32],
) {
    let len = weights.len();
    assert!(gradient.len() == len && first.len() == len && second.len() == len);
    let (weights, first, second) = (Shared::of(weights), Shared::of(first), Shared::of(second));
    workers.threads.ranges(len, LANES, 1 << 14, |range| {
        // SAFETY: ranges are disjoint; lengths were checked above.
        unsafe {
            workers.isa.run(Step {
                settings,
                weights: weights.start(),
                gradient: gradient.as_ptr(),
                first: first.start(),
                second: second.start(),
                range,
            });
        }
    });
}

struct Step {
    settings: AdamW,
    weights: *mut f32,
    gradient: *const f32,
    first: *mut f32,
    second: *mut f32,
    range: Range<usize>,
}

impl Kernel for Step {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let factors = self.settings.factors();
        // SAFETY: `step` checked the lengths.
        unsafe {
            let scale = S::splat(factors.gradient_scale);
            let keep = S::splat(factors.keep);
            let (b1, one_minus_beta1) =
                (S::splat(factors.beta1), S::splat(factors.one_minus_beta1));
            let (b2, one_minus_beta2) =
                (S::splat(factors.beta2), S::splat(factors.one_minus_beta2));
            let sqrt_correction2 = S::splat(factors.sqrt_correction2);
            let eps = S::splat(factors.eps);
            let rate = S::splat(factors.rate);
            let start = self.range.start;
            vectors!(self.range.len(), |i, n| {
                let i = start + i;
                let g = S::mul(load::<S>(self.gradient.add(i), n), scale);
                let m = S::fma(load::<S>(self.first.add(i), n), b1, S::mul(g, one_minus_beta1));
                let v = S::fma(
                    load::<S>(self.second.add(i), n),
                    b2,
                    S::mul(S::mul(g, g), one_minus_beta2),
                );
                let denominator = S::add(S::div(S::sqrt(v), sqrt_correction2), eps);
                let w = S::mul(load::<S>(self.weights.add(i), n), keep);
                store::<S>(self.first.add(i), m, n);
                store::<S>(self.second.add(i), v, n);
                store::<S>(self.weights.add(i), S::fma(S::div(m, denominator), rate, w), n);
            });
        }
    }
}
