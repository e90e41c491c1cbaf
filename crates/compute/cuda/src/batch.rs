//! The assignment of rows to sequences. A batch is checked on the host and uploaded once; every
//! kernel of every layer uses it.

use crate::delta_runs::DeltaRuns;
use crate::draw::CudaTokens;
use crate::kernels::{Pointer, word};
use crate::layout::PAGE;
use crate::rounding::rounded_up;
use crate::splits::{SplitTiles, is_decoding, split_tiles};
use crate::uploaded::Uploaded;
use isentrope_kernels::{Attention, CheckedBatch, DRAWN, HostBatch, NO_SLOT, Run};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Pairs of a token and a head in a block of the attention kernels without the tensor core.
pub(crate) const ROWS: usize = 8;
/// Keys of a block of attention's gradient kernel without the tensor core.
pub(crate) const KEYS: usize = 32;

/// An uploaded batch, and tiles of its rows.
pub struct CudaBatch {
    checked: CheckedBatch,
    /// Rows that the cache stores: each row once, then those that are copied to further pages.
    stored: usize,
    /// Tokens, positions, rows to be stored and their slots, and numbers of pages.
    block: Uploaded,
    /// Addresses of drawn tokens.
    drawn: Option<CudaTokens>,
    /// Tiles of the attention kernels, by query heads per key-value head.
    tiles: Mutex<HashMap<usize, Arc<Tiles>>>,
    /// Tiles of the tensor core's kernels, by heads, key-value heads and window.
    split_tiles: Mutex<HashMap<SplitKey, Arc<SplitTiles>>>,
    /// Tiles of attention's gradient, by query heads per key-value head, and rows and keys of a
    /// tile.
    gradient_tiles: Mutex<HashMap<[usize; 3], Arc<GradientTiles>>>,
    /// Runs of the gated delta rule, by the number that is computed at a time.
    delta_runs: Mutex<HashMap<usize, Arc<DeltaRuns>>>,
}

type SplitKey = (usize, usize, Option<usize>);

/// Tiles of rows of the attention kernel.
pub(crate) struct Tiles {
    pub len: usize,
    pub block: Uploaded,
}

/// Tiles of queries and of keys for the gradient's kernels, and the runs of both.
pub(crate) struct GradientTiles {
    pub queries: usize,
    pub keys: usize,
    block: Uploaded,
}

impl GradientTiles {
    pub(crate) fn query_tiles(&self) -> Pointer {
        self.block.at(0)
    }
    pub(crate) fn key_tiles(&self) -> Pointer {
        self.block.at(4 * 5 * self.queries)
    }
    pub(crate) fn runs(&self) -> Pointer {
        self.block.at(4 * 5 * (self.queries + self.keys))
    }
}

impl CudaBatch {
    pub(crate) fn new(
        host: &HostBatch,
        drawn: Option<&CudaTokens>,
        upload: impl FnOnce(&[u32]) -> Uploaded,
    ) -> Self {
        // The kernels know a draw by its index on the device.
        let indices: Vec<u32> = drawn.map_or_else(Vec::new, CudaTokens::indices);
        let checked = CheckedBatch::new(host, &indices, PAGE);
        let host = checked.host();
        let (mut rows, mut slots) = (Vec::new(), Vec::new());
        if checked.is_paged() {
            // The list begins with every row, also rows in no run, so that the number of rows
            // decides the kernel's grid.
            let mut is_in_run = vec![false; host.rows()];
            for run in &host.runs {
                is_in_run[run.row..run.row + run.len].fill(true);
            }
            let places = |run: &Run| {
                let place = |i| {
                    let position = run.position + i;
                    let page = host.pages[run.pages.start + position / PAGE] as usize;
                    (word(run.row + i), word(page * PAGE + position % PAGE))
                };
                (0..run.len).map(place).collect::<Vec<_>>()
            };
            let others = (0..host.rows()).filter(|&row| !is_in_run[row]);
            let others = others.map(|row| (word(row), NO_SLOT));
            let own = host.runs.iter().flat_map(places);
            let copied = host.copied.iter().flat_map(places);
            (rows, slots) = own.chain(others).chain(copied).unzip();
        }
        // The pages come last: their number grows with the steps, and so the addresses of the other
        // words stay.
        let words = [&host.tokens[..], checked.positions(), &rows, &slots, &host.pages].concat();
        Self {
            stored: rows.len(),
            block: upload(&words),
            drawn: drawn.cloned(),
            tiles: Mutex::default(),
            split_tiles: Mutex::default(),
            gradient_tiles: Mutex::default(),
            delta_runs: Mutex::default(),
            checked,
        }
    }

    fn runs(&self) -> &[Run] {
        &self.checked.host().runs
    }

    /// Rows.
    pub(crate) fn rows(&self) -> usize {
        self.checked.host().rows()
    }

    /// The number of positions that tables must cover.
    pub(crate) fn positions_end(&self) -> usize {
        self.checked.positions().iter().max().map_or(0, |&position| position as usize + 1)
    }

    /// The tokens that the host knows.
    pub(crate) fn host_tokens(&self) -> impl Iterator<Item = u32> {
        self.checked.host().tokens.iter().copied().filter(|token| token & DRAWN == 0)
    }

    /// The memory of drawn tokens. A token that the host does not know is an index in it.
    pub(crate) fn drawn(&self) -> Pointer {
        self.drawn.as_ref().map_or(Pointer::NULL, CudaTokens::start)
    }

