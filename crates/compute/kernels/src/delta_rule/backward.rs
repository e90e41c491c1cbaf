//! Backward. A task for each key head goes through the sequences in order. It computes a run's
//! matrices again, keeps them every [`SEGMENT`] tokens, and goes back through one segment after the
//! other. The gradient of a shared prompt's last state is the sum over the runs that continue it,
//! in order. Gradients of weights go on from the sums so far, over the rows in order.

use super::token::{Gates, Inputs, Weights, advance, dot, inverse_rms, rows_before, window};
use super::{DeltaRule, DeltaWeights, check_batch, continued};
use crate::batch::{CheckedBatch, Run};
use crate::math::sigmoid;
use crate::simd::{Kernel, LANES, Simd};
use crate::threads::{Shared, Workers};

/// Tokens between kept states.
pub(super) const SEGMENT: usize = 32;

/// Replaces `d_mixed: [rows, row]` by the gradient of `mixed`, and adds to the gradients of the
/// weights if they are wanted. `dy: [rows, value features]` is the gradient of the output; the runs
/// are whole sequences, as [`forward`](super::forward) takes them without states.
#[allow(clippy::too_many_arguments, reason = "the operands of one gradient")]
pub(crate) fn backward(
    workers: &Workers,
    shape: DeltaRule,
    weights: DeltaWeights<&[f32]>,
    mixed: &[f32],
    batch: &CheckedBatch,
    dy: &[f32],
    d_mixed: &mut [f32],
    d_weights: Option<DeltaWeights<&mut [f32]>>,
) {
    shape.check(weights);
    let rows = batch.host().rows();
    let most = mixed.len().min(d_mixed.len()) / shape.row();
    check_batch(batch, most.min(dy.len() / shape.value_features()), None);
    if let Some(weights) = &d_weights {
        assert!(weights.conv.len() >= shape.convolution().packed_len());
        assert!(weights.a_log.len() >= shape.value_heads);
        assert!(weights.dt_bias.len() >= shape.value_heads);
        assert!(weights.norm.len() >= shape.value_dim);
    }
    let mut outputs = vec![0.0; rows * shape.value_features()];
    let mut d_rates = vec![0.0; rows * shape.value_heads];
    d_mixed[..rows * shape.row()].fill(0.0); // rows in no run
    let pointer = |x: &[f32]| Shared::at(x.as_ptr().cast_mut());
    let (mixed, dy) = (pointer(mixed), pointer(dy));
    let weights = weights.map(pointer);
    let (to, outputs, rates) =
        (Shared::of(d_mixed), Shared::of(&mut outputs), Shared::of(&mut d_rates));
    let d_weights = d_weights.map(|weights| weights.map(Shared::of));
    let task = |key_head: usize| Backward {
        shape,
        weights: weights.map(|weight| weight.start().cast_const()),
        mixed: mixed.start(),
        dy: dy.start(),
        runs: &batch.host().runs,
        d_mixed: to.start(),
        outputs: outputs.start(),
        d_rates: rates.start(),
        d_weights: d_weights.map(|weights| weights.map(Shared::start)),
        key_head,
    };
    workers.threads.each(shape.key_heads, |key_head| {
        // SAFETY: lengths were checked above; tasks write their own heads' parts.
        unsafe { workers.isa.run(task(key_head)) };
    });
    if let Some(weights) = d_weights {
        let d_norm = weights.norm;
        workers.threads.each(shape.value_dim / LANES, |block| {
            let (task, d_norm) = (task(0), d_norm.start());
            // SAFETY: as above; tasks write other features.
            unsafe { workers.isa.run(NormGradient { task, rows, d_norm, column: block * LANES }) };
        });
    }
}

