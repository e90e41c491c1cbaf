//! The gates of attention's output (Qiu et al. 2025, arXiv:2505.06708): `y = x * sigmoid(gate)`.

use crate::math::sigmoid;
use crate::simd::{Kernel, LANES, Simd, load, store, vectors};
use crate::threads::{Shared, Workers};
use std::ops::Range;

/// Floats below which a task is not worth its hand-over.
const LEAST: usize = 8192;

/// `y = x * sigmoid(gate)`, element by element.
pub(crate) fn forward(workers: &Workers, x: &[f32], gate: &[f32], y: &mut [f32]) {
    assert!(x.len() == y.len() && gate.len() == y.len());
    let len = y.len();
    let y = Shared::of(y);
    workers.threads.ranges(len, LANES, LEAST, |range| {
        let (x, gate, y) = (x.as_ptr(), gate.as_ptr(), y.start());
        // SAFETY: ranges are disjoint; lengths were checked above.
        unsafe { workers.isa.run(Forward { x, gate, y, range }) };
    });
}

/// Replaces `gate` by its gradient and `dy` by that of `x`.
pub(crate) fn backward(workers: &Workers, x: &[f32], gate: &mut [f32], dy: &mut [f32]) {
    assert!(x.len() == dy.len() && gate.len() == dy.len());
    let len = dy.len();
    let (gate, dy) = (Shared::of(gate), Shared::of(dy));
    workers.threads.ranges(len, LANES, LEAST, |range| {
        let (x, gate, dy) = (x.as_ptr(), gate.start(), dy.start());
        // SAFETY: ranges are disjoint; lengths were checked above.
        unsafe { workers.isa.run(Backward { x, gate, dy, range }) };
    });
}

struct Forward {
    x: *const f32,
    gate: *const f32,
    y: *mut f32,
    range: Range<usize>,
}

impl Kernel for Forward {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: `forward` checked the lengths.
        unsafe {
            let first = self.range.start;
            vectors!(self.range.len(), |i, n| {
                let s = sigmoid::<S>(load::<S>(self.gate.add(first + i), n));
                let x = load::<S>(self.x.add(first + i), n);
                store::<S>(self.y.add(first + i), S::mul(x, s), n);
            });
        }
    }
}

struct Backward {
    x: *const f32,
    gate: *mut f32,
    dy: *mut f32,
    range: Range<usize>,
}

impl Kernel for Backward {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: `backward` checked the lengths.
        unsafe {
            let first = self.range.start;
            vectors!(self.range.len(), |i, n| {
                let (gate, dy) = (self.gate.add(first + i), self.dy.add(first + i));
                let s = sigmoid::<S>(load::<S>(gate, n));
                let (x, d) = (load::<S>(self.x.add(first + i), n), load::<S>(dy, n));
                let slope = S::mul(s, S::sub(S::splat(1.0), s));
                store::<S>(gate, S::mul(S::mul(d, x), slope), n);
                store::<S>(dy, S::mul(d, s), n);
            });
        }
    }
}
