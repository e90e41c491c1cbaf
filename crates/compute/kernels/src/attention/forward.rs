//! Attention outputs of a batch of runs.

use super::{Attention, check};
use crate::batch::{CheckedBatch, PAGE};
use crate::math::exp;
use crate::simd::{Kernel, LANES, Simd, prefetch};
use crate::threads::{Shared, Workers};
use crate::tile::{RegisterTile, TILE_ROWS, run_tile};

/// Query rows (tokens times heads of a group) per tile.
const TILE: usize = 24;

/// Number of prefetched pages. In decoding, every job has its own pages, in an order that the
/// processor cannot predict; many more would push each other out of its first cache.
const PAGES_AHEAD: usize = 6;

/// Multiply-adds that are worth a task: some microseconds, far more than starting a task takes.
const WORTH_A_TASK: usize = 1 << 15;

/// `out: [rows, heads * head_dim]` from the queries in `qkv` and the keys and values in one layer
/// of the cache, which holds the batch's own already.
pub(crate) fn forward(
    workers: &Workers,
    shape: Attention,
    qkv: &[f32],
    batch: &CheckedBatch,
    cache: &[f32],
    out: &mut [f32],
) {
    check(shape);
    batch.check_pages(cache.len() / shape.page_len());
    let rows = batch.host().rows();
    assert!(qkv.len() >= rows * shape.row() && out.len() >= rows * shape.heads * shape.head_dim);
    let (runs, pages) = (&batch.host().runs, &batch.host().pages);
    let tokens = (TILE / shape.group()).max(1);
    // One job per run, tile of tokens and key-value head. This list has the jobs of the first head.
    let tiles: Vec<Job<'_>> = runs
        .iter()
        .flat_map(|run| {
            (0..run.len).step_by(tokens).map(move |first| Job {
                row: run.row + first,
                tokens: tokens.min(run.len - first),
                position: run.position + first,
                pages: &pages[run.pages.clone()],
                kv_head: 0,
            })
        })
        .collect();
    let out = Shared::of(out);
    workers.threads.ranges(
        tiles.len() * shape.kv_heads,
        1,
        jobs_of_a_task(shape, &tiles),
        |range| {
            let jobs = range
                .map(|i| Job { kv_head: i % shape.kv_heads, ..tiles[i / shape.kv_heads] })
                .collect();
            // SAFETY: jobs own disjoint (rows, heads) of out, since by `CheckedBatch` runs share no
            // rows; extents were checked above.
            unsafe {
                workers.isa.run(Tiles {
                    shape,
                    qkv: qkv.as_ptr(),
                    cache: cache.as_ptr(),
                    out: out.start(),
                    jobs,
                });
            }
        },
    );
}

/// The number of jobs of a task: enough that a task is worth its start, few enough that threads
/// share even one response with a long context.
fn jobs_of_a_task(shape: Attention, tiles: &[Job<'_>]) -> usize {
    let all: usize = tiles.iter().map(|job| job.multiply_adds(shape)).sum();
    let of_job = all / tiles.len().max(1);
    (WORTH_A_TASK / of_job.max(1)).clamp(1, 4)
}

#[derive(Clone, Copy)]
struct Job<'a> {
    row: usize,
    tokens: usize,
    position: usize,
    pages: &'a [u32],
    kv_head: usize,
}

impl<'a> Job<'a> {
    /// Numbers of the pages that some of its queries see.
    fn visible(&self, shape: Attention) -> &'a [u32] {
        let end = self.position + self.tokens;
        &self.pages[shape.first_visible(self.position) / PAGE..end.div_ceil(PAGE)]
    }

    /// Multiply-adds with keys and with values.
    fn multiply_adds(&self, shape: Attention) -> usize {
        self.visible(shape).len() * PAGE * self.tokens * shape.group() * 2 * shape.head_dim
    }
}

struct Tiles<'a> {
    shape: Attention,
    qkv: *const f32,
    cache: *const f32,
    out: *mut f32,
    jobs: Vec<Job<'a>>,
}