struct Backward<'a> {
    shape: DeltaRule,
    weights: Weights,
    mixed: *const f32,
    dy: *const f32,
    runs: &'a [Run],
    d_mixed: *mut f32,
    /// Outputs before their norm, `[rows, value features]`.
    outputs: *mut f32,
    /// Derivatives by `a_log`, `[rows, value heads]`.
    d_rates: *mut f32,
    d_weights: Option<DeltaWeights<*mut f32>>,
    key_head: usize,
}

/// The matrices of a key head's value heads, and what the way back through a token needs.
struct Scratch {
    inputs: Inputs,
    /// The matrices before each token of a segment, and behind the last.
    segment: Vec<f32>,
    /// `u` of each token of a segment.
    missing: Vec<f32>,
    /// The gradient of the matrices behind a token.
    d_matrices: Vec<f32>,
    /// The gradient of unit queries and keys, then of a token's `o` and `v`.
    d_vectors: Vec<f32>,
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let shape = self.shape;
        let len = shape.group() * shape.matrix();
        let mut scratch = Scratch {
            inputs: Inputs::new(shape),
            segment: vec![0.0; (SEGMENT + 1) * len],
            missing: vec![0.0; SEGMENT * shape.group() * shape.value_dim],
            d_matrices: vec![0.0; len],
            d_vectors: vec![0.0; 2 * shape.key_dim + 3 * shape.value_dim],
        };
        let mut number = 0;
        while number < self.runs.len() {
            let end = self.continued_until(number);
            let run = &self.runs[number];
            // SAFETY: `backward` checked the extents.
            unsafe {
                let before = rows_before(shape, self.mixed, None);
                let mut last = vec![0.0; len];
                let kept = self.checkpoints::<S>(&mut scratch, run, &before, &mut last);
                let mut d_last = vec![0.0; len];
                for continuing in &self.runs[number + 1..end] {
                    let rows = run.row..run.row + run.len;
                    let before = rows_before(shape, self.mixed, Some(rows));
                    let mut matrices = last.clone();
                    let kept =
                        self.checkpoints::<S>(&mut scratch, continuing, &before, &mut matrices);
                    scratch.d_matrices.fill(0.0);
                    self.back::<S>(&mut scratch, continuing, &before, &kept);
                    d_last.iter_mut().zip(&scratch.d_matrices).for_each(|(sum, d)| *sum += d);
                }
                scratch.d_matrices.copy_from_slice(&d_last);
                self.back::<S>(&mut scratch, run, &before, &kept);
            }
            number = end;
        }
        // SAFETY: as above.
        unsafe {
            self.weight_gradients::<S>();
            self.convolution_backward::<S>();
        }
    }
}

