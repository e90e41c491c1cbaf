//! One decoder block, forward and backward.
//!
//! Forward, on the residual stream x: `x += Wo attention(rope(Wqkv norm(x)))`, then
//! `x += Wdown glu(Wgu norm(x))`, or a sum over [experts](crate::experts). Some families norm a
//! branch's output too, or instead. Hybrid models have a [delta rule](crate::delta) in the place of
//! some attentions, and gates behind the others.

use crate::backward::BackwardPass;
use crate::config::QkNorm;
use crate::gradient::Gradient;
use crate::internals::{AttentionInternals, Internals};
use crate::layout::{BlockLayout, Id, Mixer, Mlp, Projection, QkNorms};
use crate::model::Model;
use crate::rope_table::Rotations;
use isentrope_kernels::{Buffer, DeviceBatch, HeadNorms, HostBatch, Role, Turn};
use isentrope_trace::operation;
use std::mem;
use std::sync::Arc;

/// The rows of a batch on the device, as every block sees them.
pub(crate) struct Rows {
    pub count: usize,
    pub batch: DeviceBatch,
    pub rope: Arc<Rotations>,
}

/// The residual stream.
pub(crate) struct Stream {
    /// `[tokens, hidden]`.
    pub x: Buffer,
    /// The stream after the next branch's norm, if one operation has computed both.
    normed: Option<Buffer>,
    /// Whether a block is followed by its successor at once, and may compute that one's norm.
    reads_ahead: bool,
}

impl Stream {
    fn new(x: Buffer) -> Self {
        Self { x, normed: None, reads_ahead: true }
    }

    /// The stream of a pass that waits behind each block, and reads no weights but the block's.
    pub fn by_layer(self) -> Self {
        Self { reads_ahead: false, ..self }
    }
}

/// A layer of the cache, where a block reads earlier keys and values and stores its own.
pub(crate) struct CacheLayer<'a> {
    pub cache: &'a mut Buffer,
    pub layer: usize,
    /// The states of a delta rule's sequences; none in passes over whole sequences.
    pub states: Option<&'a mut Buffer>,
}

impl Model {
    /// Uploads the rows of a batch.
    pub(crate) fn upload_rows(&self, host: &HostBatch) -> Rows {
        let rope = self.rope.up_to(&*self.backend, host.positions());
        Rows { count: host.rows(), batch: self.backend.upload_batch(host), rope }
    }

    /// A buffer for `[rows, features]` activations.
    pub(crate) fn activations(&self, rows: usize, features: usize) -> Buffer {
        self.backend.buffer(Role::Activation(rows, features))
    }

    /// The residual stream before the first block.
    pub(crate) fn embedded(&self, rows: &Rows) -> Stream {
        let (b, s) = (&*self.backend, &self.layout.shapes);
        let mut x = self.activations(rows.count, s.hidden);
        b.embed(s.vocabulary, &self.weights[self.layout.embedding], &rows.batch, &mut x);
        self.scale(self.scales.embeddings.as_ref(), &mut x, rows.count);
        Stream::new(x)
    }

    /// Multiplies each of the rows by `factors`, if there are any.
    pub(crate) fn scale(&self, factors: Option<&Buffer>, x: &mut Buffer, rows: usize) {
        if let Some(factors) = factors {
            self.backend.scale_rows(factors, x, rows);
        }
    }

