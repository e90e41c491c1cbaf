//! The gated delta rule (Yang et al. 2024, arXiv:2412.06464) behind a short convolution: attention
//! whose memory of a sequence is one matrix for each head.
//!
//! A row of the layer's product holds queries, keys, values, output gates z, and for each value
//! head b and a. Queries, keys and values go through a causal convolution of each channel with its
//! last `taps` rows, then SiLU; queries and keys become unit vectors, queries times
//! `key_dim^-0.5`. With `beta = sigmoid(b)` and
//! `decay = exp(-exp(a_log) softplus(a + dt_bias))`, a token turns the state
//! `S: [key_dim, value_dim]` of a head to
//!
//! ```text
//! S' = decay S,   u = v - S'^T k,   S = S' + k (beta u)^T,   o = S^T q
//! ```
//!
//! and its output is `norm(o) * silu(z)`. Tokens come one after the other, in training as in
//! sampling, so the bits do not depend on where a pass begins or ends. Each product with k or q is
//! one chain over `key_dim`, in every column of the state.

mod backward;
mod forward;
mod token;

#[cfg(test)]
mod tests;

pub(crate) use backward::backward;
pub(crate) use forward::forward;

use crate::batch::{CheckedBatch, Run};
use crate::linear::Linear;
use crate::simd::LANES;
use std::ops::Range;

/// Shape of one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeltaRule {
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Heads of values, each with a state; consecutive ones share a key head.
    pub value_heads: usize,
    /// Features of a query and of a key; a multiple of 16.
    pub key_dim: usize,
    /// Features of a value; a multiple of 16.
    pub value_dim: usize,
    /// Rows that the convolution sees, its own included; at least 2.
    pub taps: usize,
    /// Added to the mean square in the output's norm.
    pub eps: f32,
}

/// The layer's weights besides its two products: buffers, or their numbers.
#[derive(Clone, Copy, Debug)]
pub struct DeltaWeights<T> {
    /// The convolution, a matrix from `taps` inputs, the oldest first, to the channels.
    pub conv: T,
    /// `[value_heads]`.
    pub a_log: T,
    /// `[value_heads]`.
    pub dt_bias: T,
    /// Weights of the output's norm, `[value_dim]`.
    pub norm: T,
}

impl<T> DeltaWeights<T> {
    /// Applies `f` to each.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> DeltaWeights<U> {
        let Self { conv, a_log, dt_bias, norm } = self;
        DeltaWeights { conv: f(conv), a_log: f(a_log), dt_bias: f(dt_bias), norm: f(norm) }
    }
}

impl DeltaRule {
    /// Features of all queries, and of all keys.
    pub fn key_features(self) -> usize {
        self.key_heads * self.key_dim
    }

    /// Features of all values, of z, and of the output.
    pub fn value_features(self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Channels of the convolution: queries, keys and values.
    pub fn channels(self) -> usize {
        2 * self.key_features() + self.value_features()
    }

    /// Elements in a row of the layer's product.
    pub fn row(self) -> usize {
        self.channels() + self.value_features() + 2 * self.value_heads
    }

    /// The convolution as a matrix.
    pub fn convolution(self) -> Linear {
        Linear { inputs: self.taps, outputs: self.channels() }
    }

    /// Numbers in a sequence's state: the rows that the convolution still sees, then the matrices.
    pub fn state(self) -> usize {
        (self.taps - 1) * self.channels() + self.value_heads * self.matrix()
    }

    /// Floats that [`backward`] takes for each row, and once, on this many threads.
    pub(crate) fn gradient_workspace(self, threads: usize) -> (usize, usize) {
        let (tasks, segment) = (threads.min(self.key_heads), backward::SEGMENT);
        let (matrices, values) = (self.group() * self.matrix(), self.group() * self.value_dim);
        let checkpoints = (tasks * matrices).div_ceil(segment);
        // A segment's matrices and the one behind it, four more, and what the checkpoints of two
        // runs are rounded up by; the segment's `u`; a token's vectors and their gradients.
        let task = (segment + 7) * matrices + segment * values + 6 * (self.key_dim + values);
        (checkpoints + self.value_features() + self.value_heads, tasks * task)
    }

    /// Numbers in a head's matrix.
    pub fn matrix(self) -> usize {
        self.key_dim * self.value_dim
    }

    /// The factor of unit queries.
    pub fn query_scale(self) -> f32 {
        (1.0 / (self.key_dim as f64).sqrt()) as f32
    }

    /// Value heads of a key head.
    fn group(self) -> usize {
        self.value_heads / self.key_heads
    }

    fn value_heads_of(self, key_head: usize) -> Range<usize> {
        key_head * self.group()..(key_head + 1) * self.group()
    }

    /// The channels of a key head: its queries, its keys, and the values of its value heads.
    fn channels_of(self, key_head: usize) -> [Range<usize>; 3] {
        let (keys, dim) = (self.key_features(), self.key_dim);
        let queries = key_head * dim..(key_head + 1) * dim;
        let values = self.value_heads_of(key_head);
        let (first, dim) = (2 * keys, self.value_dim);
        [
            queries.clone(),
            keys + queries.start..keys + queries.end,
            first + values.start * dim..first + values.end * dim,
        ]
    }

    /// The places in a row of a value head's z, b and a.
    fn gates_of(self, value_head: usize) -> [usize; 3] {
        let (first, values) = (self.channels(), self.value_features());
        let scalars = first + values + value_head;
        [first + value_head * self.value_dim, scalars, scalars + self.value_heads]
    }

    /// Checks what the unsafe kernels rely on.
    fn check(self, weights: DeltaWeights<&[f32]>) {
        assert!(self.value_heads.is_multiple_of(self.key_heads) && self.taps >= 2);
        assert!(self.key_dim.is_multiple_of(LANES) && self.value_dim.is_multiple_of(LANES));
        assert!(weights.conv.len() >= self.convolution().packed_len());
        assert!(weights.a_log.len() >= self.value_heads && weights.norm.len() >= self.value_dim);
        assert!(weights.dt_bias.len() >= self.value_heads);
    }
}

/// The run that a run continues in a pass without states: the last one before it that begins a
/// sequence.
///
/// # Panics
/// When there is none.
fn continued(runs: &[Run], run: usize) -> Option<&Run> {
    let begins = |run: &&Run| run.position == 0;
    (runs[run].position > 0)
        .then(|| runs[..run].iter().rfind(begins).expect("a run that begins the sequence"))
}

/// Checks that rows and states are there.
fn check_batch(batch: &CheckedBatch, rows: usize, states: Option<usize>) {
    assert!(batch.host().rows() <= rows, "fewer rows than the batch has");
    let slots = &batch.host().states;
    if let Some(states) = states {
        assert_eq!(slots.len(), batch.host().runs.len(), "each run needs a state");
        assert!(slots.iter().all(|&slot| (slot as usize) < states), "states beyond the buffer");
    }
}
