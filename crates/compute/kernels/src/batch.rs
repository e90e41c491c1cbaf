//! The assignment of rows to sequences: described once on the host, uploaded once, and used by
//! every operation of every layer.

use crate::simd::LANES;
use std::ops::Range;

/// Positions in a page of keys and values on the CPU: as many as a vector has lanes, so that a page
/// is read by whole vectors.
pub(crate) const PAGE: usize = LANES;

/// This bit marks a token of [`HostBatch::tokens`] that the host does not know yet: the other bits
/// are the index of the draw that yields it.
pub const DRAWN: u32 = 1 << 31;

/// Consecutive rows of a batch that are consecutive positions of one sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// First row in the batch.
    pub row: usize,
    /// Rows.
    pub len: usize,
    /// Position of the first row in its sequence.
    pub position: usize,
    /// Range of the sequence's pages in [`HostBatch::pages`]; page i holds positions
    /// [`page_positions`](crate::Backend::page_positions) `i ..`. Empty without a cache.
    pub pages: Range<usize>,
}

/// The rows of a pass or of a step, as the host describes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostBatch {
    /// Token of each row, or with [`DRAWN`] the number of a draw.
    pub tokens: Vec<u32>,
    /// Runs of rows for attention. No two runs share a row, and a row in no run is left unchanged.
    pub runs: Vec<Run>,
    /// Rows that are stored on further pages as well. When sequences part in the middle of a page,
    /// each gets a copy of the shared rows on it.
    pub copied: Vec<Run>,
    /// Numbers of pages, sequence after sequence: see [`Run::pages`].
    pub pages: Vec<u32>,
    /// The slot of each run's state, in models that have one: none in passes over whole sequences.
    pub states: Vec<u32>,
}

impl HostBatch {
    /// Appends rows for `tokens` of a sequence from `position` on, whose pages (from its beginning)
    /// are `pages`.
    pub fn push(&mut self, tokens: &[u32], position: usize, pages: &[u32]) {
        let (row, first) = (self.tokens.len(), self.pages.len());
        self.tokens.extend_from_slice(tokens);
        self.pages.extend_from_slice(pages);
        self.runs.push(Run { row, len: tokens.len(), position, pages: first..self.pages.len() });
    }

    /// Appends a row for the token of a draw that has been begun, at a position of a sequence.
    pub fn push_drawn(&mut self, draw: usize, position: usize, pages: &[u32]) {
        self.push(&[DRAWN | draw as u32], position, pages);
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// This batch with all drawn tokens filled in.
    ///
    /// # Panics
    /// When there is no such draw.
    #[must_use]
    pub fn with_drawn(&self, drawn: &[u32]) -> Self {
        let mut batch = self.clone();
        for token in batch.tokens.iter_mut().filter(|token| **token & DRAWN != 0) {
            let draw = (*token & !DRAWN) as usize;
            *token =
                *drawn.get(draw).unwrap_or_else(|| panic!("a row of a draw that there is not"));
        }
        batch
    }

    /// All runs that the cache stores: the batch's own, then the copied ones.
    pub fn stored_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(&self.copied)
    }

    /// One more than the largest position of a row.
    pub fn positions(&self) -> usize {
        self.runs.iter().map(|run| run.position + run.len).max().unwrap_or(0)
    }

    /// Forgets all rows, keeping the memory.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.runs.clear();
        self.copied.clear();
        self.pages.clear();
        self.states.clear();
    }
}

/// A batch whose description has been checked: kernels rely on everything in it. Only the extents
/// of buffers are left to check.
pub struct CheckedBatch {
    host: HostBatch,
    /// Position of each row; 0 for a row in no run.
    positions: Vec<u32>,
    /// Whether every position has a page.
    is_paged: bool,
    /// Pages that a cache must have: one more than the largest page number.
    least_pages: usize,
}

impl CheckedBatch {
    /// Checks a batch for a backend whose pages hold `page` positions. `drawn` has the token of
    /// each draw that the host did not know.
    ///
    /// # Panics
    /// When there is no such draw, or runs share rows or places in the cache.
    pub fn new(host: &HostBatch, drawn: &[u32], page: usize) -> Self {
        let host = host.with_drawn(drawn);
        let mut positions = vec![0; host.tokens.len()];
        for run in host.stored_runs() {
            assert!(run.row + run.len <= host.tokens.len(), "rows beyond the batch");
        }
        for run in &host.runs {
            for (row, position) in
                positions[run.row..run.row + run.len].iter_mut().zip(run.position..)
            {
                *row =
                    u32::try_from(position).expect("positions of a batch are counted in 32 bits");
            }
        }
        check_disjoint(&host.runs);
        let mut slots = host.states.clone();
        slots.sort_unstable();
        assert!(slots.windows(2).all(|pair| pair[0] < pair[1]), "runs share a state");
        let is_covered = |run: &Run| (run.position + run.len).div_ceil(page) <= run.pages.len();
        let is_paged = host.stored_runs().all(is_covered);
        if is_paged {
            check_slots(&host, page);
        }
        let pages = host.stored_runs().flat_map(|run| &host.pages[run.pages.clone()]);
        let least_pages = pages.max().map_or(0, |&page| page as usize + 1);
        Self { host, positions, is_paged, least_pages }
    }

    /// The batch, with the tokens of all draws filled in.
    pub fn host(&self) -> &HostBatch {
        &self.host
    }

    /// Position of each row; 0 for a row in no run.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Whether every position has a page.
    pub fn is_paged(&self) -> bool {
        self.is_paged
    }

    /// Checks that a cache of `pages` pages has the page of every position.
    ///
    /// # Panics
    /// When it has not.
    pub fn check_pages(&self, pages: usize) {
        assert!(self.is_paged, "positions beyond the sequence's pages");
        assert!(self.least_pages <= pages, "pages beyond the cache");
    }
}

/// Threads write the rows of runs in parallel: no two runs may share a row.
fn check_disjoint(runs: &[Run]) {
    let mut rows: Vec<Range<usize>> =
        runs.iter().filter(|run| run.len > 0).map(|run| run.row..run.row + run.len).collect();
    rows.sort_unstable_by_key(|rows| rows.start);
    assert!(rows.windows(2).all(|pair| pair[0].end <= pair[1].start), "runs share rows");
}

/// Threads store rows in parallel: no two rows may go to one slot of the cache.
fn check_slots(host: &HostBatch, page: usize) {
    let mut slots: Vec<Range<usize>> = Vec::with_capacity(host.runs.len());
    for run in host.stored_runs() {
        let mut position = run.position;
        let end = run.position + run.len;
        while position < end {
            let lane = position % page;
            let count = (page - lane).min(end - position);
            let first = host.pages[run.pages.start + position / page] as usize * page + lane;
            slots.push(first..first + count);
            position += count;
        }
    }
    slots.sort_unstable_by_key(|slots| slots.start);
    assert!(
        slots.windows(2).all(|pair| pair[0].end <= pair[1].start),
        "runs share places in the cache"
    );
}