    /// Advances the residual stream through the block with this number, which stores the batch's
    /// keys and values. Returns the internals if they are to be kept.
    pub(crate) fn block_forward(
        &self,
        number: usize,
        stream: &mut Stream,
        rows: &Rows,
        cache: CacheLayer<'_>,
        keep: bool,
    ) -> Option<Internals<Buffer>> {
        let (b, s) = (&*self.backend, &self.layout.shapes);
        let tokens = rows.count;
        let block = &self.layout.blocks[number];
        let next = self.layout.blocks.get(number + 1).filter(|_| stream.reads_ahead);
        let next = next.and_then(|next| next.attention_norms.input);
        let attention = self.attention_branch(block, stream, rows, cache);
        // Buffers that are not kept are freed here, before the MLP takes its memory.
        let kept = keep.then(|| {
            let mut middle = self.activations(tokens, s.hidden);
            b.copy_first_rows(&stream.x, &mut middle, tokens);
            (attention, middle)
        });
        let _span = operation("MLP");
        let normed = self.normed_stream(block.mlp_norms.input, stream, tokens);
        let read = normed.as_ref().unwrap_or(&stream.x);
        let (gate_up, branch) = match &block.mlp {
            Mlp::Dense { gate_up: product, down } => {
                let mut gate_up = keep.then(|| self.activations(tokens, s.gate_up.outputs));
                let mut activated = self.activations(tokens, s.intermediate);
                self.project_glu(product, read, gate_up.as_mut(), &mut activated, tokens);
                drop(normed);
                let norm = block.mlp_norms.output;
                (gate_up, self.add_branch(down, norm, &activated, stream, next, tokens))
            }
            Mlp::Experts(experts) => {
                let sum = self.experts_forward(experts, read, tokens);
                drop(normed);
                (None, self.add_output(block.mlp_norms.output, sum, &mut stream.x, tokens))
            }
        };
        kept.map(|(attention, middle)| Internals { attention, middle, gate_up, branch })
    }

    /// Computes again, from the block's input, the internals that
    /// [`block_forward`](Self::block_forward) did not keep.
    pub(crate) fn block_internals(
        &self,
        block: &BlockLayout,
        input: &Buffer,
        rows: &Rows,
        cache: CacheLayer<'_>,
    ) -> Internals<Buffer> {
        let tokens = rows.count;
        let mut middle = self.activations(tokens, self.layout.shapes.hidden);
        self.backend.copy_first_rows(input, &mut middle, tokens);
        let mut stream = Stream::new(middle);
        let attention = self.attention_branch(block, &mut stream, rows, cache);
        let normed = self.normed_stream(block.mlp_norms.input, &mut stream, tokens);
        let middle = stream.x;
        let read = normed.as_ref().unwrap_or(&middle);
        let is_normed = block.mlp_norms.output.is_some();
        let (gate_up, branch) = match &block.mlp {
            Mlp::Dense { gate_up: product, down } => {
                let mut gate_up = self.activations(tokens, product.shape.outputs);
                self.project(product, read, &mut gate_up, tokens);
                drop(normed);
                let branch = is_normed.then(|| {
                    let inner = down.shape.inputs;
                    let mut activated = self.activations(tokens, inner);
                    self.backend.glu(self.config.gate, inner, &gate_up, &mut activated, tokens);
                    let mut branch = self.activations(tokens, down.shape.outputs);
                    self.project(down, &activated, &mut branch, tokens);
                    branch
                });
                (Some(gate_up), branch)
            }
            Mlp::Experts(experts) => {
                (None, is_normed.then(|| self.experts_forward(experts, read, tokens)))
            }
        };
        Internals { attention, middle, gate_up, branch }
    }

