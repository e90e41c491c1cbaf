//! Rows of logits are cut into parts. A block of threads computes each part, so that a few rows
//! keep all processors busy.
//!
//! A row's statistics need its largest logit first. So parts take two launches: their maxima, then
//! the sums of their blocks. A third launch, of the head or of the draws, adds the sums in a fixed
//! order. How a row is cut changes no bit.

use crate::catalog::{PART_MAXIMA, PART_SUMS};
use crate::cuda::Cuda;
use crate::kernels::{Grid, Pointer, word};
use crate::pool::Block;

/// Tokens of a part.
const PART: usize = 4096;
/// Numbers of tokens whose exponentials are summed together: for statistics, then for draws.
pub(crate) const SUM_BLOCK: usize = 512;
const DRAW_BLOCK: usize = 256;

/// The purpose of reading rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Statistics,
    /// Draws from the rows, and the statistics of the rows.
    Draws,
}

impl Purpose {
    /// Numbers for a row: the f64 sums of draws, the sums of statistics, and the maxima.
    fn numbers(self, vocabulary: usize) -> [usize; 3] {
        let masses = if self == Self::Draws { vocabulary.div_ceil(DRAW_BLOCK) } else { 0 };
        [masses, 2 * vocabulary.div_ceil(SUM_BLOCK), vocabulary.div_ceil(PART)]
    }

    /// Bytes of the parts' results for `rows` rows.
    pub(crate) fn bytes(self, vocabulary: usize, rows: usize) -> usize {
        let [masses, sums, maxima] = self.numbers(vocabulary);
        rows.saturating_mul(8 * masses + 4 * (sums + maxima))
    }

    /// Bytes of shared memory of a block that keeps a row's sums there.
    pub(crate) fn shared(self, vocabulary: usize) -> u32 {
        let [masses, sums, _] = self.numbers(vocabulary);
        word(8 * masses + 4 * sums)
    }
}

/// Rows of logits, and the temperature of each.
pub(crate) enum Rows {
    /// All rows in order, at one temperature.
    All(f32),
    /// The rows with these indices, at these temperatures.
    Named { numbers: Pointer, temperatures: Pointer },
}

/// Results of the parts of rows.
pub(crate) struct Parts {
    block: Block,
    purpose: Purpose,
    vocabulary: usize,
    /// The number of rows for which the block has room.
    rows: usize,
}

impl Parts {
    /// `[rows, blocks of 256]` in f64, for draws.
    pub(crate) fn masses(&self) -> Pointer {
        match self.purpose {
            Purpose::Statistics => Pointer::NULL,
            Purpose::Draws => self.block.at(0),
        }
    }

    /// `[rows, 2, blocks of 512]`.
    pub(crate) fn sums(&self) -> Pointer {
        let [masses, ..] = self.purpose.numbers(self.vocabulary);
        self.block.at(8 * self.rows * masses)
    }

    /// `[rows, parts]`.
    pub(crate) fn maxima(&self) -> Pointer {
        let [masses, sums, _] = self.purpose.numbers(self.vocabulary);
        self.block.at(self.rows * (8 * masses + 4 * sums))
    }
}

impl Cuda {
    /// Allocates room for the parts' results, for up to `rows` rows.
    pub(crate) fn parts(&self, purpose: Purpose, vocabulary: usize, rows: usize) -> Parts {
        let block = self.scratch(purpose.bytes(vocabulary, rows));
        Parts { block, purpose, vocabulary, rows }
    }

    /// Computes the parts' maxima and sums for `count` rows.
    pub(crate) fn sum_parts(&self, logits: Pointer, rows: &Rows, count: usize, parts: &Parts) {
        assert!(count <= parts.rows, "parts of more rows than there is room for");
        let (numbers, temperatures, temperature) = match *rows {
            Rows::All(temperature) => (Pointer::NULL, Pointer::NULL, temperature),
            Rows::Named { numbers, temperatures } => (numbers, temperatures, 1.0),
        };
        let (maxima, vocabulary) = (parts.maxima(), parts.vocabulary);
        let grid = Grid::new([count, parts.vocabulary.div_ceil(PART), 1], 128);
        PART_MAXIMA.launch(&*self.device, grid, (logits, numbers, maxima, vocabulary));
        PART_SUMS.launch(
            &*self.device,
            grid,
            (
                logits,
                numbers,
                temperatures,
                temperature,
                maxima,
                parts.sums(),
                parts.masses(),
                vocabulary,
            ),
        );
    }
}
