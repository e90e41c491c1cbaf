//! Causal grouped-query attention over a paged key-value cache.
//!
//! Training, prefill and decoding share one definition and one forward kernel: a query attends to
//! the pages of its sequence. A page holds [`PAGE`] consecutive positions of all key-value heads:
//! keys as `[kv heads, head_dim, 16]`, so that vector lanes run across keys while a score is one
//! chain over head_dim; then values as `[kv heads, 16, head_dim padded to 16]`, so that lanes run
//! across head_dim while an output is one chain over keys. Element i of a softmax sum goes to
//! partial i mod 16, and pages start at multiples of 16.

mod backward;
mod forward;

pub(crate) use backward::backward;
pub(crate) use forward::forward;

use crate::batch::{CheckedBatch, PAGE, Run};
use crate::erased::Buffer;
use crate::norm::{Grouped, RmsNorm};
use crate::simd::LANES;
use crate::threads::{Shared, Workers};

/// Shape of one attention layer. Rows of queries, keys and values are
/// `[heads + 2 kv_heads, head_dim]`: queries of every head, then keys, then values.
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
    /// Factor of the scores: `head_dim^-0.5` in most families.
    pub scale: f32,
}

/// The norms of the heads of queries and keys; each head is normed on its own.
#[derive(Debug)]
pub struct HeadNorms<'a> {
    /// The rows of queries, keys and values before norms and rotation; as many as `rows`.
    pub raw: &'a Buffer,
    /// Rows.
    pub rows: usize,
    /// Weights of the queries' norm, `[head_dim]`.
    pub queries: &'a Buffer,
    /// Weights of the keys' norm.
    pub keys: &'a Buffer,
    /// The norm.
    pub norm: RmsNorm,
}

impl Attention {
    /// Elements in a row of queries, keys and values.
    pub fn row(self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// The query heads in a row.
    pub fn query_heads(self) -> Grouped {
        self.part(0, self.heads)
    }

    /// The key heads.
    pub fn key_heads(self) -> Grouped {
        self.part(self.heads, self.kv_heads)
    }

    /// Query and key heads together, which the position turns.
    pub fn turned_heads(self) -> Grouped {
        self.part(0, self.heads + self.kv_heads)
    }

    fn part(self, first: usize, groups: usize) -> Grouped {
        let features = self.head_dim;
        Grouped { stride: self.row(), offset: first * features, groups, features }
    }

    /// Floats in a page of one layer.
    pub(crate) fn page_len(self) -> usize {
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

/// Copies the keys and values of every row of the batch to their slots in one layer of the cache,
/// `[pages, page]`.
pub(crate) fn store(
    workers: &Workers,
    shape: Attention,
    qkv: &[f32],
    batch: &CheckedBatch,
    cache: &mut [f32],
) {
    check(shape);
    batch.check_pages(cache.len() / shape.page_len());
    assert!(qkv.len() >= batch.host().rows() * shape.row());
    let cache = Shared::of(cache);
    let (dim, padded) = (shape.head_dim, shape.padded_dim());
    let runs: Vec<&Run> = batch.host().stored_runs().collect();
    workers.threads.ranges(runs.len(), 1, 1, |range| {
        for run in &runs[range] {
            for i in 0..run.len {
                let position = run.position + i;
                let page = batch.host().pages[run.pages.start + position / PAGE] as usize;
                let page = page * shape.page_len();
                let lane = position % PAGE;
                let row = &qkv[(run.row + i) * shape.row() + shape.heads * dim..];
                for head in 0..shape.kv_heads {
                    let (keys, values) = shape.page_offsets(head);
                    let key = &row[head * dim..][..dim];
                    let value = &row[(shape.kv_heads + head) * dim..][..dim];
                    // SAFETY: the page lies in the cache, and by `CheckedBatch` no other row writes
                    // to this lane of it.
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

/// Copies pages of one layer of the cache, `[pages, page]`, in order.
pub(crate) fn copy_pages(shape: Attention, cache: &mut [f32], pairs: &[(u32, u32)]) {
    let len = shape.page_len();
    for &(from, to) in pairs {
        let (from, to) = (from as usize * len, to as usize * len);
        cache.copy_within(from..from + len, to);
    }
}

/// Checks the shape that the unsafe kernels rely on.
fn check(shape: Attention) {
    assert!(shape.heads.is_multiple_of(shape.kv_heads) && shape.window != Some(0));
}
