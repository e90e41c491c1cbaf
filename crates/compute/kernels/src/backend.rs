//! The operations that a decoder is made of. A model is written against this trait alone.
//!
//! # What a backend decides
//! A backend chooses the type, padding and order of the elements in a buffer, by the buffer's
//! [`Role`]; the positions in a page of keys and values; the memory that operations take
//! ([`Work`]). A model asks ([`bytes`](Backend::bytes), [`workspace`](Backend::workspace)) and
//! never computes a size. Shapes below, such as `[rows, features]`, are logical: rows may be padded
//! on the device.
//!
//! # Values of a backend
//! A [`Buffer`] and the other types of a device hide which backend made them, so that a model is
//! compiled once for all backends. An operation panics when it is given another backend's value.
//!
//! # Transfers
//! A pass or a step describes its rows once, as a [`HostBatch`].
//! [`upload_batch`](Backend::upload_batch) uploads it, and every operation of every layer takes the
//! uploaded batch. [`upload_index`](Backend::upload_index) uploads row numbers, slots and target
//! tokens likewise. So a layer uploads nothing and waits for nothing. The host reads only drawn
//! tokens ([`draw`](Backend::draw)), log-probs and entropies ([`scores`](Backend::scores)), the
//! sums of the gradient's norm ([`square_sums`](Backend::square_sums)) and weights to be saved
//! ([`unpack`](Backend::unpack)).
//!
//! # Order and lifetime
//! A backend works in one stream: operations take effect in the order of the calls. A call may
//! return before its operation is done, but the host never reads an unfinished result. A dropped
//! buffer may be handed out again at once, since its next owner's operations come later in the
//! stream.
//!
//! A backend that sums a matrix's gradient in blocks of tokens may keep the last tokens until the
//! next ones come. Reading the gradient adds them first, which ends a block. So sums do not depend
//! on micro-batches if a gradient is read only when it is finished.
//!
//! # Lack of memory
//! [`allocate`](Backend::allocate) gives memory that is large and kept (weights, gradients,
//! moments, caches of keys and values and of activations). It can fail with a sentence.
//! [`buffer`](Backend::buffer) gives a pass memory for a moment, and panics with that sentence. A
//! training run plans its memory by the numbers of the same backend, so a refusal there is a
//! mistake in the plan. Scoring, generation and evaluation have no plan for their passes: without
//! memory for one, the program ends with the panic's sentence. Sizes that do not fit each other are
//! mistakes of the calling code, and panic as well.
//!
//! # Numerics
//! Every operation keeps the contract's first level, invariance. Its arithmetic is the second
//! level, which each backend defines (docs/concepts/numerics.md).

use crate::adamw::{AdamW, UpdateSlice};
use crate::attention::{Attention, HeadNorms};
use crate::batch::HostBatch;
use crate::delta_rule::{DeltaRule, DeltaWeights};
use crate::draw::{Draw, Drawn};
use crate::erased::{Buffer, DeviceBatch, DeviceIndex, DrawnTokens, HeadStatistics, QueuedDraws};
use crate::experts::{Router, Routing};
use crate::glu::Gate;
use crate::head::{EntropySlopes, HeadScores, TeacherRows};
use crate::linear::{Linear, LowRank};
use crate::norm::{Grouped, RmsNorm};
use crate::replay_key::ReplayKey;
use crate::role::{Kind, OutOfMemory, Role, Work};
use crate::rope::Turn;
use crate::sampling_masks::SamplingMasks;
use std::ops::Range;
use std::sync::Arc;

/// A slot for rows that are stored nowhere: see [`Backend::round_up_rows`].
pub const NO_SLOT: u32 = u32::MAX;

