//! Causal grouped-query attention over a paged key-value cache.
//!
//! Training, prefill and decoding share one definition and one forward kernel: a query attends to the pages of its
//! sequence. A page holds [`PAGE`] consecutive positions of all key-value heads: keys as `[kv heads, head_dim, 16]`,
//! so that vector lanes run across keys while a score is one chain over head_dim; then values as
//! `[kv heads, 16, head_dim padded to 16]`, so that lanes run across head_dim while an output is one chain over
//! keys. Element i of a softmax sum goes to partial i mod 16, and pages start at multiples of 16.

mod backward;
mod forward;

pub(crate) use backward::backward;
pub(crate) use forward::forward;

use crate::simd::LANES;
use crate::threads::{Engine, Shared};
use std::ops::Range;

/// Positions per page.
pub const PAGE: usize = LANES;

/// Shape of one attention layer. Rows of queries, keys and values are `[heads + 2 kv_heads, head_dim]`: queries of
/// every head, then keys, then values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key-value heads; a divisor of `heads`.
    pub kv_heads: usize,
    /// Features per head.
    pub head_dim: usize,
    /// Keys a query sees, itself included; all that precede it when absent.
    pub window: Option<usize>,
    /// What scores are multiplied with: `head_dim^-0.5`.
    pub scale: f32,
}

impl Attention {
    /// Floats in a row of queries, keys and values.
    pub fn row(self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Floats in a page.
    pub fn page_len(self) -> usize {
        self.kv_heads * PAGE * (self.head_dim + self.padded_dim())
    }

    /// Query heads per key-value head.
    fn group(self) -> usize {
        self.heads / self.kv_heads
    }

    fn padded_dim(self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    /// Where in a page the keys, and the values, of a head start.
    fn page_offsets(self, kv_head: usize) -> (usize, usize) {
        let keys = kv_head * self.head_dim * PAGE;
        let values = self.kv_heads * self.head_dim * PAGE + kv_head * PAGE * self.padded_dim();
        (keys, values)
    }

    /// The first position that a query at `position` sees.
    fn first_visible(self, position: usize) -> usize {
        self.window.map_or(0, |w| (position + 1).saturating_sub(w))
    }
}

/// Consecutive rows of a batch that are consecutive positions of one sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// First row in the batch.
    pub row: usize,
    /// Rows.
    pub len: usize,
    /// Position of the first row in its sequence.
    pub position: usize,
    /// Where the numbers of the sequence's pages stand in the page table; page i holds positions `16 i ..`.
    pub pages: Range<usize>,
}

/// Checks what the unsafe kernels rely on.
fn check(shape: Attention, runs: &[Run], table: &[u32], cache_len: usize, rows_len: usize, row: usize) {
    assert!(shape.heads.is_multiple_of(shape.kv_heads) && shape.window != Some(0));
    for run in runs {
        assert!((run.row + run.len) * row <= rows_len, "rows beyond the batch");
        assert!(
            (run.position + run.len).div_ceil(PAGE) <= run.pages.len(),
            "positions beyond the sequence's pages"
        );
        let pages = &table[run.pages.clone()];
        assert!(
            pages.iter().all(|&p| (p as usize + 1) * shape.page_len() <= cache_len),
            "pages beyond the cache"
        );
    }
}

/// Runs are worked on at once, each writing its own rows: no two may share one.
fn check_disjoint(runs: &[Run]) {
    let mut rows: Vec<Range<usize>> =
        runs.iter().filter(|run| run.len > 0).map(|run| run.row..run.row + run.len).collect();
    rows.sort_unstable_by_key(|rows| rows.start);
    assert!(rows.windows(2).all(|pair| pair[0].end <= pair[1].start), "runs share rows");
}

/// Copies the keys and values of every row of `runs` into its place in the cache.
pub(crate) fn store(
    engine: &Engine,
    shape: Attention,
    qkv: &[f32],
    runs: &[Run],
    table: &[u32],
    cache: &mut [f32],
) {
    check(shape, runs, table, cache.len(), qkv.len(), shape.row());
    check_slots(runs, table);
    let cache = Shared::of(cache);
    let (dim, padded) = (shape.head_dim, shape.padded_dim());
    engine.threads.ranges(runs.len(), 1, 1, |range| {
        for run in &runs[range] {
            for i in 0..run.len {
                let position = run.position + i;
                let page = table[run.pages.start + position / PAGE] as usize * shape.page_len();
                let lane = position % PAGE;
                let row = &qkv[(run.row + i) * shape.row() + shape.heads * dim..];
                for head in 0..shape.kv_heads {
                    let (keys, values) = shape.page_offsets(head);
                    let key = &row[head * dim..][..dim];
                    let value = &row[(shape.kv_heads + head) * dim..][..dim];
                    // SAFETY: `check` bounds the page; by `check_slots` no other row writes to this lane of it.
                    unsafe {
                        let keys = cache.start().add(page + keys + lane);
                        for (d, &k) in key.iter().enumerate() {
                            *keys.add(d * PAGE) = k;
                        }
                        let values = cache.start().add(page + values + lane * padded);
                        std::ptr::copy_nonoverlapping(value.as_ptr(), values, dim);
                        std::ptr::write_bytes(values.add(dim), 0, padded - dim);
                    }
                }
            }
        }
    });
}

/// Rows are stored at once by several threads: no two may go to one place in the cache.
fn check_slots(runs: &[Run], table: &[u32]) {
    let mut slots: Vec<Range<usize>> = Vec::with_capacity(runs.len());
    for run in runs {
        let mut position = run.position;
        let end = run.position + run.len;
        while position < end {
            let lane = position % PAGE;
            let count = (PAGE - lane).min(end - position);
            let first = table[run.pages.start + position / PAGE] as usize * PAGE + lane;
            slots.push(first..first + count);
            position += count;
        }
    }
    slots.sort_unstable_by_key(|slots| slots.start);
    assert!(slots.windows(2).all(|pair| pair[0].end <= pair[1].start), "runs share places in the cache");
}