impl Kernel for Tiles<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let shape = self.shape;
        let (dim, padded, group) = (shape.head_dim, shape.padded_dim(), shape.group());
        let (mut queries, mut scores, mut sums, mut result) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut keys, mut values): (Vec<*const f32>, Vec<*const f32>) = (Vec::new(), Vec::new());
        for (i, job) in self.jobs.iter().enumerate() {
            let rows = job.tokens * group;
            let first_page = shape.first_visible(job.position) / PAGE;
            let end = job.position + job.tokens;
            let (k_offset, v_offset) = shape.page_offsets(job.kv_head);
            if let Some(next) = self.jobs.get(i + 1) {
                let (k_offset, _) = shape.page_offsets(next.kv_head);
                for &page in next.visible(shape).iter().take(PAGES_AHEAD) {
                    let page = self.cache.wrapping_add(page as usize * shape.page_len());
                    prefetch(page.wrapping_add(k_offset), PAGE * dim);
                }
            }
            // SAFETY: `forward` checked that the pages lie in the cache and the rows in qkv and
            // out.
            unsafe {
                keys.clear();
                values.clear();
                for &page in job.visible(shape) {
                    let page = self.cache.add(page as usize * shape.page_len());
                    keys.push(page.add(k_offset));
                    values.push(page.add(v_offset));
                }
                let stride = keys.len() * PAGE;
                queries.clear();
                for t in 0..job.tokens {
                    let row = self.qkv.add((job.row + t) * shape.row() + job.kv_head * group * dim);
                    queries.extend_from_slice(std::slice::from_raw_parts(row, group * dim));
                }
                scores.resize(rows * stride, 0.0);
                sums.resize(rows, 0.0);
                result.resize(rows * padded, 0.0);
                for value in values.iter().take(PAGES_AHEAD) {
                    prefetch(*value, PAGE * padded);
                }
                score::<S>(&queries, dim, &keys, &mut scores, rows);
                let first = first_page * PAGE;
                for (r, row) in scores.chunks_exact_mut(stride).enumerate() {
                    let position = job.position + r / group;
                    let visible =
                        shape.first_visible(position).saturating_sub(first)..position + 1 - first;
                    sums[r] = exponentials::<S>(row, shape.scale, visible.start, visible.end);
                }
                accumulate::<S>(&scores, stride, end - first, &values, padded, &mut result, rows);
                for (r, &sum) in sums.iter().enumerate() {
                    let (t, head) = (r / group, job.kv_head * group + r % group);
                    let out = self.out.add(((job.row + t) * shape.heads + head) * dim);
                    let sum = S::splat(sum);
                    let from = result.as_ptr().add(r * padded);
                    let mut d = 0;
                    while d < dim {
                        let v = S::div(S::load(from.add(d)), sum);
                        S::store_first(out.add(d), v, (dim - d).min(LANES));
                        d += LANES;
                    }
                }
            }
        }
    }
}

/// `scores[r][16 p + j] = queries[r] . key j of page p`, one chain over the features each.
#[inline(always)]
unsafe fn score<S: Simd>(
    queries: &[f32],
    dim: usize,
    keys: &[*const f32],
    scores: &mut [f32],
    rows: usize,
) {
    let stride = keys.len() * PAGE;
    for (first, keys) in (0..).step_by(S::TILE_VECTORS).zip(keys.chunks(S::TILE_VECTORS)) {
        for row in (0..rows).step_by(TILE_ROWS) {
            // SAFETY: `queries` has `rows` rows, `scores` rows of `stride`, and pages `dim * 16`
            // floats.
            unsafe {
                let queries = queries.as_ptr().add(row * dim);
                let out = scores.as_mut_ptr().add(row * stride + first * PAGE);
                let tile = ScoreTile { queries, dim, keys, out, stride };
                run_tile::<S>(tile, (rows - row).min(TILE_ROWS), keys.len());
            }
        }
    }
}

/// Scores of some rows over a few pages, one vector a page.
struct ScoreTile<'a> {
    queries: *const f32,
    dim: usize,
    keys: &'a [*const f32],
    out: *mut f32,
    stride: usize,
}

impl RegisterTile for ScoreTile<'_> {
    #[inline(always)]
    unsafe fn compute<S: Simd, const ROWS: usize, const PAGES: usize>(self) {
        let Self { queries, dim, keys, out, stride } = self;
        // SAFETY: the caller's promise.
        unsafe {
            let mut acc = [[S::splat(0.0); PAGES]; ROWS];
            let mut page = [std::ptr::null(); PAGES];
            page.copy_from_slice(&keys[..PAGES]);
            for d in 0..dim {
                let mut k = [S::splat(0.0); PAGES];
                for (k, page) in k.iter_mut().zip(&page) {
                    *k = S::load(page.add(d * PAGE));
                }
                for (r, row) in acc.iter_mut().enumerate() {
                    let x = S::splat(*queries.add(r * dim + d));
                    for (acc, &k) in row.iter_mut().zip(&k) {
                        *acc = S::fma(x, k, *acc);
                    }
                }
            }
            for (r, row) in acc.iter().enumerate() {
                for (p, &v) in row.iter().enumerate() {
                    S::store(out.add(r * stride + p * PAGE), v);
                }
            }
        }
    }
}

