//! The one matrix-product microkernel. Linear layers and attention, forward and backward, are loops
//! around it.

use crate::simd::{LANES, Simd, load, store};

/// Rows of a register tile.
pub(crate) const TILE_ROWS: usize = 6;

/// A tile of outputs that the registers hold.
pub(crate) trait RegisterTile {
    /// Computes `ROWS` rows of `VECTORS` vectors.
    ///
    /// # Safety
    /// The tile's operands cover that many rows and vectors, and the instruction set is available.
    unsafe fn compute<S: Simd, const ROWS: usize, const VECTORS: usize>(self);
}

/// Computes a tile of at most [`TILE_ROWS`] rows and [`Simd::TILE_VECTORS`] vectors.
///
/// # Safety
/// As [`RegisterTile::compute`].
#[inline(always)]
pub(crate) unsafe fn run_tile<S: Simd>(tile: impl RegisterTile, rows: usize, vectors: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match vectors {
            4 if S::TILE_VECTORS >= 4 => run_rows::<S, 4>(tile, rows),
            3 if S::TILE_VECTORS >= 3 => run_rows::<S, 3>(tile, rows),
            2 if S::TILE_VECTORS >= 2 => run_rows::<S, 2>(tile, rows),
            _ => run_rows::<S, 1>(tile, rows),
        }
    }
}

#[inline(always)]
unsafe fn run_rows<S: Simd, const VECTORS: usize>(tile: impl RegisterTile, rows: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match rows {
            6 => tile.compute::<S, 6, VECTORS>(),
            5 => tile.compute::<S, 5, VECTORS>(),
            4 => tile.compute::<S, 4, VECTORS>(),
            3 => tile.compute::<S, 3, VECTORS>(),
            2 => tile.compute::<S, 2, VECTORS>(),
            _ => tile.compute::<S, 1, VECTORS>(),
        }
    }
}

/// The start of a tile's chains.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    /// At zero.
    Zero,
    /// At the values of `c`: the chain continues from an earlier block or micro-batch.
    Load,
    /// At a bias, one value per column.
    Bias(*const f32),
}

/// The destination of a tile's chains.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// To `c`.
    Store,
    /// Adds the sums to the values at this address; the second number is the distance of rows, in
    /// floats.
    AddTo(*mut f32, usize),
}

/// `c[r][j] = start + a(r, 0) b(0, j) + a(r, 1) b(1, j) + ...`: for every output one chain of fused
/// multiply-adds in ascending order of the reduction. Vector lanes run across the columns j.
///
/// Strides are in floats. Columns of `b` are contiguous and padded to a multiple of 16; columns of
/// `c` are contiguous and not padded.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub a: *const f32,
    pub a_row_stride: usize,
    pub a_step_stride: usize,
    pub b: *const f32,
    pub b_step_stride: usize,
    pub c: *mut f32,
    pub c_row_stride: usize,
    /// Length of the reduction.
    pub steps: usize,
    pub rows: usize,
    pub columns: usize,
    pub start: Start,
    pub end: End,
}

impl End {
    /// # Safety
    /// The place is within the extents that the end was made for.
    #[inline(always)]
    unsafe fn at(self, row: usize, column: usize) -> Self {
        match self {
            Self::Store => Self::Store,
            Self::AddTo(out, stride) => {
                // SAFETY: the caller's promise.
                let out = unsafe { out.add(row * stride + column) };
                Self::AddTo(out, stride)
            }
        }
    }
}

impl Product {
    /// # Safety
    /// The pointers are valid for the extents and strides given, `c` is not shared with another
    /// thread and does not overlap `a` or `b`, and the instruction set is available.
    #[inline(always)]
    pub(crate) unsafe fn run<S: Simd>(self) {
        let tile_columns = S::TILE_VECTORS * LANES;
        let mut column = 0;
        while column < self.columns {
            let columns = (self.columns - column).min(tile_columns);
            // SAFETY: offsets stay within the extents that the caller vouches for.
            let part = unsafe {
                Self {
                    b: self.b.add(column),
                    c: self.c.add(column),
                    columns,
                    start: match self.start {
                        Start::Bias(bias) => Start::Bias(bias.add(column)),
                        other => other,
                    },
                    end: self.end.at(0, column),
                    ..self
                }
            };
            // SAFETY: as above.
            unsafe {
                match columns.div_ceil(LANES) {
                    4 if S::TILE_VECTORS >= 4 => part.rows_of::<S, 4>(),
                    3 if S::TILE_VECTORS >= 3 => part.rows_of::<S, 3>(),
                    2 if S::TILE_VECTORS >= 2 => part.rows_of::<S, 2>(),
                    _ => part.rows_of::<S, 1>(),
                }
            }
            column += columns;
        }
    }

    #[inline(always)]
    unsafe fn rows_of<S: Simd, const NV: usize>(self) {
        let mut row = 0;
        while row < self.rows {
            let rows = (self.rows - row).min(TILE_ROWS);
            // SAFETY: as in `run`.
            unsafe {
                let part = Self {
                    a: self.a.add(row * self.a_row_stride),
                    c: self.c.add(row * self.c_row_stride),
                    end: self.end.at(row, 0),
                    ..self
                };
                run_rows::<S, NV>(part, rows);
            }
            row += rows;
        }
    }
}

impl RegisterTile for Product {
    #[inline(always)]
    unsafe fn compute<S: Simd, const ROWS: usize, const NV: usize>(self) {
        let last = self.columns - (NV - 1) * LANES;
        // SAFETY: the caller of `run` vouches for the extents; the last vector touches only `last`
        // columns of unpadded rows.
        unsafe {
            let mut acc = [[S::splat(0.0); NV]; ROWS];
            match self.start {
                Start::Zero => {}
                Start::Load => {
                    for (r, row) in acc.iter_mut().enumerate() {
                        let c = self.c.add(r * self.c_row_stride);
                        for (v, out) in row.iter_mut().enumerate() {
                            let p = c.add(v * LANES);
                            *out = load::<S>(p, if v + 1 < NV { LANES } else { last });
                        }
                    }
                }
                Start::Bias(bias) => {
                    for v in 0..NV {
                        let p = bias.add(v * LANES);
                        let b = load::<S>(p, if v + 1 < NV { LANES } else { last });
                        for row in &mut acc {
                            row[v] = b;
                        }
                    }
                }
            }
            let (mut a, mut b) = (self.a, self.b);
            for _ in 0..self.steps {
                let mut bv = [S::splat(0.0); NV];
                for (v, out) in bv.iter_mut().enumerate() {
                    *out = S::load(b.add(v * LANES));
                }
                for (r, row) in acc.iter_mut().enumerate() {
                    let x = S::splat(*a.add(r * self.a_row_stride));
                    for (out, &w) in row.iter_mut().zip(&bv) {
                        *out = S::fma(x, w, *out);
                    }
                }
                a = a.add(self.a_step_stride);
                b = b.add(self.b_step_stride);
            }
            for (r, row) in acc.iter().enumerate() {
                let out = match self.end {
                    End::Store => self.c.add(r * self.c_row_stride),
                    End::AddTo(out, stride) => out.add(r * stride),
                };
                for (v, &value) in row.iter().enumerate() {
                    let p = out.add(v * LANES);
                    let n = if v + 1 < NV { LANES } else { last };
                    let value = match self.end {
                        End::Store => value,
                        End::AddTo(..) => S::add(load::<S>(p, n), value),
                    };
                    store::<S>(p, value, n);
                }
            }
        }
    }
}
