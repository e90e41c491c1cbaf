//! Linear layers on packed weights.
//!
//! A weight matrix `W: [outputs, inputs]` is stored in panels of [`PANEL`] outputs: panel p holds, for each input
//! in order, the weights to outputs `64 p ..` next to one another, so that vector lanes run across outputs and
//! the weights of one reduction step are contiguous. The last panel is padded with zeros to a multiple of 16.
//! Gradients and optimizer moments have the same layout.

use crate::simd::{Kernel, LANES, Simd};
use crate::threads::{Engine, Shared};
use crate::tile::{End, Product, Start, TILE_ROWS};
use std::ops::Range;

/// Outputs in a panel.
pub const PANEL: usize = 64;

/// Steps of a reduction between reloads of the partial sums: a panel of so many steps stays in the L2 cache.
const REDUCTION_BLOCK: usize = 512;
/// Rows of activations that one task multiplies with a panel before it goes to the next.
const ROW_BLOCK: usize = 768;
/// Tokens per block of a weight gradient.
const TOKEN_BLOCK: usize = 256;
/// Input features per task of a weight gradient: a block of tokens times so many stays in the L2 cache.
const INPUT_BLOCK: usize = 384;
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

impl Linear {
    /// Floats in the packed weights.
    ///
    /// # Panics
    /// When no memory could hold them: a length that wrapped around would pass every check of a buffer's extent.
    pub fn packed_len(self) -> usize {
        let padded = self.outputs.checked_next_multiple_of(LANES);
        padded.and_then(|n| n.checked_mul(self.inputs)).expect("a weight matrix beyond the address space")
    }

    fn panels(self) -> usize {
        self.outputs.div_ceil(PANEL)
    }

    /// Where panel `p` starts, its outputs, and the floats per input in it.
    fn panel(self, p: usize) -> (usize, usize, usize) {
        let outputs = (self.outputs - p * PANEL).min(PANEL);
        (p * PANEL * self.inputs, outputs, outputs.next_multiple_of(LANES))
    }

    /// Where the weight from input 0 to `output` is, and the distance to that from the next input.
    pub(crate) fn row(self, output: usize) -> (usize, usize) {
        let (start, _, width) = self.panel(output / PANEL);
        (start + output % PANEL, width)
    }