    /// `x += Wo attention(rope(Wqkv norm(x)))`.
    fn attention_branch(
        &self,
        block: &BlockLayout,
        stream: &mut Stream,
        rows: &Rows,
        CacheLayer { cache, layer, states }: CacheLayer<'_>,
    ) -> AttentionInternals<Buffer> {
        let _span = operation("attention");
        let (b, w) = (&*self.backend, &self.weights);
        let (tokens, norm) = (rows.count, self.config.rms_norm());
        let (norm_output, next) = (block.attention_norms.output, block.mlp_norms.input);
        let normed = self.normed_stream(block.attention_norms.input, stream, tokens);
        let mut qkv = self.activations(tokens, block.qkv.shape.outputs);
        self.project(&block.qkv, normed.as_ref().unwrap_or(&stream.x), &mut qkv, tokens);
        drop(normed);
        let mut attended = self.activations(tokens, block.output.shape.inputs);
        let keeps_attended = self.layout.reads_attended(block);
        let of = match &block.mixer {
            Mixer::Attention(of) => of,
            Mixer::Delta(of) => {
                self.delta_forward(of, &qkv, rows, states, &mut attended);
                let output = &block.output;
                let branch = self.add_branch(output, norm_output, &attended, stream, next, tokens);
                let attended = keeps_attended.then_some(attended);
                return AttentionInternals { raw_qkv: None, qkv, gate: None, attended, branch };
            }
        };
        let gate = of.is_gated.then(|| self.split_gates(of.shape, &mut qkv, tokens));
        let raw_qkv = of.qk_norm.map(|_| {
            let turned = self.activations(tokens, of.shape.row());
            mem::replace(&mut qkv, turned)
        });
        let norms = match of.qk_norm.zip(raw_qkv.as_ref()) {
            None => None,
            Some((QkNorms { queries, keys, span: QkNorm::Heads }, raw)) => {
                Some(HeadNorms { raw, rows: tokens, queries: &w[queries], keys: &w[keys], norm })
            }
            Some((whole, raw)) => {
                b.copy_first_rows(raw, &mut qkv, tokens);
                for (part, id) in whole.groups(of.shape) {
                    b.rms_norm(part, norm, raw, &w[id], &mut qkv, tokens);
                }
                None
            }
        };
        let angles = rows.rope.of(of);
        b.prepare_qkv(of.shape, norms, angles, &mut qkv, &rows.batch, cache, layer);
        b.attention(of.shape, &qkv, &rows.batch, cache, layer, &mut attended);
        let gated = gate.as_ref().map(|gate| self.gated(&attended, gate, tokens));
        let read = gated.as_ref().unwrap_or(&attended);
        let branch = self.add_branch(&block.output, norm_output, read, stream, next, tokens);
        let attended = keeps_attended.then_some(attended);
        AttentionInternals { raw_qkv, qkv, gate, attended, branch }
    }

    /// The normed rows; none if there is no norm.
    pub(crate) fn normed_rows(
        &self,
        norm: Option<Id>,
        x: &Buffer,
        tokens: usize,
    ) -> Option<Buffer> {
        norm.map(|norm| {
            let mut normed = self.activations(tokens, self.layout.shapes.hidden);
            self.norm(x, norm, &mut normed, tokens);
            normed
        })
    }

    /// The normed residual stream; none if there is no norm.
    fn normed_stream(
        &self,
        norm: Option<Id>,
        stream: &mut Stream,
        tokens: usize,
    ) -> Option<Buffer> {
        stream.normed.take().or_else(|| self.normed_rows(norm, &stream.x, tokens))
    }

    /// `x += W y`; if the branch has a norm behind it or a factor, `x += factor norm(W y)`. Then
    /// returns `W y` if the norm's gradient needs it. `next` is the next branch's norm.
    fn add_branch(
        &self,
        of: &Projection,
        norm: Option<Id>,
        y: &Buffer,
        stream: &mut Stream,
        next: Option<Id>,
        tokens: usize,
    ) -> Option<Buffer> {
        let (factor, x) = (self.scales.branches.as_ref(), &mut stream.x);
        if norm.is_none() && factor.is_none() {
            match next {
                Some(next) => stream.normed = Some(self.project_add_norm(of, y, x, next, tokens)),
                None => self.project_add(of, y, x, tokens),
            }
            return None;
        }
        let mut branch = self.activations(tokens, of.shape.outputs);
        self.project(of, y, &mut branch, tokens);
        self.add_output(norm, branch, x, tokens)
    }

