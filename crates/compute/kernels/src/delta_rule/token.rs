//! The arithmetic of one token in one key head.

use super::{DeltaRule, DeltaWeights};
use crate::math::{exp, ln_1p, sigmoid};
use crate::simd::{LANES, Simd};
use std::ops::Range;

/// Added to the sum of squares of a query and of a key, as published.
const UNIT_EPS: f32 = 1e-6;

/// The weights, as pointers.
pub(super) type Weights = DeltaWeights<*const f32>;

/// A token's queries, keys and values, before (`pre`) and behind SiLU, and unit vectors.
pub(super) struct Inputs {
    /// `[key_dim + key_dim + group * value_dim]`.
    pub pre: Vec<f32>,
    /// As `pre`: queries and keys are unit vectors, queries scaled.
    pub vectors: Vec<f32>,
    /// `1 / norm` of the query and of the key.
    pub inverse: [f32; 2],
    /// The rows that the convolution sees, the oldest first: null where there are none before the
    /// sequence.
    pub rows: Vec<*const f32>,
}

impl Inputs {
    pub fn new(shape: DeltaRule) -> Self {
        let len = 2 * shape.key_dim + shape.group() * shape.value_dim;
        let rows = vec![std::ptr::null(); shape.taps];
        Self { pre: vec![0.0; len], vectors: vec![0.0; len], inverse: [0.0; 2], rows }
    }

    pub fn query(&self) -> *const f32 {
        self.vectors.as_ptr()
    }

    pub fn key(&self, shape: DeltaRule) -> *const f32 {
        self.vectors[shape.key_dim..].as_ptr()
    }

    /// The value of the group's value head `number`.
    pub fn value(&self, shape: DeltaRule, number: usize) -> *const f32 {
        self.vectors[2 * shape.key_dim + number * shape.value_dim..].as_ptr()
    }

    /// Fills in a token of a key head from its [`rows`](Self::rows).
    ///
    /// # Safety
    /// Weights and rows have the shape's extents.
    #[inline(always)]
    pub unsafe fn fill<S: Simd>(&mut self, shape: DeltaRule, conv: *const f32, key_head: usize) {
        // SAFETY: the caller's promise; both vectors have the lengths of `new`.
        unsafe {
            let mut place = 0;
            for channels in shape.channels_of(key_head) {
                for channel in channels.step_by(LANES) {
                    let (start, stride) = shape.convolution().row(channel);
                    let mut sum = S::splat(0.0);
                    for (tap, row) in self.rows.iter().enumerate() {
                        if !row.is_null() {
                            let w = S::load(conv.add(start + tap * stride));
                            sum = S::fma(w, S::load(row.add(channel)), sum);
                        }
                    }
                    S::store(self.pre.as_mut_ptr().add(place), sum);
                    let active = S::mul(sum, sigmoid::<S>(sum));
                    S::store(self.vectors.as_mut_ptr().add(place), active);
                    place += LANES;
                }
            }
            let dim = shape.key_dim;
            for (i, scale) in [shape.query_scale(), 1.0].into_iter().enumerate() {
                let x = self.vectors.as_mut_ptr().add(i * dim);
                let inverse = 1.0 / (dot::<S>(x, x, dim) + UNIT_EPS).sqrt();
                self.inverse[i] = inverse;
                for at in (0..dim).step_by(LANES) {
                    let unit = S::mul(S::load(x.add(at)), S::splat(inverse));
                    let unit = if i == 0 { S::mul(unit, S::splat(scale)) } else { unit };
                    S::store(x.add(at), unit);
                }
            }
        }
    }
}

/// The two gates of a token and value head, and their parts.
#[derive(Clone, Copy)]
pub(super) struct Gates {
    pub beta: f32,
    /// `-exp(a_log) softplus(a + dt_bias)`.
    pub log_decay: f32,
    pub decay: f32,
    /// `-exp(a_log) sigmoid(a + dt_bias)`: the derivative of `log_decay` by a.
    pub slope: f32,
}

impl Gates {
    /// # Safety
    /// Weights and the row have the shape's extents.
    #[inline(always)]
    pub unsafe fn of<S: Simd>(
        shape: DeltaRule,
        weights: &Weights,
        row: *const f32,
        value_head: usize,
    ) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let [_, b, a] = shape.gates_of(value_head);
            let x = *row.add(a) + *weights.dt_bias.add(value_head);
            // softplus(x) = max(x, 0) + ln(1 + e^-|x|).
            let softplus = x.max(0.0) + ln_1p(lane::<S>(exp::<S>(S::splat(-x.abs()))));
            let rate = -lane::<S>(exp::<S>(S::splat(*weights.a_log.add(value_head))));
            let log_decay = rate * softplus;
            Self {
                beta: lane::<S>(sigmoid::<S>(S::splat(*row.add(b)))),
                log_decay,
                decay: lane::<S>(exp::<S>(S::splat(log_decay))),
                slope: rate * lane::<S>(sigmoid::<S>(S::splat(x))),
            }
        }
    }
}

