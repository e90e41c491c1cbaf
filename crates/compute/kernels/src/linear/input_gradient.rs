//! `dx = dy W`.

use super::{Destination, Grid, Linear, PANEL, REDUCTION_BLOCK, ROW_BLOCK};
use crate::buffer::Scratch;
use crate::simd::{Kernel, LANES, Simd};
use crate::threads::{Shared, Workers};
use crate::tile::{End, Product, Start};
use std::ops::Range;

/// `dx = dy W`, or `dx += dy W`: the part of each chain over the outputs of `panels`, in ascending
/// order. The chains continue from `dx` if `resume`. `dy: [tokens, outputs of these panels]`,
/// `dx: [tokens, inputs]`.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
pub(crate) fn backward_input(
    workers: &Workers,
    shape: Linear,
    panels: Range<usize>,
    dy: &[f32],
    weights: &[f32],
    dx: &mut [f32],
    to: Destination,
    tokens: usize,
    resume: bool,
) {
    let columns = (panels.end * PANEL).min(shape.outputs) - panels.start * PANEL;
    assert!(dx.len() >= tokens * shape.inputs && dy.len() >= tokens * columns);
    assert_eq!(weights.len(), shape.packed_len());
    let threads = workers.threads.count();
    let input_panels = shape.inputs.div_ceil(PANEL);
    let (grid, tasks) = Grid::new(tokens, ROW_BLOCK, input_panels, threads);
    let dx = Shared::of(dx);
    workers.threads.each(tasks, |i| {
        let (rows, cut) = grid.task(i, tokens, input_panels);
        // SAFETY: tasks own disjoint rectangles of dx; lengths were checked above.
        unsafe {
            workers.isa.run(BackwardInputBlock {
                shape,
                panels: panels.clone(),
                cut,
                dy: dy.as_ptr().add(rows.start * columns),
                dy_stride: columns,
                weights,
                dx: dx.start().add(rows.start * shape.inputs),
                to,
                rows: rows.len(),
                resume,
            });
        }
    });
}

struct BackwardInputBlock<'a> {
    shape: Linear,
    /// The outputs, which the sums run over.
    panels: Range<usize>,
    /// Panels of inputs: the columns of dx.
    cut: Range<usize>,
    dy: *const f32,
    dy_stride: usize,
    weights: &'a [f32],
    dx: *mut f32,
    to: Destination,
    rows: usize,
    resume: bool,
}

impl Kernel for BackwardInputBlock<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        const PANELS: usize = REDUCTION_BLOCK / PANEL;
        let inputs = self.shape.inputs;
        // W transposed, block by block: `[outputs, 64 inputs]`.
        let mut block = Scratch::new(REDUCTION_BLOCK * PANEL);
        // Partial sums wait in `dx` itself, or beside it if finished sums are added to `dx`.
        let aside = self.to == Destination::Add && self.panels.len() > PANELS;
        let mut partial = vec![0.0f32; if aside { self.rows * PANEL } else { 0 }];
        for cut in self.cut {
            let first_input = cut * PANEL;
            let columns = (inputs - first_input).min(PANEL);
            let mut p = self.panels.start;
            while p < self.panels.end {
                let end = (p + PANELS).min(self.panels.end);
                let mut steps = 0;
                for panel in p..end {
                    let (offset, outputs, width) = self.shape.panel(panel);
                    let source = &self.weights[offset + first_input * width..][..columns * width];
                    // SAFETY: the instruction set is this kernel's.
                    unsafe { transpose::<S>(source, width, &mut block[steps * PANEL..], outputs) };
                    steps += outputs;
                }
                // SAFETY: `backward_input` checked that dy and dx cover these extents.
                unsafe {
                    let dx = self.dx.add(first_input);
                    let (c, c_row_stride) =
                        if aside { (partial.as_mut_ptr(), PANEL) } else { (dx, inputs) };
                    Product {
                        a: self.dy.add((p - self.panels.start) * PANEL),
                        a_row_stride: self.dy_stride,
                        a_step_stride: 1,
                        b: block.as_ptr(),
                        b_step_stride: PANEL,
                        c,
                        c_row_stride,
                        steps,
                        rows: self.rows,
                        columns,
                        start: if p > self.panels.start || self.resume {
                            Start::Load
                        } else {
                            Start::Zero
                        },
                        end: if self.to == Destination::Add && end == self.panels.end {
                            End::AddTo(dx, inputs)
                        } else {
                            End::Store
                        },
                    }
                    .run::<S>();
                }
                p = end;
            }
        }
    }
}

/// From `[inputs, width]` to `[outputs, 64]`, where `outputs <= width` of the columns are wanted.
///
/// # Safety
/// The instruction set is available.
#[inline(always)]
unsafe fn transpose<S: Simd>(source: &[f32], width: usize, target: &mut [f32], outputs: usize) {
    let inputs = source.len() / width;
    for output in (0..outputs).step_by(LANES) {
        for input in (0..inputs).step_by(LANES) {
            if outputs - output >= LANES && inputs - input >= LANES {
                let (from, to) =
                    (&source[input * width + output..], &mut target[output * PANEL + input..]);
                assert!(
                    from.len() >= (LANES - 1) * width + LANES
                        && to.len() >= (LANES - 1) * PANEL + LANES
                );
                // SAFETY: 16 rows of 16 lanes are there on both sides.
                unsafe { S::transpose(from.as_ptr(), width, to.as_mut_ptr(), PANEL) };
                continue;
            }
            for i in input..inputs.min(input + LANES) {
                for j in output..outputs.min(output + LANES) {
                    target[j * PANEL + i] = source[i * width + j];
                }
            }
        }
    }
}
