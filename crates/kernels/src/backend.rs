//! The operations that a decoder is made of. A model is written against this trait alone.
//!
//! # What a backend decides
//! The type, padding and order of the numbers in a buffer, by its [`Role`]; how many positions a page of keys and values
//! has; how much memory its operations take ([`Work`]). A model asks ([`bytes`](Backend::bytes),
//! [`workspace`](Backend::workspace)) and never computes a size. Where shapes are given below, `[rows, features]` is what
//! the numbers mean; rows may be padded on the device.
//!
//! # What crosses to the device, and when
//! A pass or a step describes its rows once, as a [`HostBatch`]; [`batch`](Backend::batch) uploads that, and every
//! operation of every layer takes the uploaded one. Row numbers, slots and target tokens go the same way, by
//! [`index`](Backend::index). So a layer uploads nothing, and waits for nothing. The host reads only what it needs to go
//! on: drawn tokens ([`draw`](Backend::draw)), log-probs and entropies ([`scores`](Backend::scores)), the sums of the gradient's
//! norm ([`square_sums`](Backend::square_sums)), and weights to be saved ([`unpack`](Backend::unpack)).
//!
//! # Order and lifetime
//! A backend works in one stream: operations take effect in the order of the calls, though a call may return before its
//! operation has been carried out; whatever the host reads is finished. A dropped buffer may be handed out again at once,
//! since whoever gets it comes later in the stream.
//!
//! The last tokens that went into a matrix's gradient may wait behind it for the next ones, where a backend sums them in
//! blocks. Whatever reads the gradient has them added first, which ends a block: sums do not depend on micro-batches as long as
//! nobody reads a gradient before it is finished.
//!
//! # Memory that there is not
//! What is large and kept (weights, gradients, moments, caches of keys and values and of activations) is asked for by
//! [`allocate`](Backend::allocate), which can fail with a sentence. What a pass needs for a moment is asked for by
//! [`buffer`](Backend::buffer), which panics with that sentence. A training run plans its memory, by the numbers that the
//! same backend has given, so there a refusal is a mistake in the plan. Scoring, generation and evaluation have no plan
//! for their passes: where the device has too little memory for one, the program ends with the panic and its sentence.
//! Sizes that do not fit each other are mistakes of the calling code, and panic as well.
//!
//! # Numerics
//! Every operation keeps the contract's first level, invariance; what arithmetic it does is the second level, each
//! backend's own (docs/numerics.md).

use crate::adamw::{AdamW, Updated};
use crate::attention::{Attention, HeadNorms};
use crate::batch::HostBatch;
use crate::draw::{Draw, Drawn};
use crate::erased::{Buffer, DeviceBatch, DeviceIndex, DrawnTokens, HeadStatistics, QueuedDraws};
use crate::head::{EntropySlopes, HeadScores};
use crate::linear::Linear;
use crate::norm::Grouped;
use crate::replay_key::ReplayKey;
use crate::role::{Kind, OutOfMemory, Role, Work};
use crate::rope::Turn;
use crate::sampling_masks::SamplingMasks;
use std::ops::Range;
use std::sync::Arc;

/// A slot for rows that are stored nowhere: see [`Backend::rows_of_step`].
pub const NO_SLOT: u32 = u32::MAX;

