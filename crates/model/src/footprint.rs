//! How many bytes things take, known from the layout alone.

use crate::gradient::embedded_capacity;
use crate::layout::{BlockLayout, Layout};
use crate::pass::Keep;
use isentrope_kernels::{Distribution, Linear, PAGE, head_workspace};

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

    /// Bytes that a forward and a backward pass over so many tokens take beside the tape, at most.
    pub fn working_bytes(&self, tokens: usize) -> usize {
        self.working_bytes_per_token().saturating_mul(tokens).saturating_add(self.head_bytes(tokens))
    }

    /// Of these, what the head's logits take: not in proportion to the tokens, since it holds some of them at a time.
    pub fn head_bytes(&self, tokens: usize) -> usize {
        head_workspace(self.shapes.table, tokens).saturating_mul(size_of::<f32>())
    }

    /// Of these, what one token takes.
    pub fn working_bytes_per_token(&self) -> usize {
        let block = self.blocks.iter().map(|block| self.internals_len(block)).max().unwrap_or(0);
        let rows = (HEAD_ROWS + STREAM_ROWS) * self.shapes.hidden + self.shapes.intermediate;
        let attention = self.blocks.first().map_or(0, |block| block.attention.gradient_workspace());
        // A block's internals, their gradients, and the keys and values of one layer.
        (2 * block + rows + attention + self.layer_page_len().div_ceil(PAGE)) * size_of::<f32>()
    }

    /// Bytes that a [gradient](crate::Gradient) takes beside its parameters once so many tokens went into it, at most: a row
    /// for each token of the vocabulary among them, and the rows so far beside them while there come to be more.
    pub fn embedded_bytes(&self, tokens: usize) -> usize {
        embedded_rows(self.shapes.table, tokens) * self.shapes.hidden * size_of::<f32>()
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

/// Rows that there is memory for at a time while the tokens come, at most: the last rows, and those that are copied into them,
/// which are fewer than the tokens and a power of two.
fn embedded_rows(table: Linear, tokens: usize) -> usize {
    let used = tokens.min(table.outputs);
    embedded_capacity(table, used) + used.next_power_of_two() / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the growth itself, one token after the other.
    #[test]
    fn rows_of_an_embedding_are_bounded_while_they_grow() {
        for outputs in (1..70).chain([131_072, 131_073, 151_936]) {
            let table = Linear { inputs: 1, outputs };
            let (mut capacity, mut most) = (0, 0);
            for used in 1..=outputs {
                if used > capacity {
                    let grown = embedded_capacity(table, used);
                    most = most.max(capacity + grown);
                    capacity = grown;
                }
                assert_eq!(embedded_rows(table, used), most, "{used} of {outputs} tokens");
            }
            assert_eq!(embedded_rows(table, usize::MAX), most);
        }
    }
}
