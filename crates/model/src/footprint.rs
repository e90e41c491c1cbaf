//! How many bytes things take, known from the layout alone.

use crate::layout::{BlockLayout, Layout};
use crate::pass::Keep;
use isentrope_kernels::{Distribution, PAGE};

/// Floats of the head's work for one token: the normed row, its gradient and that of the last block's output.
const HEAD_ROWS: usize = 3;
/// The residual stream, its gradient and the largest copies made on the way.
const STREAM_ROWS: usize = 4;

impl Layout {
    /// Bytes of one set of parameters: weights, a gradient, a moment.
    pub fn parameter_bytes(&self) -> usize {
        self.stored_len() * size_of::<f32>()
    }

    /// Bytes that the [tape](crate::Tape) of a forward pass keeps for one token.
    pub fn tape_bytes_per_token(&self, keep: Keep) -> usize {
        let hidden = self.shapes.hidden;
        let block = |block| match keep {
            Keep::Activations => hidden + self.internals_len(block),
            Keep::BlockInputs => hidden,
        };
        let blocks: usize = self.blocks.iter().map(block).sum();
        // Of the last block's output at most all rows are kept.
        (blocks + hidden) * size_of::<f32>() + size_of::<Distribution>()
    }

    /// Bytes of one slot of a [recording](crate::Recording).
    pub fn recording_bytes_per_slot(&self) -> usize {
        self.tape_bytes_per_token(Keep::Activations) - size_of::<Distribution>()
    }

    /// Bytes that a forward and a backward pass take for one token beside the tape, at most.
    pub fn working_bytes_per_token(&self) -> usize {
        let block = self.blocks.iter().map(|block| self.internals_len(block)).max().unwrap_or(0);
        let rows = (HEAD_ROWS + STREAM_ROWS) * self.shapes.hidden + self.shapes.intermediate;
        // A block's internals, their gradients, and the keys and values of one layer.
        (2 * block + rows + self.layer_page_len().div_ceil(PAGE)) * size_of::<f32>()
    }

    /// Bytes of one page of keys and values, over all layers.
    pub fn cache_page_bytes(&self) -> usize {
        self.layer_page_len() * self.blocks.len() * size_of::<f32>()
    }

    /// Bytes of one row of logits.
    pub fn logits_bytes(&self) -> usize {
        self.shapes.table.outputs * size_of::<f32>()
    }

    /// Floats of a block's internals for one token: what its backward pass needs beside its input.
    fn internals_len(&self, block: &BlockLayout) -> usize {
        let s = &self.shapes;
        let copies_of_qkv = if block.qk_norm.is_some() { 2 } else { 1 };
        copies_of_qkv * s.qkv.outputs + s.output.inputs + s.hidden + s.gate_up.outputs
    }

    fn layer_page_len(&self) -> usize {
        self.blocks.first().map_or(0, |block| block.attention.page_len())
    }
}