impl Backward<'_> {
    /// The end of the runs that continue a run.
    fn continued_until(&self, number: usize) -> usize {
        let behind = self.runs[number + 1..].iter();
        number + 1 + behind.take_while(|run| run.position > 0).count()
    }

    /// Goes through a run's tokens from `matrices`, which become the last ones, and stores `o` of
    /// each. Returns the matrices before each segment.
    #[inline(always)]
    unsafe fn checkpoints<S: Simd>(
        &self,
        scratch: &mut Scratch,
        run: &Run,
        before: &[*const f32],
        matrices: &mut [f32],
    ) -> Vec<f32> {
        let mut kept = Vec::with_capacity(run.len.div_ceil(SEGMENT) * matrices.len());
        let Scratch { inputs, missing, .. } = scratch;
        for i in 0..run.len {
            if i.is_multiple_of(SEGMENT) {
                kept.extend_from_slice(matrices);
            }
            // SAFETY: the caller's promise.
            unsafe { self.token::<S>(inputs, run, before, i, matrices, missing.as_mut_ptr()) };
        }
        kept
    }

    /// Computes row `i` of a run again: the inputs, the matrices behind it, its `u` and its `o`.
    #[inline(always)]
    unsafe fn token<S: Simd>(
        &self,
        inputs: &mut Inputs,
        run: &Run,
        before: &[*const f32],
        i: usize,
        matrices: &mut [f32],
        missing: *mut f32,
    ) {
        let shape = self.shape;
        // SAFETY: the caller's promise.
        unsafe {
            self.fill::<S>(inputs, run, before, i);
            let row = self.mixed.add((run.row + i) * shape.row());
            for (number, head) in shape.value_heads_of(self.key_head).enumerate() {
                let gates = Gates::of::<S>(shape, &self.weights, row, head);
                let vectors = (inputs.query(), inputs.key(shape), inputs.value(shape, number));
                let matrix = matrices.as_mut_ptr().add(number * shape.matrix());
                let u = missing.add(number * shape.value_dim);
                advance::<S>(shape, matrix, vectors, gates, u, self.output(run.row + i, head));
            }
        }
    }

    #[inline(always)]
    unsafe fn fill<S: Simd>(
        &self,
        inputs: &mut Inputs,
        run: &Run,
        before: &[*const f32],
        i: usize,
    ) {
        let shape = self.shape;
        // SAFETY: the caller's promise.
        unsafe {
            let own = self.mixed.add(run.row * shape.row());
            window(before, own, shape.row(), i, &mut inputs.rows);
            inputs.fill::<S>(shape, self.weights.conv, self.key_head);
        }
    }

    unsafe fn output(&self, row: usize, head: usize) -> *mut f32 {
        let at = row * self.shape.value_features() + head * self.shape.value_dim;
        // SAFETY: the caller's promise.
        unsafe { self.outputs.add(at) }
    }

    /// Goes back through a run from the gradient of its last matrices, which becomes that of the
    /// matrices before it. Writes the gradients of the convolution's sums, of z, b and a.
    #[inline(always)]
    unsafe fn back<S: Simd>(
        &self,
        scratch: &mut Scratch,
        run: &Run,
        before: &[*const f32],
        kept: &[f32],
    ) {
        let shape = self.shape;
        let len = shape.group() * shape.matrix();
        for (number, kept) in kept.chunks_exact(len).enumerate().rev() {
            let first = number * SEGMENT;
            let count = SEGMENT.min(run.len - first);
            scratch.segment[..len].copy_from_slice(kept);
            for i in 0..count {
                let (done, next) = scratch.segment.split_at_mut((i + 1) * len);
                next[..len].copy_from_slice(&done[i * len..]);
                let missing = &mut scratch.missing[i * shape.group() * shape.value_dim..];
                // SAFETY: the caller's promise.
                unsafe {
                    let u = missing.as_mut_ptr();
                    self.token::<S>(
                        &mut scratch.inputs,
                        run,
                        before,
                        first + i,
                        &mut next[..len],
                        u,
                    );
                }
            }
            for i in (0..count).rev() {
                // SAFETY: the caller's promise.
                unsafe {
                    self.fill::<S>(&mut scratch.inputs, run, before, first + i);
                    self.token_back::<S>(scratch, run.row + first + i, i);
                }
            }
        }
    }

    /// Goes back through token `i` of a segment, which is `row` of the batch.
    #[inline(always)]
    unsafe fn token_back<S: Simd>(&self, scratch: &mut Scratch, row: usize, i: usize) {
        let shape = self.shape;
        let (keys, values, matrix) = (shape.key_dim, shape.value_dim, shape.matrix());
        let len = shape.group() * matrix;
        // SAFETY: the caller's promise; scratch has the lengths that `run` gave it.
        unsafe {
            let mixed = self.mixed.add(row * shape.row());
            let d_mixed = self.d_mixed.add(row * shape.row());
            scratch.d_vectors[..2 * keys].fill(0.0);
            let d_query = scratch.d_vectors.as_mut_ptr();
            let d_key = d_query.add(keys);
            let d_o = d_key.add(keys);
            let d_missing = d_o.add(values);
            let written = d_missing.add(values);
            let inputs = &scratch.inputs;
            let [q_channels, k_channels, v_channels] = shape.channels_of(self.key_head);
            for (number, head) in shape.value_heads_of(self.key_head).enumerate() {
                let [z, b, a] = shape.gates_of(head);
                let gates = Gates::of::<S>(shape, &self.weights, mixed, head);
                self.output_back::<S>(row, head, mixed.add(z), d_mixed.add(z), d_o);

                let earlier = scratch.segment.as_ptr().add(i * len + number * matrix);
                let later = earlier.add(len);
                let d_matrix = scratch.d_matrices.as_mut_ptr().add(number * matrix);
                let u = scratch.missing.as_ptr().add((i * shape.group() + number) * values);
                for c in (0..values).step_by(LANES) {
                    let u = S::load(u.add(c));
                    S::store(written.add(c), S::mul(S::splat(gates.beta), u));
                    S::store(d_missing.add(c), S::splat(0.0));
                }
                // Through o = S^T q and S = S' + k written^T.
                for j in 0..keys {
                    let (q, k) = (*inputs.query().add(j), *inputs.key(shape).add(j));
                    let (later, d_row) = (later.add(j * values), d_matrix.add(j * values));
                    let (mut by_query, mut by_key) = (S::splat(0.0), S::splat(0.0));
                    for c in (0..values).step_by(LANES) {
                        let d_o = S::load(d_o.add(c));
                        let d = S::fma(S::splat(q), d_o, S::load(d_row.add(c)));
                        S::store(d_row.add(c), d);
                        let sum = S::fma(S::splat(k), d, S::load(d_missing.add(c)));
                        S::store(d_missing.add(c), sum);
                        by_query = S::fma(S::load(later.add(c)), d_o, by_query);
                        by_key = S::fma(d, S::load(written.add(c)), by_key);
                    }
                    *d_query.add(j) += S::sum(by_query);
                    *d_key.add(j) += S::sum(by_key);
                }
                // d_missing is the gradient of `written = beta u` so far.
                let d_beta = dot::<S>(d_missing, u, values);
                *d_mixed.add(b) = d_beta * (gates.beta * (1.0 - gates.beta));
                let first = v_channels.start + number * values;
                let place = 2 * keys + number * values;
                for c in (0..values).step_by(LANES) {
                    let d = S::mul(S::splat(gates.beta), S::load(d_missing.add(c)));
                    S::store(d_missing.add(c), S::sub(S::splat(0.0), d));
                    let pre = S::load(inputs.pre.as_ptr().add(place + c));
                    S::store(d_mixed.add(first + c), S::mul(d, silu_slope::<S>(pre)));
                }
                // Through u = v - S'^T k and S' = decay S; d_missing is minus the gradient of u.
                let mut by_decay = S::splat(0.0);
                for j in 0..keys {
                    let k = S::splat(*inputs.key(shape).add(j));
                    let (earlier, d_row) = (earlier.add(j * values), d_matrix.add(j * values));
                    let decay = S::splat(gates.decay);
                    let mut by_key = S::splat(0.0);
                    for c in (0..values).step_by(LANES) {
                        let d_u = S::load(d_missing.add(c));
                        let s = S::load(earlier.add(c));
                        by_key = S::fma(S::mul(decay, s), d_u, by_key);
                        let d = S::fma(k, d_u, S::load(d_row.add(c)));
                        by_decay = S::fma(d, s, by_decay);
                        S::store(d_row.add(c), S::mul(decay, d));
                    }
                    *d_key.add(j) += S::sum(by_key);
                }
                let d_log_decay = S::sum(by_decay) * gates.decay;
                *d_mixed.add(a) = d_log_decay * gates.slope;
                *self.d_rates.add(row * shape.value_heads + head) = d_log_decay * gates.log_decay;
            }
            self.unit_back::<S>(inputs, 0, d_query, d_mixed.add(q_channels.start));
            self.unit_back::<S>(inputs, 1, d_key, d_mixed.add(k_channels.start));
        }
    }

    /// Through `norm(o) * silu(z)`.
    #[inline(always)]
    unsafe fn output_back<S: Simd>(
        &self,
        row: usize,
        head: usize,
        z: *const f32,
        dz: *mut f32,
        d_o: *mut f32,
    ) {
        let shape = self.shape;
        let values = shape.value_dim;
        // SAFETY: the caller's promise.
        unsafe {
            let dy = self.dy.add(row * shape.value_features() + head * values);
            let o = self.output(row, head);
            let inverse = inverse_rms::<S>(shape, o);
            let mut along = S::splat(0.0);
            for c in (0..values).step_by(LANES) {
                let (z, dy) = (S::load(z.add(c)), S::load(dy.add(c)));
                let w = S::load(self.weights.norm.add(c));
                let unit = S::mul(S::load(o.add(c)), S::splat(inverse));
                let gate = S::mul(z, sigmoid::<S>(z));
                let of_normed = S::mul(dy, gate);
                S::store(dz.add(c), S::mul(S::mul(dy, S::mul(unit, w)), silu_slope::<S>(z)));
                let of_unit = S::mul(of_normed, w);
                S::store(d_o.add(c), of_unit);
                along = S::fma(of_unit, unit, along);
            }
            let mean = S::splat(S::sum(along) / values as f32);
            for c in (0..values).step_by(LANES) {
                let unit = S::mul(S::load(o.add(c)), S::splat(inverse));
                let d = S::sub(S::load(d_o.add(c)), S::mul(unit, mean));
                S::store(d_o.add(c), S::mul(S::splat(inverse), d));
            }
        }
    }

    /// From the gradient of a query (0) or key (1) to that of the convolution's sums.
    #[inline(always)]
    unsafe fn unit_back<S: Simd>(&self, inputs: &Inputs, which: usize, d: *mut f32, to: *mut f32) {
        let shape = self.shape;
        let keys = shape.key_dim;
        // SAFETY: the caller's promise.
        unsafe {
            let vector = inputs.vectors.as_ptr().add(which * keys);
            let pre = inputs.pre.as_ptr().add(which * keys);
            let (inverse, scale) =
                (inputs.inverse[which], if which == 0 { shape.query_scale() } else { 1.0 });
            // vector = scale unit.
            let along = dot::<S>(vector, d, keys);
            for c in (0..keys).step_by(LANES) {
                let of_unit = S::mul(S::splat(scale), S::load(d.add(c)));
                let unit = S::mul(S::load(vector.add(c)), S::splat(1.0 / scale));
                let tangent = S::sub(of_unit, S::mul(unit, S::splat(along)));
                let of_active = S::mul(S::splat(inverse), tangent);
                let slope = silu_slope::<S>(S::load(pre.add(c)));
                S::store(to.add(c), S::mul(of_active, slope));
            }
        }
    }

    /// Adds to the gradients of this key head's convolution, `a_log` and `dt_bias`, over the rows
    /// in order.
    #[inline(always)]
    unsafe fn weight_gradients<S: Simd>(&self) {
        let (shape, Some(weights)) = (self.shape, self.d_weights) else { return };
        let mut rows = vec![std::ptr::null(); shape.taps];
        for (number, run) in self.runs.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let before = continued(self.runs, number).map(|run| run.row..run.row + run.len);
                let before = rows_before(shape, self.mixed, before);
                let own = self.mixed.add(run.row * shape.row());
                for i in 0..run.len {
                    let d_row = self.d_mixed.add((run.row + i) * shape.row());
                    window(&before, own, shape.row(), i, &mut rows);
                    for channel in
                        shape.channels_of(self.key_head).into_iter().flat_map(|c| c.step_by(LANES))
                    {
                        let (start, stride) = shape.convolution().row(channel);
                        let d = S::load(d_row.add(channel));
                        for (tap, x) in rows.iter().enumerate().filter(|(_, x)| !x.is_null()) {
                            let dw = weights.conv.add(start + tap * stride);
                            S::store(dw, S::fma(d, S::load(x.add(channel)), S::load(dw)));
                        }
                    }
                    for head in shape.value_heads_of(self.key_head) {
                        let [_, _, a] = shape.gates_of(head);
                        *weights.dt_bias.add(head) += *d_row.add(a);
                        let d_rate = (run.row + i) * shape.value_heads + head;
                        *weights.a_log.add(head) += *self.d_rates.add(d_rate);
                    }
                }
            }
        }
    }

    /// Replaces the gradient of the convolution's sums by that of its inputs: for each row a chain
    /// over the rows that see it, of its own run, then of the runs that continue it, in order.
    #[inline(always)]
    unsafe fn convolution_backward<S: Simd>(&self) {
        let shape = self.shape;
        let stride = shape.row();
        // Rows that see a row, and how far behind it they are.
        let mut seeing = Vec::new();
        let mut number = 0;
        while number < self.runs.len() {
            let end = self.continued_until(number);
            // The gradient of a row's sums is not read again when its inputs' replaces it: rows
            // are seen by later ones, and a run by those that continue it, which come later.
            for (at, run) in self.runs[number..end].iter().enumerate() {
                let behind = if at == 0 { &self.runs[number + 1..end] } else { &[] };
                for i in 0..run.len {
                    let (own, first) = (run.row + i, run.len - i);
                    seeing.clear();
                    seeing.extend((0..shape.taps.min(first)).map(|d| (own + d, d)));
                    for run in behind {
                        let distances = first..shape.taps.min(first + run.len);
                        seeing.extend(distances.map(|d| (run.row + d - first, d)));
                    }
                    for channel in
                        shape.channels_of(self.key_head).into_iter().flat_map(|c| c.step_by(LANES))
                    {
                        let (start, step) = shape.convolution().row(channel);
                        // SAFETY: the caller's promise.
                        unsafe {
                            let mut sum = S::splat(0.0);
                            for &(row, distance) in &seeing {
                                let tap = shape.taps - 1 - distance;
                                let w = S::load(self.weights.conv.add(start + tap * step));
                                let d = S::load(self.d_mixed.add(row * stride + channel));
                                sum = S::fma(w, d, sum);
                            }
                            S::store(self.d_mixed.add(own * stride + channel), sum);
                        }
                    }
                }
            }
            number = end;
        }
    }
}