    /// Packs rows `first..first + rows.len() / inputs` of `W`, given row by row.
    ///
    /// # Panics
    /// When the rows do not fit the shape.
    pub fn pack(self, first: usize, rows: &[f32], packed: &mut [f32]) {
        assert_eq!(packed.len(), self.packed_len());
        assert!(rows.len().is_multiple_of(self.inputs) && first + rows.len() / self.inputs <= self.outputs);
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
    pub fn unpack(self, first: usize, packed: &[f32], rows: &mut [f32]) {
        assert_eq!(packed.len(), self.packed_len());
        assert!(rows.len().is_multiple_of(self.inputs) && first + rows.len() / self.inputs <= self.outputs);
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
/// A thread's own tasks are consecutive. Where there are rows enough, each thread gets the same rows in every operation, which
/// then stay in its cache from one to the next; where there are few, threads share out the weights instead, so that each is
/// read only once.
struct Grid {
    row_block: usize,
    column_block: usize,
    columns: usize,
}

impl Grid {
    /// Cuts `rows x columns` (the latter counted in panels) so that `threads` share it evenly, with at most so many rows
    /// in a task.
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

/// What becomes of what an output holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// It is replaced.
    Replace,
    /// The finished chain is added to it.
    Add,
}

/// `y = x W^T + b`, or `y += x W^T + b`. `x: [tokens, inputs]`, `y: [tokens, outputs]`.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
pub(crate) fn forward(
    engine: &Engine,
    shape: Linear,
    x: &[f32],
    weights: &[f32],
    bias: Option<&[f32]>,
    y: &mut [f32],
    to: Destination,
    tokens: usize,
) {
    forward_columns(engine, shape, 0..shape.panels(), x, weights, bias, y, to, tokens);
}

/// The outputs of `panels` alone, into `y: [tokens, outputs of those panels]`.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
pub(crate) fn forward_columns(
    engine: &Engine,
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
    let threads = engine.threads.count();
    let (grid, tasks) = Grid::new(tokens, ROW_BLOCK, panels.len(), threads);
    let y = Shared::of(y);
    engine.threads.each(tasks, |i| {
        let (rows, cut) = grid.task(i, tokens, panels.len());
        // SAFETY: tasks own disjoint rectangles of y; lengths were checked above.
        unsafe {
            engine.isa.run(ForwardBlock {
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
        // With few rows the panel is streamed once per register tile and partial sums stay in registers.
        let block = if self.rows <= TILE_ROWS { inputs.max(1) } else { REDUCTION_BLOCK };
        // Partial sums wait in y itself, or beside it where y holds what the finished ones are added to.
        let aside = self.to == Destination::Add && inputs > block;
        let mut partial = vec![0.0f32; if aside { self.rows * PANEL } else { 0 }];
        for cut in self.cut {
            let p = self.first_panel + cut;
            let (offset, columns, width) = self.shape.panel(p);
            let mut first = 0;
            loop {
                let steps = block.min(inputs - first);
                // SAFETY: `forward_columns` checked that x, the panel, the bias and y cover these extents.
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

/// `dx = dy W`: one chain over the outputs in ascending order. `dy: [tokens, outputs]`, `dx: [tokens, inputs]`.
pub(crate) fn backward_input(
    engine: &Engine,
    shape: Linear,
    dy: &[f32],
    weights: &[f32],
    dx: &mut [f32],
    tokens: usize,
) {
    backward_input_columns(engine, shape, 0..shape.panels(), dy, weights, dx, tokens, false);
}

/// The part of the chains that runs over the outputs of `panels`; they go on from what `dx` holds if `resume`.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
pub(crate) fn backward_input_columns(
    engine: &Engine,
    shape: Linear,
    panels: Range<usize>,
    dy: &[f32],
    weights: &[f32],
    dx: &mut [f32],
    tokens: usize,
    resume: bool,
) {
    let columns = (panels.end * PANEL).min(shape.outputs) - panels.start * PANEL;
    assert!(dx.len() >= tokens * shape.inputs && dy.len() >= tokens * columns);
    assert_eq!(weights.len(), shape.packed_len());
    let threads = engine.threads.count();
    let input_panels = shape.inputs.div_ceil(PANEL);
    let (grid, tasks) = Grid::new(tokens, ROW_BLOCK, input_panels, threads);
    let dx = Shared::of(dx);
    engine.threads.each(tasks, |i| {
        let (rows, cut) = grid.task(i, tokens, input_panels);
        // SAFETY: tasks own disjoint rectangles of dx; lengths were checked above.
        unsafe {
            engine.isa.run(BackwardInputBlock {
                shape,
                panels: panels.clone(),
                cut,
                dy: dy.as_ptr().add(rows.start * columns),
                dy_stride: columns,
                weights,
                dx: dx.start().add(rows.start * shape.inputs),
                rows: rows.len(),
                resume,
            });
        }
    });
}

struct BackwardInputBlock<'a> {
    shape: Linear,
    /// Of outputs: the reduction.
    panels: Range<usize>,
    /// Panels of inputs: the columns of dx.
    cut: Range<usize>,
    dy: *const f32,
    dy_stride: usize,
    weights: &'a [f32],
    dx: *mut f32,
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
        let mut block = vec![0.0f32; REDUCTION_BLOCK * PANEL];
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
                    transpose(source, width, &mut block[steps * PANEL..], outputs);
                    steps += outputs;
                }
                // SAFETY: `backward_input_columns` checked that dy and dx cover these extents.
                unsafe {
                    Product {
                        a: self.dy.add((p - self.panels.start) * PANEL),
                        a_row_stride: self.dy_stride,
                        a_step_stride: 1,
                        b: block.as_ptr(),
                        b_step_stride: PANEL,
                        c: self.dx.add(first_input),
                        c_row_stride: inputs,
                        steps,
                        rows: self.rows,
                        columns,
                        start: if p > self.panels.start || self.resume { Start::Load } else { Start::Zero },
                        end: End::Store,
                    }
                    .run::<S>();
                }
                p = end;
            }
        }
    }
}

/// From `[inputs, width]` to `[outputs, 64]`, where `outputs <= width` of the columns are wanted.
#[inline(always)]
fn transpose(source: &[f32], width: usize, target: &mut [f32], outputs: usize) {
    for first in (0..outputs).step_by(LANES) {
        let last = (first + LANES).min(outputs);
        for (input, row) in source.chunks_exact(width).enumerate() {
            for output in first..last {
                target[output * PANEL + input] = row[output];
            }
        }
    }
}

/// `dW += dy^T x`: each weight's chain goes on over the tokens in order from what `dw` holds.
/// `x: [tokens, inputs]`, `dy: [tokens, outputs]`, `dw` packed.
pub(crate) fn backward_weight(
    engine: &Engine,
    shape: Linear,
    dy: &[f32],
    x: &[f32],
    dw: &mut [f32],
    tokens: usize,
) {
    backward_weight_columns(engine, shape, 0..shape.panels(), dy, x, dw, tokens);
}

/// The gradients of the weights in `panels` alone, from `dy: [tokens, outputs of those panels]`.
pub(crate) fn backward_weight_columns(
    engine: &Engine,
    shape: Linear,
    panels: Range<usize>,
    dy: &[f32],
    x: &[f32],
    dw: &mut [f32],
    tokens: usize,
) {
    let columns = (panels.end * PANEL).min(shape.outputs) - panels.start * PANEL;
    assert!(x.len() >= tokens * shape.inputs && dy.len() >= tokens * columns);
    assert_eq!(dw.len(), shape.packed_len());
    let threads = engine.threads.count();
    let (grid, tasks) = Grid::new(shape.inputs, INPUT_BLOCK, panels.len(), threads);
    let dw = Shared::of(dw);
    engine.threads.each(tasks, |i| {
        let (inputs, cut) = grid.task(i, shape.inputs, panels.len());
        // SAFETY: tasks own disjoint parts of dw; lengths were checked above.
        unsafe {
            engine.isa.run(BackwardWeightBlock {
                shape,
                first_panel: panels.start,
                cut,
                inputs,
                dy,
                dy_stride: columns,
                x: x.as_ptr(),
                dw: dw.start(),
                tokens,
            });
        }
    });
}

struct BackwardWeightBlock<'a> {
    shape: Linear,
    first_panel: usize,
    cut: Range<usize>,
    inputs: Range<usize>,
    dy: &'a [f32],
    dy_stride: usize,
    x: *const f32,
    dw: *mut f32,
    tokens: usize,
}

impl Kernel for BackwardWeightBlock<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // A block of dy's columns made contiguous: `[tokens, 64]`.
        let mut block = vec![0.0f32; TOKEN_BLOCK * PANEL];
        for first in (0..self.tokens).step_by(TOKEN_BLOCK) {
            let steps = (self.tokens - first).min(TOKEN_BLOCK);
            for cut in self.cut.clone() {
                let (offset, columns, width) = self.shape.panel(self.first_panel + cut);
                for (t, row) in block.chunks_exact_mut(PANEL).take(steps).enumerate() {
                    let from = (first + t) * self.dy_stride + cut * PANEL;
                    row[..columns].copy_from_slice(&self.dy[from..from + columns]);
                    row[columns..].fill(0.0);
                }
                // SAFETY: `backward_weight_columns` checked that x and dw cover these extents.
                unsafe {
                    Product {
                        a: self.x.add(first * self.shape.inputs + self.inputs.start),
                        a_row_stride: 1,
                        a_step_stride: self.shape.inputs,
                        b: block.as_ptr(),
                        b_step_stride: PANEL,
                        c: self.dw.add(offset + self.inputs.start * width),
                        c_row_stride: width,
                        steps,
                        rows: self.inputs.len(),
                        columns: width,
                        start: Start::Load,
                        end: End::Store,
                    }
                    .run::<S>();
                }
            }
        }
    }
}

/// `db += sum over tokens of dy`, token by token in order. `dy: [tokens, outputs]`.
pub(crate) fn backward_bias(engine: &Engine, outputs: usize, dy: &[f32], db: &mut [f32], tokens: usize) {
    assert!(dy.len() >= tokens * outputs && db.len() >= outputs);
    let db = Shared::of(&mut db[..outputs]);
    engine.threads.ranges(outputs, LANES, 256, |range| {
        // SAFETY: ranges are disjoint.
        let db = unsafe { db.slice(range.clone()) };
        for row in dy[..tokens * outputs].chunks_exact(outputs) {
            for (b, &d) in db.iter_mut().zip(&row[range.clone()]) {
                *b += d;
            }
        }
    });
}
