//! `dW += dy^T x` and `db += sum dy`, in the order of tokens.

use super::{Grid, Linear, PANEL};
use crate::buffer::Scratch;
use crate::simd::{Kernel, LANES, Simd, prefetch};
use crate::threads::{Shared, Workers};
use crate::tile::{End, Product, Start, TILE_ROWS};
use std::ops::Range;

/// Tokens per block of a weight gradient.
const TOKEN_BLOCK: usize = 128;
/// Floats from one token to the next in a packed tile of inputs: 6, rounded up to half a vector.
const TILE_SLOT: usize = 8;
/// Input features per task of a weight gradient: a block of tokens by this many features stays in
/// the L2 cache.
const INPUT_BLOCK: usize = 384;

/// `dW += dy^T x` for the weights in these `panels`: each weight's chain continues from `dw` over
/// the tokens in order. `x: [tokens, inputs]`, `dy: [tokens, outputs of these panels]`, `dw` packed.
pub(crate) fn backward_weight(
    workers: &Workers,
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
    let threads = workers.threads.count();
    let (grid, tasks) = Grid::new(shape.inputs, INPUT_BLOCK, panels.len(), threads);
    let dw = Shared::of(dw);
    workers.threads.each(tasks, |i| {
        let (inputs, cut) = grid.task(i, shape.inputs, panels.len());
        // SAFETY: tasks own disjoint parts of dw; lengths were checked above.
        unsafe {
            workers.isa.run(BackwardWeightBlock {
                shape,
                first_panel: panels.start,
                cut,
                inputs,
                dy,
                dy_stride: columns,
                x,
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
    x: &'a [f32],
    dw: *mut f32,
    tokens: usize,
}

impl Kernel for BackwardWeightBlock<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // A block of x made contiguous: `[tiles of inputs, tokens, 8]`.
        let mut tiles =
            Scratch::new(TOKEN_BLOCK * TILE_SLOT * self.inputs.len().div_ceil(TILE_ROWS));
        // A block of dy's columns made contiguous: `[tokens, 64]`.
        let mut block = Scratch::new(TOKEN_BLOCK * PANEL);
        for first in (0..self.tokens).step_by(TOKEN_BLOCK) {
            let steps = (self.tokens - first).min(TOKEN_BLOCK);
            let x = &self.x[first * self.shape.inputs + self.inputs.start..];
            pack_tiles(x, self.shape.inputs, self.inputs.len(), steps, &mut tiles);
            for cut in self.cut.clone() {
                let (offset, columns, width) = self.shape.panel(self.first_panel + cut);
                for (t, row) in block.chunks_exact_mut(PANEL).take(steps).enumerate() {
                    let from = (first + t) * self.dy_stride + cut * PANEL;
                    // Rows may be pages apart, too far for the processor to see the pattern.
                    prefetch(self.dy.as_ptr().wrapping_add(from + 8 * self.dy_stride), PANEL);
                    if columns == PANEL {
                        // A copy of fixed length is faster.
                        row.copy_from_slice(&self.dy[from..from + PANEL]);
                    } else {
                        row[..columns].copy_from_slice(&self.dy[from..from + columns]);
                        row[columns..].fill(0.0);
                    }
                }
                for (tile, input) in self.inputs.clone().step_by(TILE_ROWS).enumerate() {
                    // SAFETY: `backward_weight` checked that dw covers these extents; tiles and
                    // block do.
                    unsafe {
                        Product {
                            a: tiles.as_ptr().add(tile * steps * TILE_SLOT),
                            a_row_stride: 1,
                            a_step_stride: TILE_SLOT,
                            b: block.as_ptr(),
                            b_step_stride: PANEL,
                            c: self.dw.add(offset + input * width),
                            c_row_stride: width,
                            steps,
                            rows: TILE_ROWS.min(self.inputs.end - input),
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
}

/// Packs the first `inputs` floats of `steps` rows of `x`, which are `stride` floats apart, into
/// `[tiles of inputs, steps, 8]`.
#[inline(always)]
fn pack_tiles(x: &[f32], stride: usize, inputs: usize, steps: usize, tiles: &mut [f32]) {
    // Some tokens at a time: their rows stay in the L1 cache until all tiles are packed, and so do
    // a tile's lines while it is written.
    for first in (0..steps).step_by(LANES) {
        let count = LANES.min(steps - first);
        for (tile, input) in (0..inputs).step_by(TILE_ROWS).enumerate() {
            let slots =
                tiles[(tile * steps + first) * TILE_SLOT..].chunks_exact_mut(TILE_SLOT).take(count);
            for (t, slot) in slots.enumerate() {
                let from = (first + t) * stride + input;
                match x.get(from..from + TILE_SLOT) {
                    // A move of fixed length is faster than one of six floats; the last two are not
                    // used.
                    Some(floats) => slot.copy_from_slice(floats),
                    None => {
                        let used = TILE_ROWS.min(inputs - input);
                        slot[..used].copy_from_slice(&x[from..from + used]);
                    }
                }
            }
        }
    }
}

/// `db += sum over tokens of dy`, token by token in order. `dy: [tokens, outputs]`.
pub(crate) fn backward_bias(
    workers: &Workers,
    outputs: usize,
    dy: &[f32],
    db: &mut [f32],
    tokens: usize,
) {
    assert!(dy.len() >= tokens * outputs && db.len() >= outputs);
    let db = Shared::of(&mut db[..outputs]);
    workers.threads.ranges(outputs, LANES, 256, |range| {
        // SAFETY: ranges are disjoint.
        let db = unsafe { db.slice(range.clone()) };
        for row in dy[..tokens * outputs].chunks_exact(outputs) {
            for (b, &d) in db.iter_mut().zip(&row[range.clone()]) {
                *b += d;
            }
        }
    });
}