/// The derivative of SiLU.
#[inline(always)]
unsafe fn silu_slope<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let (s, one) = (sigmoid::<S>(x), S::splat(1.0));
        S::mul(s, S::fma(x, S::sub(one, s), one))
    }
}

/// The gradient of the norm's weights for 16 features: for each a chain over the rows in order,
/// and over the heads of a row.
struct NormGradient<'a> {
    task: Backward<'a>,
    rows: usize,
    d_norm: *mut f32,
    column: usize,
}

impl Kernel for NormGradient<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let (task, shape) = (&self.task, self.task.shape);
        // SAFETY: `backward` checked the extents.
        unsafe {
            let mut sum = S::load(self.d_norm.add(self.column));
            for row in 0..self.rows {
                for head in 0..shape.value_heads {
                    let o = task.output(row, head).cast_const();
                    let inverse = S::splat(inverse_rms::<S>(shape, o));
                    let z = task.mixed.add(row * shape.row() + shape.gates_of(head)[0]);
                    let z = S::load(z.add(self.column));
                    let dy = row * shape.value_features() + head * shape.value_dim + self.column;
                    let gate = S::mul(z, sigmoid::<S>(z));
                    let of_normed = S::mul(S::load(task.dy.add(dy)), gate);
                    let unit = S::mul(S::load(o.add(self.column)), inverse);
                    sum = S::fma(of_normed, unit, sum);
                }
            }
            S::store(self.d_norm.add(self.column), sum);
        }
    }
}