/// A device that computes.
///
/// Buffers may have more rows than an operation needs; it then uses the first ones.
pub trait Backend: Send + Sync + 'static {
    /// Positions in a page of keys and values.
    fn page_positions(&self) -> usize;

    /// Bytes of the device's memory that a buffer takes; `usize::MAX` if no memory could hold it.
    fn bytes(&self, role: Role) -> usize;
    /// Bytes of a parameter's weights that a pass reads: fewer than [`bytes`](Self::bytes) if only
    /// the optimizer uses a part of them.
    fn bytes_read(&self, kind: Kind) -> usize {
        self.bytes(Role::Weight(kind))
    }
    /// Bytes of the host's memory that a buffer takes beside [`bytes`](Self::bytes) of the
    /// device's: 0 if the device computes in the host's memory.
    fn host_bytes(&self, _role: Role) -> usize {
        0
    }
    /// Bytes of the host's memory that are taken at a time for all
    /// [activations that wait there](Role::OffloadedActivation): together they take a multiple.
    fn host_slab(&self) -> usize {
        1
    }
    /// Most bytes that operations take beside their operands; `usize::MAX` if no memory could hold
    /// them.
    fn workspace(&self, work: Work) -> usize;
    /// Rows of a pass beyond which a pass gets hardly faster per row.
    fn enough_rows(&self) -> usize {
        2048
    }
    /// Allocates a buffer to keep. It holds zeros, except a cache, whose pages hold anything.
    ///
    /// # Errors
    /// When memory is lacking.
    fn allocate(&self, role: Role) -> Result<Buffer, OutOfMemory>;
    /// Returns a temporary buffer, which holds anything.
    ///
    /// # Panics
    /// When memory is lacking: see the head of this file.
    fn buffer(&self, role: Role) -> Buffer;
    /// Returns memory that is kept for reuse to the system.
    fn trim(&self);

    /// Uploads the rows of a pass or of a step.
    fn upload_batch(&self, host: &HostBatch) -> DeviceBatch {
        self.upload_drawn_batch(host, None)
    }
    /// Uploads the rows of a step, some of whose tokens are still being drawn: see
    /// [`push_drawn`](HostBatch::push_drawn).
    ///
    /// # Panics
    /// When there is no such draw.
    fn upload_drawn_batch(&self, host: &HostBatch, drawn: Option<&DrawnTokens>) -> DeviceBatch;
    /// Uploads the numbers of rows, slots or tokens.
    fn upload_index(&self, numbers: &[u32]) -> DeviceIndex;

    /// Sets every element of a buffer.
    fn fill(&self, buffer: &mut Buffer, value: f32);
    /// Copies whole rows from the host to rows `first ..` of activations or exact values.
    fn write(&self, buffer: &mut Buffer, first: usize, rows: &[f32]);
    /// Copies rows `first ..` of activations or exact values to the host. Only tests and tools
    /// need it.
    fn read(&self, buffer: &Buffer, first: usize, rows: &mut [f32]);
    /// Copies the first rows of a buffer to the first rows of another with as many features.
    fn copy_first_rows(&self, from: &Buffer, to: &mut Buffer, rows: usize);
    /// Sets rows `first ..` of a parameter from the host: `[rows, inputs]` of a matrix, `[rows]` of
    /// a vector.
    fn pack(&self, kind: Kind, first: usize, rows: &[f32], packed: &mut Buffer);
    /// Copies rows `first ..` of a parameter (or its gradient, or a moment) to the host.
    fn unpack(&self, kind: Kind, first: usize, packed: &Buffer, rows: &mut [f32]);

    /// Rounds up the number of rows of a decoding step. Padding rows are in no run, and their
    /// results are not used. They make steps alike, so that a backend can [replay](Self::run_step)
    /// them. The number of rows whose next token is wanted and the number of stored rows are
    /// rounded up likewise; [`store_rows`](Self::store_rows) gets the slot [`NO_SLOT`] for padding.
    fn round_up_rows(&self, rows: usize) -> usize {
        rows
    }
    /// Calls `step`, a decoding step, once, and returns its result. Calls with equal keys make the
    /// same operations in the same order on buffers of the same shapes, so a backend may capture
    /// them once and then launch them as one. Equal keys do not promise equal launches: addresses
    /// may differ, and sequences may be longer, which can change attention's grid, scratch and
    /// splits. The backend has to notice. The operations may take effect after `step` has returned,
    /// so `step` drops no buffer that it has not allocated itself.
    fn run_step(&self, _key: ReplayKey, step: &mut dyn FnMut() -> Buffer) -> Buffer {
        step()
    }

    /// `y = x W^T + b`. `x: [tokens, inputs]`, `y: [tokens, outputs]`, `weights: [outputs, inputs]`
    /// packed, `bias: [outputs]`.
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
    /// [`linear_add`](Self::linear_add), and then [`rms_norm`](Self::rms_norm) of whole rows of `y`
    /// into `normed`. It has the bits of both.
    #[allow(clippy::too_many_arguments, reason = "the operands of two operations")]
    fn linear_add_norm(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        y: &mut Buffer,
        norm: RmsNorm,
        norm_weight: &Buffer,
        normed: &mut Buffer,
        tokens: usize,
    ) {
        self.linear_add(shape, x, weights, bias, y, tokens);
        self.rms_norm(Grouped::rows(shape.outputs), norm, y, norm_weight, normed, tokens);
    }
    /// `y = f(gate) * up`, `y: [tokens, outputs / 2]`, where f is the function of `by`. `gate` and
    /// `up` are the two halves of the outputs of [`linear`](Self::linear), which are kept in
    /// `gate_up: [tokens, outputs]` if it is given. It has the bits of [`linear`](Self::linear) and
    /// then [`glu`](Self::glu).
    #[allow(clippy::too_many_arguments, reason = "the operands of one product")]
    fn linear_glu(
        &self,
        shape: Linear,
        by: Gate,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        gate_up: Option<&mut Buffer>,
        y: &mut Buffer,
        tokens: usize,
    ) {
        let mut for_a_moment = None;
        let gate_up = gate_up.unwrap_or_else(|| {
            for_a_moment.insert(self.buffer(Role::Activation(tokens, shape.outputs)))
        });
        self.linear(shape, x, weights, bias, gate_up, tokens);
        self.glu(by, shape.outputs / 2, gate_up, y, tokens);
    }
    /// A layer with an adapter: [`linear`](Self::linear), or [`linear_add`](Self::linear_add) if it
    /// `adds`, then `y += B (s (A x))`. It has the bits of the single operations.
    #[allow(clippy::too_many_arguments, reason = "the operands of one layer")]
    fn linear_adapted(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        adapter: LowRank<'_>,
        y: &mut Buffer,
        tokens: usize,
        adds: bool,
    ) {
        if adds {
            self.linear_add(shape, x, weights, bias, y, tokens);
        } else {
            self.linear(shape, x, weights, bias, y, tokens);
        }
        let mut reduced = self.buffer(Role::Activation(tokens, adapter.down.outputs));
        self.reduce(adapter, x, &mut reduced, tokens);
        self.linear_add(adapter.up, &reduced, adapter.b, None, y, tokens);
    }
    /// [`linear_adapted`](Self::linear_adapted) into `gate_up`, and then [`glu`](Self::glu).
    #[allow(clippy::too_many_arguments, reason = "the operands of one layer")]
    fn linear_adapted_glu(
        &self,
        shape: Linear,
        by: Gate,
        x: &Buffer,
        weights: &Buffer,
        bias: Option<&Buffer>,
        adapter: LowRank<'_>,
        gate_up: &mut Buffer,
        y: &mut Buffer,
        tokens: usize,
    ) {
        self.linear_adapted(shape, x, weights, bias, adapter, gate_up, tokens, false);
        self.glu(by, shape.outputs / 2, gate_up, y, tokens);
    }
    /// `reduced = s (A x)`, `[tokens, ranks]`: the product is finished, then multiplied.
    fn reduce(&self, adapter: LowRank<'_>, x: &Buffer, reduced: &mut Buffer, tokens: usize) {
        self.linear(adapter.down, x, adapter.a, None, reduced, tokens);
        self.scale_rows(adapter.scales, reduced, tokens);
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
    /// `dx += dy W`: the product is finished, then added.
    fn linear_backward_input_add(
        &self,
        shape: Linear,
        dy: &Buffer,
        weights: &Buffer,
        dx: &mut Buffer,
        tokens: usize,
    ) {
        let mut product = self.buffer(Role::Activation(tokens, shape.inputs));
        self.linear_backward_input(shape, dy, weights, &mut product, tokens);
        self.add_rows(&product, dx, tokens);
    }
    /// `dW += dy^T x`, packed; the sums continue from `dw`.
    fn linear_backward_weight(
        &self,
        shape: Linear,
        dy: &Buffer,
        x: &Buffer,
        dw: &mut Buffer,
        tokens: usize,
    );
    /// `db += sum of dy over tokens`, `db: [outputs]`; the sums continue from `db`.
    fn linear_backward_bias(&self, shape: Linear, dy: &Buffer, db: &mut Buffer, tokens: usize);

    /// `y[t] = embedding[tokens[t]]` for the batch's tokens, `y: [tokens, hidden]`. The embedding
    /// is packed as a linear layer from hidden size to vocabulary.
    fn embed(&self, vocabulary: Linear, packed: &Buffer, batch: &DeviceBatch, y: &mut Buffer);
    /// `rows[slots[t]] += dy[t]` in the order of tokens. `dy: [tokens, hidden]`;
    /// `rows: [slots, hidden]`, exact.
    fn embed_backward(&self, slots: &DeviceIndex, dy: &Buffer, rows: &mut Buffer);
    /// `packed[tokens[slot]] += rows[slot]` for distinct tokens. `rows: [slots, hidden]`, exact.
    fn add_embedding_rows(
        &self,
        vocabulary: Linear,
        rows: &Buffer,
        tokens: &DeviceIndex,
        packed: &mut Buffer,
    );

    /// `y = x / rms(x) * w`, w with the norm's shift, over each group of `rows` rows; writes
    /// nothing between groups. `weight: [features of a group]`.
    fn rms_norm(
        &self,
        layout: Grouped,
        norm: RmsNorm,
        x: &Buffer,
        weight: &Buffer,
        y: &mut Buffer,
        rows: usize,
    );
    /// Adds the gradients of [`rms_norm`](Self::rms_norm) to `dx` and, if it is wanted, `dw`.
    /// Without `dy`, `dx` holds it on entry and is replaced.
    #[allow(clippy::too_many_arguments, reason = "the operands of one gradient")]
    fn rms_norm_backward(
        &self,
        layout: Grouped,
        norm: RmsNorm,
        x: &Buffer,
        weight: &Buffer,
        dy: Option<&Buffer>,
        dx: &mut Buffer,
        dw: Option<&mut Buffer>,
        rows: usize,
    );

    /// Turns the heads of `layout` in place, each row of the batch by its position's row of `cos`
    /// and `sin`, `[positions, features of a head / 2]`, exact.
    fn rope(
        &self,
        layout: Grouped,
        x: &mut Buffer,
        cos: &Buffer,
        sin: &Buffer,
        batch: &DeviceBatch,
        turn: Turn,
    );

    /// Copies the keys and values of the batch into one layer of the cache.
    /// `qkv: [rows, heads + 2 kv_heads, head_dim]`.
    fn store_kv(
        &self,
        shape: Attention,
        qkv: &Buffer,
        batch: &DeviceBatch,
        cache: &mut Buffer,
        layer: usize,
    );
    /// Prepares a batch's queries, keys and values for [`attention`](Self::attention): norms
    /// queries and keys by their heads, if there are norms; turns them; copies keys and values into
    /// one layer of the cache. The rows are in `qkv`, or in `norms.raw`. It has the bits of the
    /// single operations.
    #[allow(clippy::too_many_arguments, reason = "the operands of several operations")]
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
        if let Some(HeadNorms { raw, rows, queries, keys, norm }) = norms {
            self.copy_first_rows(raw, qkv, rows);
            self.rms_norm(shape.query_heads(), norm, raw, queries, qkv, rows);
            self.rms_norm(shape.key_heads(), norm, raw, keys, qkv, rows);
        }
        self.rope(shape.turned_heads(), qkv, cos, sin, batch, Turn::Forward);
        self.store_kv(shape, qkv, batch, cache, layer);
    }
    /// Copies pages, from the first number of each pair to the second, in every layer. No page is
    /// copied to twice, or both from and to.
    fn copy_pages(&self, shape: Attention, cache: &mut Buffer, pages: &[(u32, u32)]);
    /// Each row of the batch attends to its sequence up to itself. `out: [rows, heads * head_dim]`.
    /// The layer of the cache must hold the batch's own keys and values.
    fn attention(
        &self,
        shape: Attention,
        qkv: &Buffer,
        batch: &DeviceBatch,
        cache: &Buffer,
        layer: usize,
        out: &mut Buffer,
    );
    /// Computes `d_qkv` (replaced) from `d_out`, over whole sequences, without a cache. A run that
    /// starts beyond position 0 continues the last run before it that starts at 0. Several may
    /// continue one run, whose rows then get the sum of their gradients.
    fn attention_backward(
        &self,
        shape: Attention,
        qkv: &Buffer,
        batch: &DeviceBatch,
        d_out: &Buffer,
        d_qkv: &mut Buffer,
    );

    /// `y = f(gate) * up`, where f is the function of `by`. `gate_up: [tokens, 2 features]`,
    /// `y: [tokens, features]`.
    fn glu(&self, by: Gate, features: usize, gate_up: &Buffer, y: &mut Buffer, tokens: usize);
    /// Replaces `gate_up` by its gradient and `dy` by the forward pass's `y`.
    fn glu_backward(
        &self,
        by: Gate,
        features: usize,
        dy: &mut Buffer,
        gate_up: &mut Buffer,
        tokens: usize,
    );

    /// `x *= factors`, row by row. `x: [rows, features]`, activations;
    /// `factors: [1, features]`, exact.
    fn scale_rows(&self, factors: &Buffer, x: &mut Buffer, rows: usize);
    /// `to += from` over the first rows of activations with as many features.
    fn add_rows(&self, from: &Buffer, to: &mut Buffer, rows: usize);

    /// `to[i] = from[rows[i]]`.
    fn copy_rows(&self, from: &Buffer, rows: &DeviceIndex, to: &mut Buffer);
    /// `to[slots[i]] = from[rows[i]]`, in order.
    fn store_rows(&self, from: &Buffer, rows: &DeviceIndex, to: &mut Buffer, slots: &DeviceIndex);
    /// `to[rows[i]] += from[i]` in order, from zeros in the first `total` rows.
    fn scatter_rows(&self, from: &Buffer, rows: &DeviceIndex, to: &mut Buffer, total: usize);

    /// Computes the distribution over the vocabulary that each row predicts, at a temperature above
    /// 0, for the row's target token and the tokens that its mask keeps. `x: [targets, hidden]`,
    /// normed. With a teacher, also the reverse KL from each row to the teacher's.
    #[allow(clippy::too_many_arguments, reason = "the operands of one pass")]
    fn head(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        targets: DeviceIndex,
        masks: Arc<SamplingMasks>,
        temperature: f32,
        teacher: Option<TeacherRows<'_>>,
    ) -> HeadStatistics;
    /// Reads the scores of every row; call it once. The statistics then keep what
    /// [`head_backward`](Self::head_backward) needs.
    fn scores(&self, statistics: &mut HeadStatistics) -> HeadScores;
    /// Reads the reverse KL of every row, in nats; nothing if there was no teacher.
    fn divergences(&self, statistics: &HeadStatistics) -> Vec<f32>;
    /// Computes the gradient of a loss from its derivatives by each row's log-prob, entropy and
    /// log-mass, `[targets]`; `d_log_masses` may be empty, for 0. `dx` is replaced, `dw` is added
    /// to, if it is wanted. `x`, `weights` and the teacher are the ones that [`head`](Self::head)
    /// computed the statistics from; with a teacher come the derivatives by each row's reverse KL.
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
        taught: Option<(TeacherRows<'_>, &[f32])>,
        dx: &mut Buffer,
        dw: Option<&mut Buffer>,
    );
    /// Returns each row's [`scores`](Self::scores), with the same bits, and how its entropy changes
    /// along the gradient of its target's log-prob. It has no backward pass.
    fn entropy_slopes(
        &self,
        shape: Linear,
        x: &Buffer,
        weights: &Buffer,
        targets: DeviceIndex,
        masks: Arc<SamplingMasks>,
        temperature: f32,
    ) -> EntropySlopes;
    /// Draws a token for each of `draws` from rows of hidden states, `[rows, hidden]`, normed; None
    /// if logits are not finite. Log-probs and entropies have the bits of [`scores`](Self::scores).
    fn draw(
        &self,
        shape: Linear,
        hidden: &Buffer,
        weights: &Buffer,
        draws: &[Draw],
    ) -> Vec<Option<Drawn>>;
    /// Begins to draw without waiting. [`read_draws`](Self::read_draws) then returns what
    /// [`draw`](Self::draw) would. A step may be fed these tokens at once; if logits are not
    /// finite, it is fed an arbitrary token of the vocabulary.
    ///
    /// # Panics
    /// When a draw [departs](crate::Adjustments::departs) from the model's own distribution: the
    /// host may have to make such draws.
    fn begin_draw(
        &self,
        shape: Linear,
        hidden: &Buffer,
        weights: &Buffer,
        draws: &[Draw],
    ) -> (DrawnTokens, QueuedDraws);
    /// Whether the device draws while the host goes on. A sampler then asks for the next step
    /// before it reads the draws that feed this step.
    fn draws_behind(&self) -> bool {
        false
    }
    /// Returns the results of queued draws. The host waits for these draws, and for no later
    /// operation.
    fn read_draws(&self, drawing: QueuedDraws) -> Vec<Option<Drawn>>;

    /// Elements in the weights and in the gradient of a parameter, with padding.
    fn element_count(&self, kind: Kind) -> usize;
    /// Copies elements `first ..` of weights, of a gradient or of a moment to the host, in the
    /// backend's own order, which all three share. Ranks exchange these elements, so all ranks have
    /// the same backend.
    fn read_elements(&self, from: &Buffer, first: usize, elements: &mut [f32]);
    /// Copies elements from the host to `first ..` of weights, of a gradient or of a moment, in the
    /// order of [`read_elements`](Self::read_elements).
    fn write_elements(&self, to: &mut Buffer, first: usize, elements: &[f32]);
    /// Copies elements of weights, of a gradient or of a moment to `first ..` of another of these,
    /// in the order of [`read_elements`](Self::read_elements).
    fn copy_elements(&self, from: &Buffer, elements: Range<usize>, to: &mut Buffer, first: usize);
    /// `to += from`, element by element, over two whole buffers of one role: sums two gradients.
    fn add(&self, from: &Buffer, to: &mut Buffer);
    /// `to *= factors`, element by element, over two whole gradients of one parameter.
    fn multiply(&self, factors: &Buffer, to: &mut Buffer);
    /// Sums the squares of each block of [`NORM_BLOCK`](crate::NORM_BLOCK) elements in these parts
    /// of weights or gradients, for [`norm`](crate::norm). A part begins with a block.
    fn square_sums(&self, parts: &[(&Buffer, Range<usize>)]) -> Vec<f32>;
    /// Updates these elements of each parameter in place, by one step of AdamW. An element's bits
    /// do not depend on the other elements.
    fn adamw(&self, settings: AdamW, parameters: &mut [UpdateSlice<'_>]);

    /// The operations of mixtures of experts.
    fn experts(&self) -> &dyn ExpertOperations;
    /// Weights in two parts; none if the device keeps a weight as one f32.
    fn split_weights(&self) -> Option<&dyn SplitWeights> {
        None
    }
    /// The device for another thread that works beside this one: what is called there is carried
    /// out behind what was called here before, and beside what is called here later. Buffers may
    /// go there, and come back once it has [finished](Self::finish).
    fn beside(&self) -> &dyn Backend;
    /// Waits until the device has carried out all that was called here.
    fn finish(&self) {}
    /// Exchanges with the devices of other ranks; none if numbers travel through the host.
    fn device_links(&self) -> Option<&dyn DeviceLinks> {
        None
    }
    /// The operations of hybrid models.
    fn hybrid(&self) -> &dyn HybridOperations;
}

/// Elements of some buffers, in order, that one rank sends another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerElements {
    /// The other rank.
    pub rank: usize,
    /// The number of a buffer in the exchange, and a range of its elements.
    pub elements: Vec<(usize, Range<usize>)>,
}

