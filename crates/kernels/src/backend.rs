//! The operations that a decoder is made of. A model is written against this trait alone.

use crate::adamw::AdamW;
use crate::attention::{Attention, Run};
use crate::head::{Distribution, HeadGradient};
use crate::linear::Linear;
use crate::norm::Grouped;
use crate::rope::Turn;

/// A device that computes. Buffers are flat `f32` memory on it; what crosses to or from the host does so only in
/// [`upload`](Self::upload), [`write`](Self::write), [`read`](Self::read) and [`with_host`](Self::with_host), and
/// in arguments that are host slices (token ids, positions, one number per row).
///
/// Every operation obeys the numerics contract (docs/numerics.md). Buffers may be larger than an operation needs;
/// it then uses their beginning. Only packed weights, their gradients and the buffers of [`adamw`](Self::adamw)
/// have exactly their length, by which they are checked. Sizes that do not fit are errors of the calling code and
/// panic.
pub trait Backend: Send + Sync + 'static {
    /// Flat `f32` memory on the device.
    type Buffer: Send + Sync;

    /// A buffer of `len` floats with unspecified contents, for use soon and not for long.
    fn buffer(&self, len: usize) -> Self::Buffer;
    /// A buffer of `len` zeros, to keep.
    fn zeros(&self, len: usize) -> Self::Buffer;
    /// A buffer that holds a copy of `data`.
    fn upload(&self, data: &[f32]) -> Self::Buffer {
        let mut buffer = self.buffer(data.len());
        self.write(&mut buffer, 0, data);
        buffer
    }
    /// Floats in a buffer.
    fn len(&self, buffer: &Self::Buffer) -> usize;
    /// Sets every float.
    fn fill(&self, buffer: &mut Self::Buffer, value: f32);
    /// Copies `data` from the host to `offset`.
    fn write(&self, buffer: &mut Self::Buffer, offset: usize, data: &[f32]);
    /// Copies to the host from `offset`.
    fn read(&self, buffer: &Self::Buffer, offset: usize, data: &mut [f32]);
    /// Lets the host look at the first `len` floats, without a copy where device memory is host memory.
    fn with_host<R>(&self, buffer: &Self::Buffer, len: usize, look: impl FnOnce(&[f32]) -> R) -> R;
    /// Copies `len` floats between buffers.
    fn copy(
        &self,
        from: &Self::Buffer,
        from_offset: usize,
        to: &mut Self::Buffer,
        to_offset: usize,
        len: usize,
    );
    /// Gives cached memory back to the system.
    fn trim(&self);
    /// Calls `f` for every index below `tasks`, on the host's threads, in no particular order.
    fn parallel(&self, tasks: usize, f: impl Fn(usize) + Sync);

    /// Packs rows `first..` of a weight matrix `[outputs, inputs]`, given row by row.
    fn pack(&self, shape: Linear, first: usize, rows: &[f32], packed: &mut Self::Buffer);
    /// Unpacks rows `first..` of a weight matrix (or its gradient, or a moment).
    fn unpack(&self, shape: Linear, first: usize, packed: &Self::Buffer, rows: &mut [f32]);

    /// `y = x W^T + b`. `x: [tokens, inputs]`, `y: [tokens, outputs]`.
    fn linear(
        &self,
        shape: Linear,
        x: &Self::Buffer,
        weights: &Self::Buffer,
        bias: Option<&Self::Buffer>,
        y: &mut Self::Buffer,
        tokens: usize,
    );
    /// `y += x W^T + b`: the residual connection. The chain is finished, then added.
    fn linear_add(
        &self,
        shape: Linear,
        x: &Self::Buffer,
        weights: &Self::Buffer,
        bias: Option<&Self::Buffer>,
        y: &mut Self::Buffer,
        tokens: usize,
    );
    /// `dx = dy W`.
    fn linear_backward_input(
        &self,
        shape: Linear,
        dy: &Self::Buffer,
        weights: &Self::Buffer,
        dx: &mut Self::Buffer,
        tokens: usize,
    );
    /// `dW += dy^T x`, packed; the chain goes on from what `dw` holds.
    fn linear_backward_weight(
        &self,
        shape: Linear,
        dy: &Self::Buffer,
        x: &Self::Buffer,
        dw: &mut Self::Buffer,
        tokens: usize,
    );
    /// `db += sum of dy over tokens`; the chain goes on from what `db` holds.
    fn linear_backward_bias(&self, shape: Linear, dy: &Self::Buffer, db: &mut Self::Buffer, tokens: usize);

    /// `y[t] = table[tokens[t]]`; the table is packed as a linear layer from hidden size to vocabulary.
    fn embed(&self, table: Linear, packed: &Self::Buffer, tokens: &[u32], y: &mut Self::Buffer);
    /// `rows[slots[t]] += dy[t]` in the order of tokens. `rows: [slots, hidden]`.
    fn embed_backward(&self, hidden: usize, slots: &[u32], dy: &Self::Buffer, rows: &mut Self::Buffer);
    /// `packed[tokens[slot]] += rows[slot]`, tokens being distinct.
    fn add_embedding_rows(
        &self,
        table: Linear,
        rows: &Self::Buffer,
        tokens: &[u32],
        packed: &mut Self::Buffer,
    );

    /// `y = x / rms(x) * w` over each group; writes nothing between groups.
    fn rms_norm(
        &self,
        layout: Grouped,
        eps: f32,
        x: &Self::Buffer,
        weight: &Self::Buffer,
        y: &mut Self::Buffer,
        rows: usize,
    );
    /// The gradients of [`rms_norm`](Self::rms_norm): added to `dx`, the chains of `dw` going on. Without `dy`, `dx` holds
    /// it on entry and is replaced.
    #[allow(clippy::too_many_arguments, reason = "the operands of one gradient")]
    fn rms_norm_backward(
        &self,
        layout: Grouped,
        eps: f32,
        x: &Self::Buffer,
        weight: &Self::Buffer,
        dy: Option<&Self::Buffer>,
        dx: &mut Self::Buffer,
        dw: &mut Self::Buffer,
        rows: usize,
    );

    /// Turns the heads of `layout` in place; row r by row `positions[r]` of the tables `[positions, features / 2]`.
    #[allow(clippy::too_many_arguments, reason = "the operands of one rotation")]
    fn rope(
        &self,
        layout: Grouped,
        x: &mut Self::Buffer,
        cos: &Self::Buffer,
        sin: &Self::Buffer,
        positions: &[u32],
        turn: Turn,
    );

    /// Copies the keys and values of `runs` into the cache.
    fn store_kv(
        &self,
        shape: Attention,
        qkv: &Self::Buffer,
        runs: &[Run],
        table: &[u32],
        cache: &mut Self::Buffer,
    );
    /// `out: [rows, heads * head_dim]`; the cache must hold the runs' own keys and values.
    fn attention(
        &self,
        shape: Attention,
        qkv: &Self::Buffer,
        runs: &[Run],
        table: &[u32],
        cache: &Self::Buffer,
        out: &mut Self::Buffer,
    );
    /// `d_qkv` (replaced) from `d_out`, over whole sequences. Runs that start beyond position 0 continue the last one before
    /// them that starts there, each by itself: its rows get a gradient from all of them.
    fn attention_backward(
        &self,
        shape: Attention,
        qkv: &Self::Buffer,
        runs: &[Run],
        d_out: &Self::Buffer,
        d_qkv: &mut Self::Buffer,
    );

    /// `y = silu(gate) * up`, `gate_up: [tokens, 2 features]`.
    fn swiglu(&self, features: usize, gate_up: &Self::Buffer, y: &mut Self::Buffer, tokens: usize);
    /// Replaces `gate_up` by its gradient and `dy` by the forward pass's `y`.
    fn swiglu_backward(
        &self,
        features: usize,
        dy: &mut Self::Buffer,
        gate_up: &mut Self::Buffer,
        tokens: usize,
    );

    /// `to[i] = from[rows[i]]`.
    fn gather_rows(&self, features: usize, from: &Self::Buffer, rows: &[u32], to: &mut Self::Buffer);
    /// `to[slots[i]] = from[rows[i]]`, in order.
    fn store_rows(
        &self,
        features: usize,
        from: &Self::Buffer,
        rows: &[u32],
        to: &mut Self::Buffer,
        slots: &[u32],
    );
    /// `to[rows[i]] += from[i]` in order, from zeros in all `total` rows.
    fn scatter_rows(
        &self,
        features: usize,
        from: &Self::Buffer,
        rows: &[u32],
        to: &mut Self::Buffer,
        total: usize,
    );

    /// Log-prob of each row's target, and each row's distribution. `x: [rows, hidden]`.
    fn head(
        &self,
        shape: Linear,
        x: &Self::Buffer,
        weights: &Self::Buffer,
        targets: &[u32],
        temperature: f32,
    ) -> (Vec<f32>, Vec<Distribution>);
    /// `dx` (replaced) and `dw` (its chains go on) from two coefficients per row.
    fn head_backward(
        &self,
        shape: Linear,
        x: &Self::Buffer,
        weights: &Self::Buffer,
        gradient: HeadGradient<'_>,
        dx: &mut Self::Buffer,
        dw: &mut Self::Buffer,
    );
    /// The distribution of a row of logits on the host, as [`head`](Self::head) computes it.
    fn distribution(&self, logits: &[f32], temperature: f32) -> Distribution;
    /// `weights[v] = exp(logits[v] / temperature - max)` on the host: the softmax without its denominator.
    fn softmax_weights(&self, logits: &[f32], temperature: f32, max: f32, weights: &mut [f32]);

    /// Sum of squares, for the global gradient norm.
    fn sum_of_squares(&self, x: &Self::Buffer) -> f64;
    /// One AdamW update in place.
    fn adamw(
        &self,
        settings: AdamW,
        weights: &mut Self::Buffer,
        gradient: &Self::Buffer,
        first: &mut Self::Buffer,
        second: &mut Self::Buffer,
    );
}