/// The first lane.
#[inline(always)]
unsafe fn lane<S: Simd>(v: S::V) -> f32 {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { S::to_array(v)[0] }
}

/// Turns a head's matrix by one token, and writes `u` and `o`, `[value_dim]` each. Columns are
/// independent of each other.
///
/// # Safety
/// Pointers have the shape's extents.
#[inline(always)]
pub(super) unsafe fn advance<S: Simd>(
    shape: DeltaRule,
    matrix: *mut f32,
    (query, key, value): (*const f32, *const f32, *const f32),
    gates: Gates,
    u: *mut f32,
    o: *mut f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut column = 0;
        while column < shape.value_dim {
            let (matrix, value) = (matrix.add(column), value.add(column));
            let (u, o) = (u.add(column), o.add(column));
            if shape.value_dim - column >= 4 * LANES {
                columns::<S, 4>(shape, matrix, (query, key, value), gates, u, o);
                column += 4 * LANES;
            } else {
                columns::<S, 1>(shape, matrix, (query, key, value), gates, u, o);
                column += LANES;
            }
        }
    }
}

/// `N` vectors of columns.
#[inline(always)]
unsafe fn columns<S: Simd, const N: usize>(
    shape: DeltaRule,
    matrix: *mut f32,
    (query, key, value): (*const f32, *const f32, *const f32),
    gates: Gates,
    u: *mut f32,
    o: *mut f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let decay = S::splat(gates.decay);
        let mut read = [S::splat(0.0); N];
        for i in 0..shape.key_dim {
            let (row, k) = (matrix.add(i * shape.value_dim), S::splat(*key.add(i)));
            for (n, sum) in read.iter_mut().enumerate() {
                let s = S::mul(decay, S::load(row.add(n * LANES)));
                S::store(row.add(n * LANES), s);
                *sum = S::fma(k, s, *sum);
            }
        }
        let mut written = [S::splat(0.0); N];
        for (n, written) in written.iter_mut().enumerate() {
            let missing = S::sub(S::load(value.add(n * LANES)), read[n]);
            S::store(u.add(n * LANES), missing);
            *written = S::mul(S::splat(gates.beta), missing);
        }
        let mut out = [S::splat(0.0); N];
        for i in 0..shape.key_dim {
            let row = matrix.add(i * shape.value_dim);
            let (k, q) = (S::splat(*key.add(i)), S::splat(*query.add(i)));
            for (n, sum) in out.iter_mut().enumerate() {
                let s = S::fma(k, written[n], S::load(row.add(n * LANES)));
                S::store(row.add(n * LANES), s);
                *sum = S::fma(q, s, *sum);
            }
        }
        for (n, sum) in out.into_iter().enumerate() {
            S::store(o.add(n * LANES), sum);
        }
    }
}

/// `1 / sqrt(mean(o^2) + eps)`.
///
/// # Safety
/// `o` has `value_dim` numbers.
#[inline(always)]
pub(super) unsafe fn inverse_rms<S: Simd>(shape: DeltaRule, o: *const f32) -> f32 {
    // SAFETY: the caller's promise.
    let squares = unsafe { dot::<S>(o, o, shape.value_dim) };
    1.0 / (squares / shape.value_dim as f32 + shape.eps).sqrt()
}

/// The product of two vectors in 16 partial sums; `n` is a multiple of 16.
///
/// # Safety
/// Both have `n` numbers.
#[inline(always)]
pub(super) unsafe fn dot<S: Simd>(a: *const f32, b: *const f32, n: usize) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = S::splat(0.0);
        for i in (0..n).step_by(LANES) {
            sums = S::fma(S::load(a.add(i)), S::load(b.add(i)), sums);
        }
        S::sum(sums)
    }
}

/// The rows that the convolution of row `i` of a run sees, the oldest first: from `before`, which
/// has the `taps - 1` rows before the run, then from the run's own, `[rows, stride]`.
///
/// # Safety
/// The run has more than `i` rows.
#[inline(always)]
pub(super) unsafe fn window(
    before: &[*const f32],
    own: *const f32,
    stride: usize,
    i: usize,
    rows: &mut [*const f32],
) {
    let history = before.len();
    for (tap, row) in rows.iter_mut().enumerate() {
        let at = i + tap;
        *row = match at.checked_sub(history) {
            // SAFETY: `at - history <= i`.
            Some(own_row) => unsafe { own.add(own_row * stride) },
            None => before[at],
        };
    }
}

/// The `taps - 1` rows before a run that continues the run in `rows`; null before its first.
///
/// # Safety
/// The rows are there.
pub(super) unsafe fn rows_before(
    shape: DeltaRule,
    mixed: *const f32,
    rows: Option<Range<usize>>,
) -> Vec<*const f32> {
    let history = shape.taps - 1;
    let rows = rows.unwrap_or(0..0);
    (0..history)
        .map(|i| match (rows.len() + i).checked_sub(history) {
            // SAFETY: the row is below the run's end.
            Some(row) => unsafe { mixed.add((rows.start + row) * shape.row()) },
            None => std::ptr::null(),
        })
        .collect()
}
