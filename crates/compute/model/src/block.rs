//! One decoder block, forward and backward.
//!
//! Forward, on the residual stream x: `x += Wo attention(rope(Wqkv norm(x)))`, then
//! `x += Wdown swiglu(Wgu norm(x))`.

use crate::gradient::Gradient;
use crate::internals::{AttentionInternals, Internals};
use crate::layout::BlockLayout;
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

/// A layer of the cache, where a block reads earlier keys and values and stores its own.
pub(crate) struct CacheLayer<'a> {
    pub cache: &'a mut Buffer,
    pub layer: usize,
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

    /// Advances the residual stream `x: [tokens, hidden]` through one block, which stores the
    /// batch's keys and values. Returns the internals if they are to be kept.
    pub(crate) fn block_forward(
        &self,
        block: &BlockLayout,
        x: &mut Buffer,
        rows: &Rows,
        cache: CacheLayer<'_>,
        keep: bool,
    ) -> Option<Internals<Buffer>> {
        let (b, s) = (&*self.backend, &self.layout.shapes);
        let tokens = rows.count;
        let attention = self.attention_branch(block, x, rows, cache);
        // Buffers that are not kept are freed here, before the MLP takes its memory.
        let kept = keep.then(|| {
            let mut middle = self.activations(tokens, s.hidden);
            b.copy_first_rows(x, &mut middle, tokens);
            (attention, middle)
        });
        let _span = operation("MLP");
        let normed = self.mlp_input(block, x, tokens);
        let mut gate_up = keep.then(|| self.activations(tokens, s.gate_up.outputs));
        let mut activated = self.activations(tokens, s.intermediate);
        self.project_swiglu(&block.gate_up, &normed, gate_up.as_mut(), &mut activated, tokens);
        drop(normed);
        self.project_add(&block.down, &activated, x, tokens);
        kept.zip(gate_up).map(|((attention, middle), gate_up)| Internals {
            attention,
            middle,
            gate_up,
        })
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
        let attention = self.attention_branch(block, &mut middle, rows, cache);
        let normed = self.mlp_input(block, &middle, tokens);
        let mut gate_up = self.activations(tokens, block.gate_up.shape.outputs);
        self.project(&block.gate_up, &normed, &mut gate_up, tokens);
        Internals { attention, middle, gate_up }
    }

    /// `x += Wo attention(rope(Wqkv norm(x)))`.
    fn attention_branch(
        &self,
        block: &BlockLayout,
        x: &mut Buffer,
        rows: &Rows,
        CacheLayer { cache, layer }: CacheLayer<'_>,
    ) -> AttentionInternals<Buffer> {
        let _span = operation("attention");
        let (b, w, s) = (&*self.backend, &self.weights, &self.layout.shapes);
        let tokens = rows.count;
        let mut normed = self.activations(tokens, s.hidden);
        self.norm(x, block.input_norm, &mut normed, tokens);
        let mut qkv = self.activations(tokens, s.qkv.outputs);
        self.project(&block.qkv, &normed, &mut qkv, tokens);
        let raw_qkv = block.qk_norm.map(|_| {
            let turned = self.activations(tokens, s.qkv.outputs);
            mem::replace(&mut qkv, turned)
        });
        let norms = block.qk_norm.zip(raw_qkv.as_ref()).map(|((queries, keys), raw)| HeadNorms {
            raw,
            rows: tokens,
            queries: &w[queries],
            keys: &w[keys],
            eps: self.config.rms_norm_eps,
        });
        let angles = rows.rope.of(block);
        b.prepare_qkv(block.attention, norms, angles, &mut qkv, &rows.batch, cache, layer);
        let mut attended = self.activations(tokens, s.output.inputs);
        b.attention(block.attention, &qkv, &rows.batch, cache, layer, &mut attended);
        self.project_add(&block.output, &attended, x, tokens);
        AttentionInternals { raw_qkv, qkv, attended }
    }

    /// The norm before the MLP.
    fn mlp_input(&self, block: &BlockLayout, x: &Buffer, tokens: usize) -> Buffer {
        let mut normed = self.activations(tokens, self.layout.shapes.hidden);
        self.norm(x, block.mlp_norm, &mut normed, tokens);
        normed
    }

    /// Turns `dx`, the gradient of the block's output, into the gradient of its `input`, and adds
    /// to the gradients of the trained weights.
    pub(crate) fn block_backward(
        &self,
        block: &BlockLayout,
        input: &Buffer,
        internals: Internals<Buffer>,
        rows: &Rows,
        dx: &mut Buffer,
        gradient: &mut Gradient,
    ) {
        let (b, w, s) = (&*self.backend, &self.weights, &self.layout.shapes);
        let tokens = rows.count;
        let eps = self.config.rms_norm_eps;
        let Internals {
            attention: AttentionInternals { raw_qkv, qkv, attended },
            middle,
            mut gate_up,
        } = internals;

        // MLP.
        let mlp = operation("MLP backward");
        let mut activated = self.activations(tokens, s.intermediate);
        let reduced = self.reduced_gradient(&block.down, dx, tokens);
        let reduced = reduced.as_ref();
        self.project_backward_input(&block.down, dx, reduced, &mut activated, tokens);
        b.swiglu_backward(s.intermediate, &mut activated, &mut gate_up, tokens);
        self.project_backward_weight(&block.down, &activated, dx, reduced, gradient, tokens);
        drop(activated);
        let mut normed = self.activations(tokens, s.hidden);
        self.norm(&middle, block.mlp_norm, &mut normed, tokens);
        let reduced = self.reduced_gradient(&block.gate_up, &gate_up, tokens);
        let reduced = reduced.as_ref();
        self.project_backward_weight(&block.gate_up, &normed, &gate_up, reduced, gradient, tokens);
        let mut d_normed = normed;
        self.project_backward_input(&block.gate_up, &gate_up, reduced, &mut d_normed, tokens);
        drop(gate_up);
        self.norm_backward(&middle, block.mlp_norm, &d_normed, dx, gradient, tokens);
        drop(middle);
        drop(mlp);

        // Attention.
        let _span = operation("attention backward");
        let reduced = self.reduced_gradient(&block.output, dx, tokens);
        let reduced = reduced.as_ref();
        self.project_backward_weight(&block.output, &attended, dx, reduced, gradient, tokens);
        let mut d_attended = attended;
        self.project_backward_input(&block.output, dx, reduced, &mut d_attended, tokens);
        let mut d_qkv = self.activations(tokens, s.qkv.outputs);
        b.attention_backward(block.attention, &qkv, &rows.batch, &d_attended, &mut d_qkv);
        let (cos, sin) = rows.rope.of(block);
        b.rope(block.attention.turned_heads(), &mut d_qkv, cos, sin, &rows.batch, Turn::Backward);
        if let (Some((q_norm, k_norm)), Some(raw)) = (block.qk_norm, raw_qkv) {
            let (queries, keys) = (block.attention.query_heads(), block.attention.key_heads());
            for (heads, id) in [(queries, q_norm), (keys, k_norm)] {
                let dw = gradient.of_model(id);
                b.rms_norm_backward(heads, eps, &raw, &w[id], None, &mut d_qkv, dw, tokens);
            }
        }
        let mut normed = d_normed;
        self.norm(input, block.input_norm, &mut normed, tokens);
        let reduced = self.reduced_gradient(&block.qkv, &d_qkv, tokens);
        let reduced = reduced.as_ref();
        self.project_backward_weight(&block.qkv, &normed, &d_qkv, reduced, gradient, tokens);
        let mut d_normed = normed;
        self.project_backward_input(&block.qkv, &d_qkv, reduced, &mut d_normed, tokens);
        self.norm_backward(input, block.input_norm, &d_normed, dx, gradient, tokens);
    }
}