    pub(crate) fn tokens(&self) -> Pointer {
        self.block.at(0)
    }
    pub(crate) fn positions(&self) -> Pointer {
        self.block.at(4 * self.rows())
    }
    /// The number of rows that the cache stores: every row once, and some again on further pages.
    pub(crate) fn stored(&self) -> usize {
        self.stored
    }
    /// The stored rows from `first` on, and the destination of each: page times page size plus the
    /// position in the page, or no slot.
    pub(crate) fn stored_from(&self, first: usize) -> (Pointer, Pointer) {
        let rows = 2 * self.rows() + first;
        (self.block.at(4 * rows), self.block.at(4 * (rows + self.stored)))
    }
    pub(crate) fn pages(&self) -> Pointer {
        self.block.at(4 * 2 * (self.rows() + self.stored))
    }

    /// As [`CheckedBatch::check_pages`].
    pub(crate) fn check_pages(&self, pages: usize) {
        self.checked.check_pages(pages);
    }

    /// The tiles of attention without the tensor core, for `group` query heads per key-value head.
    /// Uploaded once.
    pub(crate) fn tiles(
        &self,
        group: usize,
        upload: impl FnOnce(&[u32]) -> Uploaded,
    ) -> Arc<Tiles> {
        let mut known = self.tiles.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let mut words = Vec::new();
            for run in self.runs() {
                for first in (0..run.len * group).step_by(ROWS) {
                    words
                        .extend([run.row, run.position, run.len, run.pages.start, first].map(word));
                }
            }
            if is_decoding(self.runs()) {
                words.resize(5 * rounded_up(words.len() / 5), 0);
            }
            Arc::new(Tiles { len: words.len() / 5, block: upload(&words) })
        };
        known.entry(group).or_insert_with(make).clone()
    }

    /// The tiles of attention by the tensor core, on a device with this number of processors.
    /// Uploaded once.
    pub(crate) fn split_tiles(
        &self,
        shape: Attention,
        processors: usize,
        upload: impl FnOnce(&[u32]) -> Uploaded,
    ) -> Arc<SplitTiles> {
        let mut known = self.split_tiles.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(split_tiles(shape, self.runs(), processors, upload));
        known.entry((shape.heads, shape.kv_heads, shape.window)).or_insert_with(make).clone()
    }

    /// The runs of the gated delta rule, of which `at_once` are computed at a time. Uploaded once.
    pub(crate) fn delta_runs(
        &self,
        at_once: usize,
        upload: impl FnOnce(&[u32]) -> Uploaded,
    ) -> Arc<DeltaRuns> {
        let mut known = self.delta_runs.lock().unwrap_or_else(PoisonError::into_inner);
        let (rows, states) = (self.rows(), &self.checked.host().states);
        let make = || Arc::new(DeltaRuns::new(rows, self.runs(), states, at_once, upload));
        known.entry(at_once).or_insert_with(make).clone()
    }

    /// One more than the largest state of a run.
    pub(crate) fn states_end(&self) -> usize {
        self.checked.host().states.iter().max().map_or(0, |&state| state as usize + 1)
    }

    /// Whether runs have all rows, in order.
    pub(crate) fn is_covered(&self) -> bool {
        let mut end = 0;
        for run in self.runs() {
            if run.row != end {
                return false;
            }
            end += run.len;
        }
        end == self.rows()
    }

    /// Rows of the longest run.
    pub(crate) fn longest(&self) -> usize {
        self.runs().iter().map(|run| run.len).max().unwrap_or(0)
    }

    /// The tiles of the gradient: `group` query heads per key-value head, `rows` pairs and `keys`
    /// keys to a tile. Uploaded once.
    ///
    /// # Panics
    /// When runs are not whole sequences, or continue none before them.
    pub(crate) fn gradient_tiles(
        &self,
        [group, rows, keys]: [usize; 3],
        upload: impl FnOnce(&[u32]) -> Uploaded,
    ) -> Arc<GradientTiles> {
        let mut known = self.gradient_tiles.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(self.new_gradient_tiles(group, (rows, keys), upload));
        known.entry([group, rows, keys]).or_insert_with(make).clone()
    }

    fn new_gradient_tiles(
        &self,
        group: usize,
        (tile_rows, tile_keys): (usize, usize),
        upload: impl FnOnce(&[u32]) -> Uploaded,
    ) -> GradientTiles {
        let runs = self.runs();
        let (mut queries, mut keys) = (Vec::new(), Vec::new());
        let mut first = 0;
        for family in runs.chunk_by(|_, run| run.position > 0) {
            let beginning = &family[0];
            assert_eq!(beginning.position, 0, "the gradient needs whole sequences");
            assert!(
                family[1..].iter().all(|run| run.position == beginning.len),
                "a run continues none before it"
            );
            for (i, run) in family.iter().enumerate() {
                for pair in (0..run.len * group).step_by(tile_rows) {
                    queries.extend([run.row, run.position, run.len, beginning.row, pair].map(word));
                }
                // All runs see the keys of the beginning; only a run itself sees its own keys.
                let seen_by: Range<usize> =
                    if i == 0 { first..first + family.len() } else { first + i..first + i + 1 };
                for key in (0..run.len).step_by(tile_keys) {
                    let count = tile_keys.min(run.len - key);
                    keys.extend(
                        [run.row + key, run.position + key, count, seen_by.start, seen_by.end]
                            .map(word),
                    );
                }
            }
            first += family.len();
        }
        let of_runs: Vec<u32> =
            runs.iter().flat_map(|run| [run.row, run.position, run.len].map(word)).collect();
        let (count, key_count) = (queries.len() / 5, keys.len() / 5);
        GradientTiles {
            queries: count,
            keys: key_count,
            block: upload(&[queries, keys, of_runs].concat()),
        }
    }
}