/// Exchanges of elements between the devices of ranks, by a library that moves bytes and adds
/// nothing up. Of two ranks, each sends as many elements, of the same buffers, as the other
/// receives. An exchange returns once it has been carried out.
pub trait DeviceLinks {
    /// Sends elements of gradients, receives others, and replaces them by their sums over the
    /// ranks: those received from lower ranks, this rank's own, those received from higher ones.
    /// Pairs of neighbours are added first, then pairs of these sums, and so on; one without a
    /// neighbour goes up as it is. The elements that come from each rank are the same.
    ///
    /// # Errors
    /// A sentence, which names the other rank if it has not come in time. Nothing can be exchanged
    /// afterwards.
    fn add(
        &self,
        gradients: &mut [Buffer],
        goes: &[PeerElements],
        comes: &[PeerElements],
    ) -> Result<(), String>;
    /// Sends elements, and overwrites others by what comes: of [weights in two parts](SplitWeights)
    /// only the bf16s if `rounded`, else exact elements.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    fn write(
        &self,
        buffers: &mut [Buffer],
        rounded: bool,
        goes: &[PeerElements],
        comes: &[PeerElements],
    ) -> Result<(), String>;
}

/// Weights that a device keeps as a bf16, which operations read, and a remainder of 16 bits, which
/// makes it an exact f32 and which only the optimizer reads. Of several ranks, each needs the
/// remainders of the elements alone that it updates.
pub trait SplitWeights {
    /// Gives up the remainders of a parameter's weights outside `own`. From then on the weights can
    /// be updated, measured and read exactly only in `own`.
    ///
    /// # Errors
    /// When memory is lacking: for a moment there are both the old weights and the new ones.
    fn keep_remainders(&self, weights: &mut Buffer, own: Range<usize>) -> Result<(), OutOfMemory>;
    /// Weights of a parameter with the remainders of `own` alone, without a meaning before they are
    /// set.
    ///
    /// # Errors
    /// When memory is lacking.
    fn allocate_slice(&self, kind: Kind, own: Range<usize>) -> Result<Buffer, OutOfMemory>;
    /// Copies the bf16s of elements `first ..` to the host, as bits. [Frozen](crate::Role::Frozen)
    /// weights have them too.
    fn read_rounded(&self, from: &Buffer, first: usize, rounded: &mut [u16]);
    /// Replaces the bf16s of elements `first ..`, and no remainder.
    fn write_rounded(&self, to: &mut Buffer, first: usize, rounded: &[u16]);
}

