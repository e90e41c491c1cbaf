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
        let (b, w, s) = (&*self.backend, &self.weights, &self.layout.shapes);
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
        let bias = block.gate_up_bias.map(|id| &w[id]);
        let kept_outputs = gate_up.as_mut();
        b.linear_swiglu(
            s.gate_up,
            &normed,
            &w[block.gate_up],
            bias,
            kept_outputs,
            &mut activated,
            tokens,
        );
        drop(normed);
        b.linear_add(
            s.down,
            &activated,
            &w[block.down],
            block.down_bias.map(|id| &w[id]),
            x,
            tokens,
        );
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
        let (b, w, shape) = (&*self.backend, &self.weights, self.layout.shapes.gate_up);
        let mut gate_up = self.activations(tokens, shape.outputs);
        let bias = block.gate_up_bias.map(|id| &w[id]);
        b.linear(shape, &normed, &w[block.gate_up], bias, &mut gate_up, tokens);
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
        b.linear(s.qkv, &normed, &w[block.qkv], block.qkv_bias.map(|id| &w[id]), &mut qkv, tokens);
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
        b.linear_add(
            s.output,
            &attended,
            &w[block.output],
            block.output_bias.map(|id| &w[id]),
            x,
            tokens,
        );
        AttentionInternals { raw_qkv, qkv, attended }
    }

    /// The norm before the MLP.
    fn mlp_input(&self, block: &BlockLayout, x: &Buffer, tokens: usize) -> Buffer {
        let mut normed = self.activations(tokens, self.layout.shapes.hidden);
        self.norm(x, block.mlp_norm, &mut normed, tokens);
        normed
    }

    /// Turns `dx`, the gradient of the block's output, into the gradient of its `input`, and adds
    /// to the weights' gradients.
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
        let g = &mut gradient.parameters;
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
        b.linear_backward_input(s.down, dx, &w[block.down], &mut activated, tokens);
        b.swiglu_backward(s.intermediate, &mut activated, &mut gate_up, tokens);
        b.linear_backward_weight(s.down, dx, &activated, &mut g[block.down], tokens);
        if let Some(id) = block.down_bias {
            b.linear_backward_bias(s.down, dx, &mut g[id], tokens);
        }
        drop(activated);
        let mut normed = self.activations(tokens, s.hidden);
        self.norm(&middle, block.mlp_norm, &mut normed, tokens);
        b.linear_backward_weight(s.gate_up, &gate_up, &normed, &mut g[block.gate_up], tokens);
        if let Some(id) = block.gate_up_bias {
            b.linear_backward_bias(s.gate_up, &gate_up, &mut g[id], tokens);
        }
        let mut d_normed = normed;
        b.linear_backward_input(s.gate_up, &gate_up, &w[block.gate_up], &mut d_normed, tokens);
        drop(gate_up);
        self.norm_backward(&middle, block.mlp_norm, &d_normed, dx, gradient, tokens);
        drop(middle);
        drop(mlp);

        // Attention.
        let _span = operation("attention backward");
        let g = &mut gradient.parameters;
        b.linear_backward_weight(s.output, dx, &attended, &mut g[block.output], tokens);
        if let Some(id) = block.output_bias {
            b.linear_backward_bias(s.output, dx, &mut g[id], tokens);
        }
        let mut d_attended = attended;
        b.linear_backward_input(s.output, dx, &w[block.output], &mut d_attended, tokens);
        let mut d_qkv = self.activations(tokens, s.qkv.outputs);
        b.attention_backward(block.attention, &qkv, &rows.batch, &d_attended, &mut d_qkv);
        let (cos, sin) = rows.rope.of(block);
        b.rope(block.attention.turned_heads(), &mut d_qkv, cos, sin, &rows.batch, Turn::Backward);
        if let (Some((q_norm, k_norm)), Some(raw)) = (block.qk_norm, raw_qkv) {
            let (queries, keys) = (block.attention.query_heads(), block.attention.key_heads());
            for (heads, id) in [(queries, q_norm), (keys, k_norm)] {
                b.rms_norm_backward(heads, eps, &raw, &w[id], None, &mut d_qkv, &mut g[id], tokens);
            }
        }
        let mut normed = d_normed;
        self.norm(input, block.input_norm, &mut normed, tokens);
        b.linear_backward_weight(s.qkv, &d_qkv, &normed, &mut g[block.qkv], tokens);
        if let Some(id) = block.qkv_bias {
            b.linear_backward_bias(s.qkv, &d_qkv, &mut g[id], tokens);
        }
        let mut d_normed = normed;
        b.linear_backward_input(s.qkv, &d_qkv, &w[block.qkv], &mut d_normed, tokens);
        self.norm_backward(input, block.input_norm, &d_normed, dx, gradient, tokens);
    }
}
