//! `y = x W^T + b`.

use super::{Destination, Grid, Linear, PANEL, REDUCTION_BLOCK, ROW_BLOCK};
use crate::simd::{Kernel, Simd};
use crate::threads::{Shared, Workers};
use crate::tile::{End, Product, Start, TILE_ROWS};
use std::ops::Range;

/// `y = x W^T + b`, or `y += x W^T + b`. `x: [tokens, inputs]`, `y: [tokens, outputs]`.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
pub(crate) fn forward(
    workers: &Workers,
    shape: Linear,
    x: &[f32],
    weights: &[f32],
    bias: Option<&[f32]>,
    y: &mut [f32],
    to: Destination,
    tokens: usize,
) {
    forward_columns(workers, shape, 0..shape.panels(), x, weights, bias, y, to, tokens);
}

/// The outputs of these `panels`, into `y: [tokens, outputs of those panels]`.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
pub(crate) fn forward_columns(
    workers: &Workers,
    shape: Linear,
    panels: Range<usize>,
    x: &[f32],
    weights: &[f32],
    bias: Option<&[f32]>,
    y: &mut [f32],
    to: Destination,
    tokens: usize,
) {
    let columns = (panels.end * PANEL).min(shape.outputs) - panels.start * PANEL;
    assert!(x.len() >= tokens * shape.inputs && y.len() >= tokens * columns);
    assert_eq!(weights.len(), shape.packed_len());
    assert!(bias.is_none_or(|b| b.len() >= shape.outputs));
    let threads = workers.threads.count();
    let (grid, tasks) = Grid::new(tokens, ROW_BLOCK, panels.len(), threads);
    let y = Shared::of(y);
    workers.threads.each(tasks, |i| {
        let (rows, cut) = grid.task(i, tokens, panels.len());
        // SAFETY: tasks own disjoint rectangles of y; lengths were checked above.
        unsafe {
            workers.isa.run(ForwardBlock {
                shape,
                first_panel: panels.start,
                cut,
                x: x.as_ptr().add(rows.start * shape.inputs),
                weights: weights.as_ptr(),
                bias: bias.map(<[f32]>::as_ptr),
                y: y.start().add(rows.start * columns),
                y_stride: columns,
                to,
                rows: rows.len(),
            });
        }
    });
}

struct ForwardBlock {
    shape: Linear,
    first_panel: usize,
    cut: Range<usize>,
    x: *const f32,
    weights: *const f32,
    bias: Option<*const f32>,
    y: *mut f32,
    y_stride: usize,
    to: Destination,
    rows: usize,
}

impl Kernel for ForwardBlock {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let inputs = self.shape.inputs;
        // With few rows the panel is streamed once per register tile and partial sums stay in
        // registers.
        let block = if self.rows <= TILE_ROWS { inputs.max(1) } else { REDUCTION_BLOCK };
        // Partial sums wait in `y` itself, or beside it if finished sums are added to `y`.
        let aside = self.to == Destination::Add && inputs > block;
        let mut partial = vec![0.0f32; if aside { self.rows * PANEL } else { 0 }];
        for cut in self.cut {
            let p = self.first_panel + cut;
            let (offset, columns, width) = self.shape.panel(p);
            let mut first = 0;
            loop {
                let steps = block.min(inputs - first);
                // SAFETY: `forward_columns` checked that x, the panel, the bias and y cover these
                // extents.
                unsafe {
                    let y = self.y.add(cut * PANEL);
                    let (c, c_row_stride) =
                        if aside { (partial.as_mut_ptr(), PANEL) } else { (y, self.y_stride) };
                    Product {
                        a: self.x.add(first),
                        a_row_stride: inputs,
                        a_step_stride: 1,
                        b: self.weights.add(offset + first * width),
                        b_step_stride: width,
                        c,
                        c_row_stride,
                        steps,
                        rows: self.rows,
                        columns,
                        start: match self.bias {
                            _ if first > 0 => Start::Load,
                            Some(bias) => Start::Bias(bias.add(p * PANEL)),
                            None => Start::Zero,
                        },
                        end: if self.to == Destination::Add && first + steps == inputs {
                            End::AddTo(y, self.y_stride)
                        } else {
                            End::Store
                        },
                    }
                    .run::<S>();
                }
                first += steps;
                if first >= inputs {
                    break;
                }
            }
        }
    }
}
