//! Linear layers on packed weights.
//!
//! A weight matrix `W: [outputs, inputs]` is stored in panels of [`PANEL`] outputs: panel p holds,
//! for each input in order, the weights to outputs `64 p ..` next to one another, so that vector
//! lanes run across outputs and the weights of one reduction step are contiguous. The last panel is
//! padded with zeros to a multiple of 16. Gradients and optimizer moments have the same layout.

mod forward;
mod input_gradient;
mod weight_gradient;

pub(crate) use forward::{forward, forward_columns};
pub(crate) use input_gradient::backward_input;
pub(crate) use weight_gradient::{backward_bias, backward_weight};

use crate::erased::Buffer;
use crate::simd::LANES;
use crate::tile::TILE_ROWS;
use std::ops::Range;

/// Outputs in a panel.
pub(crate) const PANEL: usize = 64;

/// Steps of a reduction between reloads of the partial sums: a panel of this many steps stays in
/// the L2 cache.
const REDUCTION_BLOCK: usize = 512;
/// Rows of activations that one task multiplies with a panel before it goes to the next.
const ROW_BLOCK: usize = 768;
/// Rows per thread from which on threads share out rows rather than weights.
const SHARED_ROWS: usize = 96;

/// The shape of a linear layer and the layout of its packed weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// Features in.
    pub inputs: usize,
    /// Features out.
    pub outputs: usize,
}

/// A low-rank adapter of a linear layer, `B (s (A x))`: see
/// [`linear_adapted`](crate::Backend::linear_adapted).
#[derive(Clone, Copy)]
pub struct LowRank<'a> {
    /// The shape of A, from the layer's inputs to the ranks.
    pub down: Linear,
    /// A.
    pub a: &'a Buffer,
    /// s, a factor for each rank: `[1, ranks]`, exact.
    pub scales: &'a Buffer,
    /// The shape of B, from the ranks to the layer's outputs.
    pub up: Linear,
    /// B.
    pub b: &'a Buffer,
}

impl Linear {
    /// Rows, and floats per row, of the packed weights: outputs are padded to whole vectors. A
    /// length that no memory could hold saturates, so that the product stays too large.
    pub(crate) fn packed_extent(self) -> (usize, usize) {
        (self.outputs.checked_next_multiple_of(LANES).unwrap_or(usize::MAX), self.inputs)
    }

    /// Floats in the packed weights.
    pub(crate) fn packed_len(self) -> usize {
        // A length that wrapped around would pass every check of a buffer's extent.
        let (outputs, inputs) = self.packed_extent();
        outputs.saturating_mul(inputs)
    }

    pub(crate) fn panels(self) -> usize {
        self.outputs.div_ceil(PANEL)
    }

    /// The start of panel `p`, its outputs, and its floats per input.
    fn panel(self, p: usize) -> (usize, usize, usize) {
        let outputs = (self.outputs - p * PANEL).min(PANEL);
        (p * PANEL * self.inputs, outputs, outputs.next_multiple_of(LANES))
    }

    /// The place of the weight from input 0 to `output`, and the distance to the weight from the
    /// next input.
    pub(crate) fn row(self, output: usize) -> (usize, usize) {
        let (start, _, width) = self.panel(output / PANEL);
        (start + output % PANEL, width)
    }

    /// Packs rows `first..first + rows.len() / inputs` of `W`, given row by row.
    ///
    /// # Panics
    /// When the rows do not fit the shape.
    pub(crate) fn pack(self, first: usize, rows: &[f32], packed: &mut [f32]) {
        assert_eq!(packed.len(), self.packed_len());
        assert!(
            rows.len().is_multiple_of(self.inputs)
                && first + rows.len() / self.inputs <= self.outputs
        );
        for (i, row) in rows.chunks_exact(self.inputs).enumerate() {
            let (start, stride) = self.row(first + i);
            for (&w, p) in row.iter().zip(packed[start..].iter_mut().step_by(stride)) {
                *p = w;
            }
        }
    }

    /// The inverse of [`pack`](Self::pack).
    ///
    /// # Panics
    /// When the rows do not fit the shape.
    pub(crate) fn unpack(self, first: usize, packed: &[f32], rows: &mut [f32]) {
        assert_eq!(packed.len(), self.packed_len());
        assert!(
            rows.len().is_multiple_of(self.inputs)
                && first + rows.len() / self.inputs <= self.outputs
        );
        for (i, row) in rows.chunks_exact_mut(self.inputs).enumerate() {
            let (start, stride) = self.row(first + i);
            for (w, &p) in row.iter_mut().zip(packed[start..].iter().step_by(stride)) {
                *w = p;
            }
        }
    }
}

/// The output of a product, cut into rectangles, one per task, numbered row by row.
///
/// A thread's own tasks are consecutive. If there are enough rows, each thread gets the same rows
/// in every operation, and they stay in its cache from one operation to the next. If there are few,
/// threads share out the weights instead, so that each weight is read only once.
struct Grid {
    row_block: usize,
    column_block: usize,
    columns: usize,
}

impl Grid {
    /// Cuts `rows x columns` (the latter counted in panels) so that `threads` share it evenly. A
    /// task has at most `most_rows` rows.
    fn new(rows: usize, most_rows: usize, columns: usize, threads: usize) -> (Self, usize) {
        let row_blocks = if rows >= threads * SHARED_ROWS {
            rows.div_ceil(most_rows).next_multiple_of(threads)
        } else if columns < 4 * threads {
            (4 * threads).div_ceil(columns.max(1)).min(rows.div_ceil(4 * TILE_ROWS)).max(1)
        } else {
            1
        };
        let row_block = rows.div_ceil(row_blocks).next_multiple_of(TILE_ROWS);
        let row_blocks = rows.div_ceil(row_block.max(1));
        let wanted = if threads == 1 { 1 } else { threads * 4 };
        let column_block = (columns * row_blocks).div_ceil(wanted).clamp(1, columns.max(1));
        let grid = Self { row_block, column_block, columns: columns.div_ceil(column_block) };
        let tasks = row_blocks * grid.columns;
        (grid, tasks)
    }

    fn task(&self, i: usize, rows: usize, columns: usize) -> (Range<usize>, Range<usize>) {
        let row = (i / self.columns) * self.row_block;
        let column = (i % self.columns) * self.column_block;
        (row..(row + self.row_block).min(rows), column..(column + self.column_block).min(columns))
    }
}

/// Whether a result replaces an output or is added to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The result replaces the output.
    Replace,
    /// The finished chain is added to the output.
    Add,
}
