//! Tiles of attention by the tensor core: which rows and which splits of their keys a block has.
//!
//! No choice here changes a bit: rows are independent, and splits are merged in one order, by the
//! block that has all of them or by a kernel of its own.

use crate::catalog::{ATTENTION_TILES, for_head};

use crate::dtype::Dtype;
use crate::kernels::{Pointer, word};
use crate::rounding::rounded_up;
use crate::uploaded::Uploaded;
use isentrope_kernels::{Attention, Run};

/// Keys of a split; splits begin at multiples of this.
pub(crate) const SPLIT: usize = 1024;
/// Rows of a warp: pairs of a token and a head of the group.
pub(crate) const WARP_ROWS: usize = 16;
/// The most warps of a block.
pub(crate) const WARPS: usize = 4;
/// The most bytes of partial results.
const PARTIAL: usize = 32 << 20;
/// The value that stands for all splits, in order.
const ALL: usize = u32::MAX as usize;
/// Words of a tile, and of a tile whose splits are merged.
const WORDS: usize = 7;
const MERGED_WORDS: usize = 5;

/// Uploaded tiles.
pub(crate) struct SplitTiles {
    /// How many there are.
    pub len: usize,
    /// Rows of each.
    pub rows: usize,
    /// Whether a block works on several splits, one after the other.
    pub several: bool,
    /// The number of partial results: one for each split that has a block of its own.
    pub partials: usize,
    /// Groups of rows whose splits are merged.
    pub merged: usize,
    block: Uploaded,
}

impl SplitTiles {
    pub(crate) fn tiles(&self) -> Pointer {
        self.block.at(0)
    }
    pub(crate) fn merged_tiles(&self) -> Pointer {
        self.block.at(4 * WORDS * self.len)
    }
}

/// The most bytes of partial results, over sequences of `positions` positions: 0 if there is only
/// one split.
pub(crate) fn workspace(dtype: Dtype, shape: Attention, positions: usize) -> usize {
    let has_tiles = dtype == Dtype::Bf16 && for_head(&ATTENTION_TILES, shape.head_dim).is_some();
    if has_tiles && positions > SPLIT { PARTIAL } else { 0 }
}

/// Warps that `rows` rows keep busy.
pub(crate) fn warps(rows: usize) -> usize {
    rows.div_ceil(WARP_ROWS).clamp(1, WARPS).next_power_of_two()
}

/// Whether each sequence has one row at most.
pub(crate) fn is_decoding(runs: &[Run]) -> bool {
    runs.iter().all(|run| run.len <= 1)
}

/// Tiles for attention over these runs. If there are too few blocks for the device's processors, as
/// when few sequences are decoded, each split becomes a block of its own, as long as there is
/// memory for the splits' sums.
pub(crate) fn split_tiles(
    shape: Attention,
    runs: &[Run],
    processors: usize,
    upload: impl FnOnce(&[u32]) -> Uploaded,
) -> SplitTiles {
    let group = shape.heads / shape.kv_heads;
    let longest = runs.iter().map(|run| run.len * group).max().unwrap_or(0);
    let rows = WARP_ROWS * warps(longest);
    let blocks: usize = runs.iter().map(|run| (run.len * group).div_ceil(rows)).sum();
    let few = (is_decoding(runs) || rows == WARP_ROWS) && blocks * shape.kv_heads < 2 * processors;
    // Bytes of one partial result: the sums of its rows, their maxima and their sums of weights.
    let partial = 4 * shape.kv_heads * rows * (shape.head_dim + 2);
    let most = if few { PARTIAL / partial } else { 0 };
    let (mut tiles, mut merged): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    let (mut partials, mut several) = (0, false);
    for run in runs {
        let pairs = run.len * group;
        for first in (0..pairs).step_by(rows) {
            let last = (first + rows).min(pairs) - 1;
            let from = run.position + first / group + 1;
            let from = shape.window.map_or(0, |window| from.saturating_sub(window)) / SPLIT;
            let splits = from..(run.position + last / group) / SPLIT + 1;
            let tile = [run.row, run.position, run.len, run.pages.start, first];
            if splits.len() > 1 && partials + splits.len() <= most {
                merged.extend([run.row, run.len, first, partials, splits.len()].map(word));
                for split in splits {
                    tiles.extend(tile.iter().chain(&[split, partials]).map(|&n| word(n)));
                    partials += 1;
                }
            } else {
                several |= splits.len() > 1;
                tiles.extend(tile.iter().chain(&[ALL, 0]).map(|&n| word(n)));
            }
        }
    }
    if is_decoding(runs) {
        // Tiles without rows end at once. They let the number of tiles change with few steps.
        tiles.resize(WORDS * rounded_up(tiles.len() / WORDS), 0);
        merged.resize(MERGED_WORDS * rounded_up(merged.len() / MERGED_WORDS), 0);
        partials = rounded_up(partials).min(most.max(partials));
    }
    let (len, count) = (tiles.len() / WORDS, merged.len() / MERGED_WORDS);
    tiles.extend(merged);
    SplitTiles { len, rows, several, partials, merged: count, block: upload(&tiles) }
}