/// Operations for models with a recurrent state beside keys and values: the gated delta rule, and
/// gates behind attention.
pub trait HybridOperations {
    /// The [gated delta rule](DeltaRule) of a layer. `mixed: [rows, row]`,
    /// `out: [rows, value features]`. With `states: [slots, state]`, exact, each run of the batch
    /// goes on from the state in its slot, unless it begins its sequence, and leaves its own there.
    /// Without, a run that does not begin its sequence continues the last one before it that does.
    fn delta_rule(
        &self,
        shape: DeltaRule,
        weights: DeltaWeights<&Buffer>,
        mixed: &Buffer,
        batch: &DeviceBatch,
        states: Option<&mut Buffer>,
        out: &mut Buffer,
    );
    /// Replaces `d_mixed` by the gradient of `mixed` from that of the output, over whole sequences,
    /// and adds to the gradients of the weights if they are wanted.
    #[allow(clippy::too_many_arguments, reason = "the operands of one gradient")]
    fn delta_rule_backward(
        &self,
        shape: DeltaRule,
        weights: DeltaWeights<&Buffer>,
        mixed: &Buffer,
        batch: &DeviceBatch,
        d_out: &Buffer,
        d_mixed: &mut Buffer,
        d_weights: Option<DeltaWeights<&mut Buffer>>,
    );
    /// Copies states, from the first slot of each pair to the second, in order.
    fn copy_states(&self, states: &mut Buffer, pairs: &[(u32, u32)]);
    /// Copies columns of the first rows: as many as fit, from `first.0` on to `first.1` on.
    fn copy_columns(&self, from: &Buffer, to: &mut Buffer, first: (usize, usize), rows: usize);
    /// `y = x * sigmoid(gate)` over the first rows of activations with as many features.
    fn gate_output(&self, x: &Buffer, gate: &Buffer, y: &mut Buffer, rows: usize);
    /// Replaces `gate` by its gradient, and `dy` by that of `x`.
    fn gate_output_backward(&self, x: &Buffer, gate: &mut Buffer, dy: &mut Buffer, rows: usize);
}

