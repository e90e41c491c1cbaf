//! Gated linear units (Shazeer 2020, arXiv:2002.05202): `y = f(gate) * up`, where a row of
//! `[tokens, 2 features]` holds the gate, then up.

use crate::math::sigmoid;
use crate::simd::{Kernel, Simd, load, store, vectors};
use crate::threads::{Shared, Workers};
use std::ops::Range;

/// Floats below which a task is not worth its hand-over.
const LEAST: usize = 8192;

/// The function of a gate. Each is `g sigmoid(u(g))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// SwiGLU: `u = g`.
    Silu,
    /// GeGLU with the tanh form of GELU, `g (1 + tanh(u / 2)) / 2`:
    /// `u = 2 sqrt(2 / pi) (g + 0.044715 g^3)`.
    GeluTanh,
}

/// `2 sqrt(2 / pi)`.
const GELU: f32 = 1.595_769_2;
/// `0.044715 * 2 sqrt(2 / pi)`.
const GELU_CUBIC: f32 = 0.071_354_814;

/// `u(g)` and its slope.
#[inline(always)]
unsafe fn argument<S: Simd, const IS_GELU: bool>(g: S::V) -> (S::V, S::V) {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        if !IS_GELU {
            return (g, S::splat(1.0));
        }
        let (square, linear) = (S::mul(g, g), S::splat(GELU));
        let u = S::mul(g, S::fma(square, S::splat(GELU_CUBIC), linear));
        (u, S::fma(square, S::splat(3.0 * GELU_CUBIC), linear))
    }
}

/// `gate_up: [tokens, 2 features]`, `y: [tokens, features]`.
pub(crate) fn forward(
    workers: &Workers,
    gate: Gate,
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
            let (gate_up, y) = (gate_up.as_ptr(), y.start());
            match gate {
                Gate::Silu => workers.isa.run(Forward::<false> { features, gate_up, y, range }),
                Gate::GeluTanh => workers.isa.run(Forward::<true> { features, gate_up, y, range }),
            }
        }
    });
}

struct Forward<const IS_GELU: bool> {
    features: usize,
    gate_up: *const f32,
    y: *mut f32,
    range: Range<usize>,
}

impl<const IS_GELU: bool> Kernel for Forward<IS_GELU> {
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
                    let (u, _) = argument::<S, IS_GELU>(g);
                    let gated = S::mul(g, sigmoid::<S>(u));
                    store::<S>(y.add(i), S::mul(gated, load::<S>(up.add(i), n)), n);
                });
            }
        }
    }
}

/// Replaces `gate_up` by its gradient, and `dy` by the forward pass's y, which the layer above the
/// product needs for its own weight gradient.
pub(crate) fn backward(
    workers: &Workers,
    gate: Gate,
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
            let (dy, gate_up) = (dy.start(), gate_up.start());
            match gate {
                Gate::Silu => workers.isa.run(Backward::<false> { features, dy, gate_up, range }),
                Gate::GeluTanh => {
                    workers.isa.run(Backward::<true> { features, dy, gate_up, range });
                }
            }
        }
    });
}

struct Backward<const IS_GELU: bool> {
    features: usize,
    dy: *mut f32,
    gate_up: *mut f32,
    range: Range<usize>,
}

impl<const IS_GELU: bool> Kernel for Backward<IS_GELU> {
    type Output = ();

    /// `f(g) = g s`, `f'(g) = s (1 + g u' (1 - s))`, with `s = sigmoid(u(g))`.
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
                    let (argument, du) = argument::<S, IS_GELU>(g);
                    let s = sigmoid::<S>(argument);
                    let gated = S::mul(g, s);
                    let slope = S::mul(s, S::fma(S::mul(g, du), S::sub(one, s), one));
                    store::<S>(dy.add(i), S::mul(gated, u), n);
                    store::<S>(gate.add(i), S::mul(S::mul(d, u), slope), n);
                    store::<S>(up.add(i), S::mul(d, gated), n);
                });
            }
        }
    }
}
