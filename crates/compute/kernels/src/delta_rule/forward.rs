//! Forward: a task for each key head goes through the runs of a batch, token by token.

use super::token::{Gates, Inputs, Weights, advance, inverse_rms, rows_before, window};
use super::{DeltaRule, DeltaWeights, check_batch, continued};
use crate::batch::{CheckedBatch, Run};
use crate::math::sigmoid;
use crate::simd::{Kernel, LANES, Simd};
use crate::threads::{Shared, Workers};

/// `mixed: [rows, row]`, `out: [rows, value features]`. With `states: [slots, state]`, each run
/// goes on from the state in its slot, unless it begins its sequence, and leaves its own there.
/// Without, a run that does not begin its sequence continues the last one before it that does.
pub(crate) fn forward(
    workers: &Workers,
    shape: DeltaRule,
    weights: DeltaWeights<&[f32]>,
    mixed: &[f32],
    batch: &CheckedBatch,
    states: Option<&mut [f32]>,
    out: &mut [f32],
) {
    shape.check(weights);
    let rows = (mixed.len() / shape.row()).min(out.len() / shape.value_features());
    check_batch(batch, rows, states.as_ref().map(|states| states.len() / shape.state()));
    let (out, states) = (Shared::of(out), states.map(Shared::of));
    let mixed = Shared::at(mixed.as_ptr().cast_mut());
    let weights = weights.map(|weight| Shared::at(weight.as_ptr().cast_mut()));
    workers.threads.each(shape.key_heads, |key_head| {
        let weights = weights.map(|weight| weight.start().cast_const());
        let (mixed, out) = (mixed.start().cast_const(), out.start());
        let states = states.map(Shared::start);
        // SAFETY: lengths were checked above; tasks write their own heads' parts of `out` and of
        // states.
        unsafe {
            workers.isa.run(Forward { shape, weights, mixed, batch, states, out, key_head });
        }
    });
}

struct Forward<'a> {
    shape: DeltaRule,
    weights: Weights,
    mixed: *const f32,
    batch: &'a CheckedBatch,
    states: Option<*mut f32>,
    out: *mut f32,
    key_head: usize,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let (shape, runs) = (self.shape, &self.batch.host().runs);
        let len = shape.group() * shape.matrix();
        let mut inputs = Inputs::new(shape);
        // The matrices of a run that begins a sequence, and of one that continues it.
        let (mut first, mut own) = (vec![0.0; len], vec![0.0; len]);
        for (number, run) in runs.iter().enumerate() {
            // SAFETY: `forward` checked the extents; this task's part of a state is its own.
            unsafe {
                if let Some(states) = self.states {
                    let slot = self.batch.host().states[number] as usize;
                    let state = states.add(slot * shape.state());
                    self.step::<S>(&mut inputs, run, state);
                } else if let Some(before) = continued(runs, number) {
                    own.copy_from_slice(&first);
                    let rows = before.row..before.row + before.len;
                    let before = rows_before(shape, self.mixed, Some(rows));
                    self.tokens::<S>(&mut inputs, run, &before, own.as_mut_ptr());
                } else {
                    first.fill(0.0);
                    let before = rows_before(shape, self.mixed, None);
                    self.tokens::<S>(&mut inputs, run, &before, first.as_mut_ptr());
                }
            }
        }
    }
}

impl Forward<'_> {
    /// Goes on from a state, and replaces it.
    #[inline(always)]
    unsafe fn step<S: Simd>(&self, inputs: &mut Inputs, run: &Run, state: *mut f32) {
        let (shape, history) = (self.shape, self.shape.taps - 1);
        let channels = shape.channels();
        // SAFETY: the caller's promise.
        unsafe {
            let matrices = state.add(history * channels);
            let matrices = matrices.add(self.key_head * shape.group() * shape.matrix());
            let mut before = vec![std::ptr::null(); history];
            if run.position == 0 {
                matrices.write_bytes(0, shape.group() * shape.matrix());
            } else {
                for (i, row) in before.iter_mut().enumerate() {
                    *row = state.add(i * channels).cast_const();
                }
            }
            self.tokens::<S>(inputs, run, &before, matrices);
            // The last rows, of these channels. Each moves to a place that is not read again.
            for i in 0..history {
                let own = self.mixed.add(run.row * shape.row());
                let from = match (run.len + i).checked_sub(history) {
                    Some(row) => own.add(row * shape.row()),
                    None => before[run.len + i],
                };
                for part in shape.channels_of(self.key_head) {
                    let to = state.add(i * channels + part.start);
                    if from.is_null() {
                        to.write_bytes(0, part.len());
                    } else {
                        std::ptr::copy(from.add(part.start), to, part.len());
                    }
                }
            }
        }
    }

    /// Goes through a run's tokens, from the matrices of this key head's value heads.
    #[inline(always)]
    unsafe fn tokens<S: Simd>(
        &self,
        inputs: &mut Inputs,
        run: &Run,
        before: &[*const f32],
        matrices: *mut f32,
    ) {
        let shape = self.shape;
        let mut u = vec![0.0; shape.value_dim];
        // SAFETY: the caller's promise.
        unsafe {
            let own = self.mixed.add(run.row * shape.row());
            for i in 0..run.len {
                window(before, own, shape.row(), i, &mut inputs.rows);
                inputs.fill::<S>(shape, self.weights.conv, self.key_head);
                let row = own.add(i * shape.row());
                for (number, head) in shape.value_heads_of(self.key_head).enumerate() {
                    let gates = Gates::of::<S>(shape, &self.weights, row, head);
                    let vectors = (inputs.query(), inputs.key(shape), inputs.value(shape, number));
                    let at = (run.row + i) * shape.value_features() + head * shape.value_dim;
                    let o = self.out.add(at);
                    let matrix = matrices.add(number * shape.matrix());
                    advance::<S>(shape, matrix, vectors, gates, u.as_mut_ptr(), o);
                    let inverse = S::splat(inverse_rms::<S>(shape, o));
                    let z = row.add(shape.gates_of(head)[0]);
                    for c in (0..shape.value_dim).step_by(LANES) {
                        let z = S::load(z.add(c));
                        let gate = S::mul(z, sigmoid::<S>(z));
                        let unit = S::mul(S::load(o.add(c)), inverse);
                        let normed = S::mul(unit, S::load(self.weights.norm.add(c)));
                        S::store(o.add(c), S::mul(normed, gate));
                    }
                }
            }
        }
    }
}