/// Replaces scores by `exp(scale * score - max)` over the visible keys `from..to` and by 0
/// elsewhere; returns their sum. The row starts at a multiple of 16 positions.
#[inline(always)]
pub(super) unsafe fn exponentials<S: Simd>(
    row: &mut [f32],
    scale: f32,
    from: usize,
    to: usize,
) -> f32 {
    let x = row.as_mut_ptr();
    let len = row.len();
    // SAFETY: accesses stay within the row, whose length is a multiple of 16.
    unsafe {
        let scale = S::splat(scale);
        let lowest = S::splat(f32::NEG_INFINITY);
        let mut lanes = [0.0f32; LANES];
        for (i, lane) in lanes.iter_mut().enumerate() {
            *lane = i as f32;
        }
        let lanes = S::load(lanes.as_ptr());
        let (start, stop) = (S::splat(from as f32), S::splat(to as f32));
        let mut largest = lowest;
        let mut i = 0;
        while i < len {
            let at = S::add(S::splat(i as f32), lanes);
            let z = S::mul(S::load(x.add(i)), scale);
            let z = S::select_lt(at, stop, S::select_lt(at, start, lowest, z), lowest);
            S::store(x.add(i), z);
            largest = S::max(largest, z);
            i += LANES;
        }
        let max = S::splat(S::max_lane(largest));
        let mut sum = S::splat(0.0);
        let mut i = 0;
        while i < len {
            let e = exp::<S>(S::sub(S::load(x.add(i)), max));
            S::store(x.add(i), e);
            sum = S::add(sum, e);
            i += LANES;
        }
        S::sum(sum)
    }
}

/// `result[r] = sum over keys in order of weights[r][key] * value[key]`.
#[inline(always)]
unsafe fn accumulate<S: Simd>(
    weights: &[f32],
    stride: usize,
    keys: usize,
    values: &[*const f32],
    padded: usize,
    result: &mut [f32],
    rows: usize,
) {
    let vectors = padded / LANES;
    for vector in (0..vectors).step_by(S::TILE_VECTORS) {
        for row in (0..rows).step_by(TILE_ROWS) {
            // SAFETY: `weights` has `rows` rows of `stride`, `result` rows of `padded`, pages 16
            // rows of `padded`.
            unsafe {
                let at = vector * LANES;
                let weights = weights.as_ptr().add(row * stride);
                let out = result.as_mut_ptr().add(row * padded + at);
                let tile = ValueTile { weights, stride, keys, values, at, padded, out };
                let count = (vectors - vector).min(S::TILE_VECTORS);
                run_tile::<S>(tile, (rows - row).min(TILE_ROWS), count);
            }
        }
    }
}

/// Outputs of some rows, a few vectors of features from `at` on.
struct ValueTile<'a> {
    weights: *const f32,
    stride: usize,
    keys: usize,
    values: &'a [*const f32],
    at: usize,
    padded: usize,
    out: *mut f32,
}

impl RegisterTile for ValueTile<'_> {
    #[inline(always)]
    unsafe fn compute<S: Simd, const ROWS: usize, const NV: usize>(self) {
        let Self { weights, stride, keys, values, at, padded, out } = self;
        // SAFETY: the caller's promise.
        unsafe {
            let mut acc = [[S::splat(0.0); NV]; ROWS];
            let mut key = 0;
            for &page in values {
                let mut v = page.add(at);
                for _ in 0..(keys - key).min(PAGE) {
                    let mut lanes = [S::splat(0.0); NV];
                    for (i, lane) in lanes.iter_mut().enumerate() {
                        *lane = S::load(v.add(i * LANES));
                    }
                    for (r, row) in acc.iter_mut().enumerate() {
                        let w = S::splat(*weights.add(r * stride + key));
                        for (acc, &lane) in row.iter_mut().zip(&lanes) {
                            *acc = S::fma(w, lane, *acc);
                        }
                    }
                    v = v.add(padded);
                    key += 1;
                }
            }
            for (r, row) in acc.iter().enumerate() {
                for (i, &v) in row.iter().enumerate() {
                    S::store(out.add(r * padded + i * LANES), v);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_contexts_are_shared_by_threads_and_short_ones_are_not() {
        let pages = [0; 256];
        for (heads, kv_heads, head_dim, context, jobs) in [
            (14, 2, 64, 2048, 1),
            (4, 4, 64, 512, 1),
            (8, 4, 16, 2048, 1),
            (8, 4, 16, 16, 4),
            (1, 1, 8, 1, 4),
        ] {
            let shape = Attention { heads, kv_heads, head_dim, window: None, scale: 1.0 };
            let job = Job { row: 0, tokens: 1, position: context - 1, pages: &pages, kv_head: 0 };
            assert_eq!(
                jobs_of_a_task(shape, &[job]),
                jobs,
                "{heads} heads, a context of {context}"
            );
        }
    }
}
