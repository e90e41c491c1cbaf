//! The number of logits that are held at a time: whole rows on the way forward, blocks of the
//! vocabulary on the way back.

use isentrope_kernels::Linear;

/// Logits held at a time on the way forward: 256 rows over a vocabulary of 152 064, so that a step
/// reads the head's weights once.
const FORWARD: usize = 40 << 20;
/// Logits held at a time on the way back. They are fewer, because the backward pass needs more
/// memory beside them.
const BACK: usize = 16 << 20;
/// Blocks of the vocabulary are made of panels with this number of outputs.
const PANEL: usize = 64;

/// The sizes of blocks of logits. No bit depends on them.
#[derive(Clone, Copy)]
pub(crate) struct LogitsBlocks {
    forward: usize,
    back: usize,
}

impl LogitsBlocks {
    /// The blocks of a GPU.
    pub(crate) const OF_A_GPU: Self = Self { forward: FORWARD, back: BACK };

    /// Holds the same number of logits, forward and backward.
    pub(crate) fn of(elements: usize) -> Self {
        Self { forward: elements, back: elements }
    }

    /// Rows whose logits are held at a time, at most `rows`.
    pub(crate) fn rows(self, shape: Linear, rows: usize) -> usize {
        (self.forward / shape.outputs.max(1)).clamp(1, rows.max(1))
    }

    /// Rows to allocate for a step of `rows` rows: a power of two where possible. A captured step
    /// keeps its memory, so there must be few sizes.
    pub(crate) fn few_sizes(self, shape: Linear, rows: usize) -> usize {
        rows.next_power_of_two().min(self.rows(shape, usize::MAX)).max(rows)
    }

    /// Tokens of the vocabulary whose logits are held at a time, for `rows` rows. The number of
    /// panels is a power of two, so that there are few widths: each width is a kind of product,
    /// which is compared before the vendor's library may compute it.
    pub(crate) fn columns(self, shape: Linear, rows: usize) -> usize {
        let panels = (self.back / rows.max(1).saturating_mul(PANEL)).max(1);
        let panels = 1_usize << panels.ilog2();
        panels.saturating_mul(PANEL).min(shape.outputs)
    }
}