    /// `x += factor norm(branch)`. Returns the branch's output if the norm's gradient needs it.
    fn add_output(
        &self,
        norm: Option<Id>,
        branch: Buffer,
        x: &mut Buffer,
        tokens: usize,
    ) -> Option<Buffer> {
        let (mut added, kept) = match self.normed_rows(norm, &branch, tokens) {
            Some(normed) => (normed, Some(branch)),
            None => (branch, None),
        };
        self.scale(self.scales.branches.as_ref(), &mut added, tokens);
        self.backend.add_rows(&added, x, tokens);
        kept
    }

    /// The gradient of a branch's `W y` from that of the residual stream, and adds to the gradient
    /// of the weights of the norm behind it. None if both gradients are the same.
    fn branch_gradient(
        &self,
        norm: Option<Id>,
        branch: Option<Buffer>,
        dx: &Buffer,
        gradient: &mut Gradient,
        tokens: usize,
    ) -> Option<Buffer> {
        let (factor, norm) = (self.scales.branches.as_ref(), norm.zip(branch));
        if norm.is_none() && factor.is_none() {
            return None;
        }
        let mut d_branch = self.activations(tokens, self.layout.shapes.hidden);
        self.backend.copy_first_rows(dx, &mut d_branch, tokens);
        self.scale(factor, &mut d_branch, tokens);
        if let Some((norm, branch)) = norm {
            self.norm_backward(&branch, norm, None, &mut d_branch, gradient, tokens);
        }
        Some(d_branch)
    }

    /// Adds to `dx` the gradient of a branch's input: `d_normed`, through the norm if there is one.
    fn add_input_gradient(
        &self,
        norm: Option<Id>,
        x: &Buffer,
        d_normed: &Buffer,
        dx: &mut Buffer,
        gradient: &mut Gradient,
        tokens: usize,
    ) {
        match norm {
            Some(norm) => self.norm_backward(x, norm, Some(d_normed), dx, gradient, tokens),
            None => self.backend.add_rows(d_normed, dx, tokens),
        }
    }