/// A device that computes.
///
/// Buffers may have more rows than an operation needs; it then uses the first ones.
pub trait Backend: Send + Sync + 'static {
    /// Positions in a page of keys and values.
    fn page_positions(&self) -> usize;

    /// Bytes of the device's memory that a buffer takes; `usize::MAX` for what no memory could hold.
    fn bytes(&self, role: Role) -> usize;
    /// Bytes of a parameter's weights that a pass reads: less than they take where a part is the optimizer's alone.
    fn bytes_read(&self, kind: Kind) -> usize {
        self.bytes(Role::Weight(kind))
    }
    /// Bytes of the host's memory that a buffer takes beside [those](Self::bytes) of the device's: 0 where the two are one.
    fn host_bytes(&self, _role: Role) -> usize {
        0
    }
    /// Bytes that operations take beside their operands, at most; `usize::MAX` for what no memory could hold.
    fn workspace(&self, work: Work) -> usize;
    /// A buffer to keep. It holds zeros; pages of a cache hold anything.
    ///
    /// # Errors
    /// When there is no such memory.
    fn allocate(&self, role: Role) -> Result<Buffer, OutOfMemory>;
    /// A buffer for a moment, that holds anything.
    ///
    /// # Panics
    /// When there is no such memory, see the head of this file.
    fn buffer(&self, role: Role) -> Buffer;
    /// Gives memory that waits to be used again back to the system.
    fn trim(&self);

    /// Uploads the rows of a pass or of a step.
    fn batch(&self, host: &HostBatch) -> DeviceBatch {
        self.batch_of_drawn(host, None)
    }
    /// Uploads the rows of a step, some of whose tokens are those of draws that have been begun, as
    /// [`push_drawn`](HostBatch::push_drawn) has it.
    ///
    /// # Panics
    /// When there is no such draw.
    fn batch_of_drawn(&self, host: &HostBatch, drawn: Option<&DrawnTokens>) -> DeviceBatch;
    /// Uploads numbers.
    fn index(&self, numbers: &[u32]) -> DeviceIndex;

    /// Sets every number of a buffer.
    fn fill(&self, buffer: &mut Buffer, value: f32);
    /// Copies whole rows from the host, to rows `first ..` of activations or exact numbers.
    fn write(&self, buffer: &mut Buffer, first: usize, rows: &[f32]);
    /// Copies whole rows to the host, from rows `first ..` of activations or exact numbers. The decoder does without: this is
    /// how tests see what an operation has computed.
    fn read(&self, buffer: &Buffer, first: usize, rows: &mut [f32]);
    /// Copies the first rows of a buffer to those of another with as many features.
    fn copy(&self, from: &Buffer, to: &mut Buffer, rows: usize);
    /// Sets rows `first ..` of a parameter from the host: `[rows, inputs]` of a matrix, `[rows]` of a vector.
    fn pack(&self, kind: Kind, first: usize, rows: &[f32], packed: &mut Buffer);
    /// Copies rows `first ..` of a parameter (or its gradient, or a moment) to the host.
    fn unpack(&self, kind: Kind, first: usize, packed: &Buffer, rows: &mut [f32]);

    /// How many rows a decoding step of so many should be made with. Those beyond are in no run, and nobody wants anything of
    /// them: they make steps alike, where a backend [replays](Self::replayed) them. The same is asked for rows whose next token
    /// is wanted and for rows that are stored; beyond these, [`store_rows`](Self::store_rows) is given the slot [`NO_SLOT`].
    fn rows_of_step(&self, rows: usize) -> usize {
        rows
    }
    /// Calls `f`, a decoding step. Calls with equal keys make the same operations in the same order, on buffers of the same
    /// shapes: a backend that has captured those of an earlier call may launch them as one. The buffers may be others,
    /// and the batch's sequences longer or shorter: with their lengths, the grid of attention's kernels, its scratch,
    /// and whether what it splits must be put together may change. A backend whose attention is so must see to that by itself:
    /// equal keys do not promise equal launches. `f` runs every time, since it takes the buffers and returns them; its operations
    /// may take effect when it has returned, so it drops no buffer that it has not taken itself.
    fn replayed(&self, _key: ReplayKey, step: &mut dyn FnMut() -> Buffer) -> Buffer {
        step()
    }

    /// `y = x W^T + b`. `x: [tokens, inputs]`, `y: [tokens, outputs]`, `weights: [outputs, inputs]` packed,
    /// `bias: [outputs]`.
    fn linear(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        y: &mut Buffer,
        tokens: usize,
    );
    /// `y += x W^T + b`: the residual connection. The product is finished, then added.
    fn linear_add(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        y: &mut Buffer,
        tokens: usize,
    );
    /// `y = silu(gate) * up`, `gate` and `up` being the two halves of the outputs of [`linear`](Self::linear), which are left in
    /// `gate_up: [tokens, outputs]` where there is such a buffer. `y: [tokens, outputs / 2]`. The bits are those of the two
    /// operations one after the other, which this is.
    #[allow(clippy::too_many_arguments, reason = "the operands of one product")]
    fn linear_swiglu(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        gate_up: Option<&mut Buffer>,
        y: &mut Buffer,
        tokens: usize,
    ) {
        let mut for_a_moment = None;
        let gate_up = gate_up
            .unwrap_or_else(|| for_a_moment.insert(self.buffer(Role::Activation(tokens, shape.outputs))));
        self.linear(shape, x, weights, bias, gate_up, tokens);
        self.swiglu(shape.outputs / 2, gate_up, y, tokens);
    }
    /// `dx = dy W`. `dy: [tokens, outputs]`, `dx: [tokens, inputs]`.
    fn linear_backward_input(
        &self,
        shape: Linear,
        dy: &Buffer,
        weights: &Buffer,
        dx: &mut Buffer,
        tokens: usize,
    );
    /// `dW += dy^T x`, packed; the sums go on from what `dw` holds.
    fn linear_backward_weight(&self, shape: Linear, dy: &Buffer, x: &Buffer, dw: &mut Buffer, tokens: usize);
    /// `db += sum of dy over tokens`, `db: [outputs]`; the sums go on from what `db` holds.
    fn linear_backward_bias(&self, shape: Linear, dy: &Buffer, db: &mut Buffer, tokens: usize);

    /// `y[t] = embedding[tokens[t]]` for the batch's tokens. The embedding is packed as a linear layer from hidden size to
    /// vocabulary; `y: [tokens, hidden]`.
    fn embed(&self, vocabulary: Linear, packed: &Buffer, batch: &DeviceBatch, y: &mut Buffer);
    /// `rows[slots[t]] += dy[t]` in the order of tokens. `dy: [tokens, hidden]`; `rows: [slots, hidden]`, exact.
    fn embed_backward(&self, slots: &DeviceIndex, dy: &Buffer, rows: &mut Buffer);
    /// `packed[tokens[slot]] += rows[slot]`, tokens being distinct. `rows: [slots, hidden]`, exact.
    fn add_embedding_rows(
        &self,
        vocabulary: Linear,
        rows: &Buffer,
        tokens: &DeviceIndex,
        packed: &mut Buffer,
    );

    /// `y = x / rms(x) * w` over each group of `rows` rows; writes nothing between groups. `weight: [features of a group]`.
    fn rms_norm(&self, layout: Grouped, eps: f32, x: &Buffer, weight: &Buffer, y: &mut Buffer, rows: usize);
    /// The gradients of [`rms_norm`](Self::rms_norm): added to `dx`, the sums of `dw` going on. Without `dy`, `dx` holds
    /// it on entry and is replaced.
    #[allow(clippy::too_many_arguments, reason = "the operands of one gradient")]
    fn rms_norm_backward(
        &self,
        layout: Grouped,
        eps: f32,
        x: &Buffer,
        weight: &Buffer,
        dy: Option<&Buffer>,
        dx: &mut Buffer,
        dw: &mut Buffer,
        rows: usize,
    );

    /// Turns the heads of `layout` in place, each row of the batch by its position's row of cosines and sines, which are
    /// exact, `[positions, features of a head / 2]`.
    fn rope(
        &self,
        layout: Grouped,
        x: &mut Buffer,
        cos: &Buffer,
        sin: &Buffer,
        batch: &DeviceBatch,
        turn: Turn,
    );

    /// Copies the keys and values of the batch into one layer of the cache. `qkv: [rows, heads + 2 kv_heads, head_dim]`.
    fn store_kv(&self, shape: Attention, qkv: &Buffer, batch: &DeviceBatch, cache: &mut Buffer, layer: usize);
    /// Makes what a layer's product has computed of a batch ready for [`attention`](Self::attention): queries and keys normed by
    /// their heads, where there are norms, and turned; keys and values in one layer of the cache. The rows are in `qkv`, or in
    /// `raw` where there are norms. The bits are those of the operations one after the other, which this is.
    #[allow(clippy::too_many_arguments, reason = "the operands of what is several operations")]
    fn prepare_qkv(
        &self,
        shape: Attention,
        norms: Option<HeadNorms<'_>>,
        (cos, sin): (&Buffer, &Buffer),
        qkv: &mut Buffer,
        batch: &DeviceBatch,
        cache: &mut Buffer,
        layer: usize,
    ) {
        if let Some(HeadNorms { raw, rows, queries, keys, eps }) = norms {
            self.copy(raw, qkv, rows);
            self.rms_norm(shape.query_heads(), eps, raw, queries, qkv, rows);
            self.rms_norm(shape.key_heads(), eps, raw, keys, qkv, rows);
        }
        self.rope(shape.turned_heads(), qkv, cos, sin, batch, Turn::Forward);
        self.store_kv(shape, qkv, batch, cache, layer);
    }
    /// Copies pages from one number to another, in every layer. No page is copied to twice, or both from and to.
    fn copy_pages(&self, shape: Attention, cache: &mut Buffer, pages: &[(u32, u32)]);
    /// Each row of the batch attends to its sequence up to itself. `out: [rows, heads * head_dim]`; that layer of the cache
    /// must hold the batch's own keys and values.
    fn attention(
        &self,
        shape: Attention,
        qkv: &Buffer,
        batch: &DeviceBatch,
        cache: &Buffer,
        layer: usize,
        out: &mut Buffer,
    );
    /// `d_qkv` (replaced) from `d_out`, over whole sequences, without a cache. Runs that start beyond position 0 continue
    /// the last one before them that starts there, each by itself: its rows get a gradient from all of them.
    fn attention_backward(
        &self,
        shape: Attention,
        qkv: &Buffer,
        batch: &DeviceBatch,
        d_out: &Buffer,
        d_qkv: &mut Buffer,
    );

    /// `y = silu(gate) * up`. `gate_up: [tokens, 2 features]`, `y: [tokens, features]`.
    fn swiglu(&self, features: usize, gate_up: &Buffer, y: &mut Buffer, tokens: usize);
    /// Replaces `gate_up` by its gradient and `dy` by the forward pass's `y`.
    fn swiglu_backward(&self, features: usize, dy: &mut Buffer, gate_up: &mut Buffer, tokens: usize);

    /// `to[i] = from[rows[i]]`.
    fn gather_rows(&self, from: &Buffer, rows: &DeviceIndex, to: &mut Buffer);
    /// `to[slots[i]] = from[rows[i]]`, in order.
    fn store_rows(&self, from: &Buffer, rows: &DeviceIndex, to: &mut Buffer, slots: &DeviceIndex);
    /// `to[rows[i]] += from[i]` in order, from zeros in the first `total` rows.
    fn scatter_rows(&self, from: &Buffer, rows: &DeviceIndex, to: &mut Buffer, total: usize);

    /// The distribution over the vocabulary that each row predicts, at a temperature above 0, with regard to the row's
    /// target token and to the tokens that `masks` keep of it. `x: [targets, hidden]`, normed.
    fn head(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        targets: DeviceIndex,
        masks: Arc<SamplingMasks>,
        temperature: f32,
    ) -> HeadStatistics;
    /// What there is to know of each row. To be read once; what is left in the statistics is what
    /// [`head_backward`](Self::head_backward) needs.
    fn scores(&self, statistics: &mut HeadStatistics) -> HeadScores;
    /// The gradient of a loss whose derivatives by each row's log-prob, entropy and log-mass are given, `[targets]`, the last
    /// of which may be none at all, for 0: `dx` is replaced, the sums of `dw` go on. `x`, `weights` and the statistics are
    /// those of [`head`](Self::head).
    #[allow(clippy::too_many_arguments, reason = "the operands of one gradient")]
    fn head_backward(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        statistics: &HeadStatistics,
        d_logprobs: &[f32],
        d_entropies: &[f32],
        d_log_masses: &[f32],
        dx: &mut Buffer,
        dw: &mut Buffer,
    );
    /// What [`head`](Self::head) and [`scores`](Self::scores) say of each row, with the same bits, and how its entropy changes
    /// along the gradient of its target's log-prob. There is no way back from it.
    fn entropy_slopes(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        targets: &DeviceIndex,
        masks: &SamplingMasks,
        temperature: f32,
    ) -> EntropySlopes;
    /// Draws a token for each of `draws` from rows of hidden states, `[rows, hidden]`, normed; None where logits are not
    /// finite. Log-probs and entropies have the bits of [`scores`](Self::scores).
    fn draw(&self, shape: Linear, hidden: &Buffer, weights: &Buffer, draws: &[Draw]) -> Vec<Option<Drawn>>;
    /// Begins to draw, and waits for nothing. What [`drawn`](Self::drawn) returns of it is what [`draw`](Self::draw) would. The
    /// tokens can be fed at once; where logits are not finite, it is some token of the vocabulary.
    ///
    /// # Panics
    /// When a draw [departs](crate::Adjustments::departs) from the model's own distribution: such draws may be the host's.
    fn begin_draw(
        &self,
        shape: Linear,
        hidden: &Buffer,
        weights: &Buffer,
        draws: &[Draw],
    ) -> (DrawnTokens, QueuedDraws);
    /// Whether the device draws while the host goes on: whoever decodes then asks for a step before it reads the draws that
    /// the step is fed with.
    fn draws_behind(&self) -> bool {
        false
    }
    /// What was drawn. The host waits for these draws, and for nothing that was called since they were begun.
    fn drawn(&self, drawing: QueuedDraws) -> Vec<Option<Drawn>>;

    /// How many numbers the weights of such a parameter have, and its gradient, what pads them included.
    fn numbers(&self, kind: Kind) -> usize;
    /// Copies numbers `first ..` of weights, of a gradient or of a moment to the host, in the order in which the backend keeps
    /// them, which is the same in all three: what ranks exchange, all of them with the same backend.
    fn read_numbers(&self, from: &Buffer, first: usize, numbers: &mut [f32]);
    /// Copies numbers from the host to `first ..` of weights, of a gradient or of a moment, in the order of
    /// [`read_numbers`](Self::read_numbers).
    fn write_numbers(&self, to: &mut Buffer, first: usize, numbers: &[f32]);
    /// `to += from`, number by number, over the whole of two buffers of one role: the sum of two gradients.
    fn add(&self, from: &Buffer, to: &mut Buffer);
    /// The sum of squares of each block of [`NORM_BLOCK`](crate::NORM_BLOCK) numbers, of these numbers of weights or gradients,
    /// each of which begin with a block: what [`norm`](crate::norm) takes.
    fn square_sums(&self, parts: &[(&Buffer, Range<usize>)]) -> Vec<f32>;
    /// One AdamW update of these numbers of each parameter, in place. A number's bits do not depend on which others there are.
    fn adamw(&self, settings: AdamW, parameters: &mut [Updated<'_>]);
}