/// Operations for mixtures of experts, beside those that every block needs. Products of an expert
/// are linear layers on the rows of its tokens, which are copied to rows of their own, in order.
pub trait ExpertOperations {
    /// Chooses each token's experts by the softmax of the logits `x W^T` in f32: the likeliest, of
    /// equally likely ones those with lower numbers. Their weights are the probabilities, divided
    /// by their sum if the router normalises. `x: [tokens, hidden]`, `weights: [experts, hidden]`
    /// packed.
    fn route(&self, router: Router, x: &Buffer, weights: &Buffer, tokens: usize) -> Routing;
    /// The gradient of the logits, `[tokens, experts]`, activations, from the derivatives by the
    /// routes' weights, `[tokens, chosen]`, exact.
    fn route_backward(&self, routing: &Routing, d_weights: &Buffer, d_logits: &mut Buffer);
    /// Copies the rows of an expert's tokens to the first rows of `to`.
    fn copy_expert_rows(&self, routing: &Routing, expert: usize, from: &Buffer, to: &mut Buffer);
    /// Adds the first rows of `from` to the rows of an expert's tokens in the exact `sums`, by one
    /// fused multiply-add for each number: times the routes' weights if `weighed`, else times 1.
    fn add_expert_rows(
        &self,
        routing: &Routing,
        expert: usize,
        weighed: bool,
        from: &Buffer,
        sums: &mut Buffer,
    );
    /// Multiplies the first rows of `x`, one for each of an expert's tokens, by the routes'
    /// weights.
    fn weigh_expert_rows(&self, routing: &Routing, expert: usize, x: &mut Buffer);
    /// Multiplies each of the first rows of `a` with the same row of `b`, one for each of an
    /// expert's tokens, and stores the scalar product at its place in `products: [tokens, chosen]`,
    /// exact.
    fn expert_row_products(
        &self,
        routing: &Routing,
        expert: usize,
        a: &Buffer,
        b: &Buffer,
        products: &mut Buffer,
    );
    /// `sums += from`, over the first rows: activations to exact sums.
    fn add_to_sums(&self, from: &Buffer, sums: &mut Buffer, rows: usize);
    /// Exact sums as activations, rounded once if these have fewer bits.
    fn round_sums(&self, sums: Buffer, rows: usize) -> Buffer;
}