    /// Turns the pass's `dx`, the gradient of the block's output, into the gradient of its `input`,
    /// and adds to the gradients of the trained weights. Below the first block nothing needs `dx`
    /// beside an adapter, and it stays unfinished.
    pub(crate) fn block_backward(
        &self,
        block: &BlockLayout,
        input: &Buffer,
        internals: Internals<Buffer>,
        BackwardPass { blocks_to_come, rows, dx, routers, .. }: &mut BackwardPass<'_>,
        gradient: &mut Gradient,
    ) {
        let (b, w, s) = (&*self.backend, &self.weights, &self.layout.shapes);
        let tokens = rows.count;
        let rms = self.config.rms_norm();
        let Internals {
            attention: AttentionInternals { raw_qkv, qkv, gate, attended, branch: of_attention },
            middle,
            gate_up,
            branch,
        } = internals;

        // MLP.
        let mlp = operation("MLP backward");
        let norms = block.mlp_norms;
        let d_branch = self.branch_gradient(norms.output, branch, dx, gradient, tokens);
        let d = d_branch.as_ref().unwrap_or(dx);
        let d_normed = match (&block.mlp, gate_up) {
            (Mlp::Dense { gate_up: product, down }, Some(mut gate_up)) => {
                let mut activated = self.activations(tokens, s.intermediate);
                let reduced = self.reduced_gradient(down, d, tokens);
                let reduced = reduced.as_ref();
                self.project_backward_input(down, d, reduced, &mut activated, tokens);
                let gate = self.config.gate;
                b.glu_backward(gate, s.intermediate, &mut activated, &mut gate_up, tokens);
                self.project_backward_weight(down, &activated, d, reduced, gradient, tokens);
                drop((activated, d_branch));
                let normed = self.normed_rows(norms.input, &middle, tokens);
                let reduced = self.reduced_gradient(product, &gate_up, tokens);
                let reduced = reduced.as_ref();
                let read = normed.as_ref().unwrap_or(&middle);
                self.project_backward_weight(product, read, &gate_up, reduced, gradient, tokens);
                let mut d_normed = normed.unwrap_or_else(|| self.activations(tokens, s.hidden));
                self.project_backward_input(product, &gate_up, reduced, &mut d_normed, tokens);
                d_normed
            }
            (Mlp::Dense { .. }, None) => unreachable!("an MLP keeps its first product"),
            (Mlp::Experts(experts), _) => {
                let normed = self.normed_rows(norms.input, &middle, tokens);
                let read = normed.as_ref().unwrap_or(&middle);
                self.experts_backward(experts, read, d, routers, gradient, tokens)
            }
        };
        self.add_input_gradient(norms.input, &middle, &d_normed, dx, gradient, tokens);
        drop((middle, d_normed));
        drop(mlp);

        // Attention.
        let _span = operation("attention backward");
        let norms = block.attention_norms;
        let d_branch = self.branch_gradient(norms.output, of_attention, dx, gradient, tokens);
        let d = d_branch.as_ref().unwrap_or(dx);
        let reduced = self.reduced_gradient(&block.output, d, tokens);
        let reduced = reduced.as_ref();
        let gated = gate.as_ref().zip(attended.as_ref());
        let gated = gated.map(|(gate, attended)| self.gated(attended, gate, tokens));
        if let Some(read) = gated.as_ref().or(attended.as_ref()) {
            self.project_backward_weight(&block.output, read, d, reduced, gradient, tokens);
        }
        // The gradient replaces what the product read.
        let (read, attended) = match gated {
            Some(gated) => (Some(gated), attended),
            None => (attended, None),
        };
        let mut d_attended =
            read.unwrap_or_else(|| self.activations(tokens, block.output.shape.inputs));
        self.project_backward_input(&block.output, d, reduced, &mut d_attended, tokens);
        drop(d_branch);
        let d_gate = gate.zip(attended).map(|(mut gate, attended)| {
            self.hybrid().gate_output_backward(&attended, &mut gate, &mut d_attended, tokens);
            gate
        });
        let d_qkv = match &block.mixer {
            Mixer::Delta(of) => self.delta_backward(of, &qkv, rows, &d_attended, gradient),
            Mixer::Attention(of) => {
                let mut d_qkv = self.activations(tokens, of.shape.row());
                b.attention_backward(of.shape, &qkv, &rows.batch, &d_attended, &mut d_qkv);
                let (cos, sin) = rows.rope.of(of);
                let turned = of.shape.turned_heads();
                b.rope(turned, &mut d_qkv, cos, sin, &rows.batch, Turn::Backward);
                if let (Some(norms), Some(raw)) = (of.qk_norm, raw_qkv) {
                    for (part, id) in norms.groups(of.shape) {
                        let dw = gradient.of_model(id);
                        b.rms_norm_backward(part, rms, &raw, &w[id], None, &mut d_qkv, dw, tokens);
                    }
                }
                match d_gate {
                    Some(d_gate) => self.join_gates(of.shape, &d_qkv, &d_gate, tokens),
                    None => d_qkv,
                }
            }
        };
        drop(d_attended);
        let normed = self.normed_rows(norms.input, input, tokens);
        let reduced = self.reduced_gradient(&block.qkv, &d_qkv, tokens);
        let reduced = reduced.as_ref();
        let read = normed.as_ref().unwrap_or(input);
        self.project_backward_weight(&block.qkv, read, &d_qkv, reduced, gradient, tokens);
        if *blocks_to_come == 0 && self.layout.adapter.is_some() {
            return;
        }
        let mut d_normed = normed.unwrap_or_else(|| self.activations(tokens, s.hidden));
        self.project_backward_input(&block.qkv, &d_qkv, reduced, &mut d_normed, tokens);
        self.add_input_gradient(norms.input, input, &d_normed, dx, gradient, tokens);
    }
}
