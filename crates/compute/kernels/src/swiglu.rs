//! SwiGLU: `y = silu(gate) * up`, where a row of `[tokens, 2 features]` holds the gate, then up.

use crate::math::sigmoid;
use crate::simd::{Kernel, Simd, load, store, vectors};
use crate::threads::{Shared, Workers};
use std::ops::Range;

/// Floats below which a task is not worth its hand-over.
const LEAST: usize = 8192;

/// `gate_up: [tokens, 2 features]`, `y: [tokens, features]`.
pub(crate) fn forward(
    workers: &Workers,
    features: usize,
    gate_up: &[f32],
    y: &mut [f32],
    tokens: usize,
) {
    assert!(gate_up.len() >= tokens * 2 * features && y.len() >= tokens * features);
    let y = Shared::of(y);
    workers.threads.ranges(tokens, 1, (LEAST / features).max(1), |range| {
        // SAFETY: rows are disjoint; lengths were checked above.
        unsafe {
            workers.isa.run(Forward { features, gate_up: gate_up.as_ptr(), y: y.start(), range });
        }
    });
}

struct Forward {
    features: usize,
    gate_up: *const f32,
    y: *mut f32,
    range: Range<usize>,
}

impl Kernel for Forward {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for row in self.range {
            // SAFETY: `forward` checked the lengths.
            unsafe {
                let gate = self.gate_up.add(row * 2 * self.features);
                let up = gate.add(self.features);
                let y = self.y.add(row * self.features);
                vectors!(self.features, |i, n| {
                    let g = load::<S>(gate.add(i), n);
                    let silu = S::mul(g, sigmoid::<S>(g));
                    store::<S>(y.add(i), S::mul(silu, load::<S>(up.add(i), n)), n);
                });
            }
        }
    }
}

/// Replaces `gate_up` by its gradient, and `dy` by the forward pass's y, which the layer above the
/// product needs for its own weight gradient.
pub(crate) fn backward(
    workers: &Workers,
    features: usize,
    dy: &mut [f32],
    gate_up: &mut [f32],
    tokens: usize,
) {
    assert!(gate_up.len() >= tokens * 2 * features && dy.len() >= tokens * features);
    let (dy, gate_up) = (Shared::of(dy), Shared::of(gate_up));
    workers.threads.ranges(tokens, 1, (LEAST / features).max(1), |range| {
        // SAFETY: rows are disjoint; lengths were checked above.
        unsafe {
            workers.isa.run(Backward { features, dy: dy.start(), gate_up: gate_up.start(), range });
        }
    });
}

struct Backward {
    features: usize,
    dy: *mut f32,
    gate_up: *mut f32,
    range: Range<usize>,
}

impl Kernel for Backward {
    type Output = ();

    /// `silu(g) = g s`, `silu'(g) = s (1 + g (1 - s))`, with `s = sigmoid(g)`.
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: `backward` checked the lengths.
        unsafe {
            let one = S::splat(1.0);
            for row in self.range {
                let gate = self.gate_up.add(row * 2 * self.features);
                let up = gate.add(self.features);
                let dy = self.dy.add(row * self.features);
                vectors!(self.features, |i, n| {
                    let (g, u) = (load::<S>(gate.add(i), n), load::<S>(up.add(i), n));
                    let d = load::<S>(dy.add(i), n);
                    let s = sigmoid::<S>(g);
                    let silu = S::mul(g, s);
                    let slope = S::mul(s, S::fma(g, S::sub(one, s), one));
                    store::<S>(dy.add(i), S::mul(silu, u), n);
                    store::<S>(gate.add(i), S::mul(S::mul(d, u), slope), n);
                    store::<S>(up.add(i), S::mul(d, silu), n);
                });
            }
        }
    }
}
