//! Attention over a paged cache, its gradient, and the operations that fill the cache.

use crate::batch::{CudaBatch, KEYS, ROWS};
use crate::buffer::CudaBuffer;
use crate::catalog::{
    ATTENTION, ATTENTION_BACKWARD_KEYS, ATTENTION_BACKWARD_KEYS_TILES, ATTENTION_BACKWARD_QUERIES,
    ATTENTION_BACKWARD_QUERIES_TILES, ATTENTION_DECODE, ATTENTION_MERGE, ATTENTION_TILES,
    COPY_PAGES, PREPARE_QKV, for_head,
};
use crate::cuda::Cuda;
use crate::dtype::Dtype;
use crate::kernels::{Grid, Pointer, word};
use crate::layout::page_len;
use crate::splits::{WARP_ROWS, WARPS, warps};
use isentrope_kernels::{Attention, Buffer, HeadNorms, RmsNorm};
use std::ops::Range;

/// Threads of a block without the tensor core: 8 rows of 32 keys.
const THREADS: u32 = 256;
/// Most features of a head: the kernels have registers for no more.
pub(crate) const MOST_FEATURES: usize = 256;

/// Checks the shape that the kernels rely on.
///
/// # Panics
/// When heads cannot be grouped, or are larger than any model's.
fn check(shape: Attention) {
    assert!(shape.heads.is_multiple_of(shape.kv_heads) && shape.window != Some(0));
    assert!(
        shape.head_dim <= MOST_FEATURES,
        "heads of {} features, at most {MOST_FEATURES}",
        shape.head_dim
    );
}

/// The window as a kernel's parameter: 0 for none.
fn window(shape: Attention) -> usize {
    // No sequence is longer than this bound, and twice the bound still fits an i32.
    shape.window.map_or(0, |window| window.min(1 << 30))
}

/// Bytes of the gradient's statistics: three numbers for each position and head, and with bf16 a
/// fourth, because a row's numbers are copied by one instruction.
pub(crate) fn gradient_workspace(dtype: Dtype, shape: Attention, positions: usize) -> usize {
    let bytes = if dtype == Dtype::F32 { 12 } else { 16 };
    positions.saturating_mul(shape.heads).saturating_mul(bytes)
}

impl Cuda {
    /// The start of one layer of a cache, whose pages are checked against the batch.
    fn layer(shape: Attention, batch: &CudaBatch, cache: &CudaBuffer, layer: usize) -> Pointer {
        check(shape);
        let elements = cache.layout.features;
        batch.check_pages(elements / page_len(shape));
        cache.rows_from(layer, 1, elements)
    }

    pub(crate) fn store(
        &self,
        shape: Attention,
        qkv: &CudaBuffer,
        batch: &CudaBatch,
        cache: &CudaBuffer,
        layer: usize,
    ) {
        let layer = Self::layer(shape, batch, cache, layer);
        self.launch_prepare(shape, None, None, qkv, batch, 0..batch.stored(), layer);
    }

    #[allow(clippy::too_many_arguments, reason = "the operands of what is several operations")]
    pub(crate) fn prepare(
        &self,
        shape: Attention,
        norms: Option<HeadNorms<'_>>,
        (cos, sin): (&CudaBuffer, &CudaBuffer),
        qkv: &CudaBuffer,
        batch: &CudaBatch,
        cache: &CudaBuffer,
        layer: usize,
    ) {
        assert!(shape.head_dim.is_multiple_of(2), "pairs of {}", shape.head_dim);
        let layer = Self::layer(shape, batch, cache, layer);
        let angles = [cos, sin].map(|of| of.rows(batch.positions_end(), shape.head_dim / 2));
        self.launch_prepare(shape, norms, Some(angles), qkv, batch, 0..batch.rows(), layer);
        // The rows of further pages get the same values.
        self.launch_prepare(shape, None, None, qkv, batch, batch.rows()..batch.stored(), layer);
    }

    /// Prepares the rows that have these indices in the list of stored rows.
    #[allow(clippy::too_many_arguments, reason = "the operands of what is several operations")]
    fn launch_prepare(
        &self,
        shape: Attention,
        norms: Option<HeadNorms<'_>>,
        angles: Option<[Pointer; 2]>,
        qkv: &CudaBuffer,
        batch: &CudaBatch,
        indices: Range<usize>,
        layer: Pointer,
    ) {
        let qkv_at = qkv.rows(batch.rows(), shape.row());
        let [cos, sin] = angles.unwrap_or([Pointer::NULL; 2]);
        let none = (qkv_at, [Pointer::NULL; 2], RmsNorm::plain(0.0));
        let (raw, weights, norm) = norms.map_or(none, |norms| {
            let raw: &CudaBuffer = norms.raw.of();
            assert_eq!(raw.layout.stride, qkv.layout.stride);
            let vector = |weights: &Buffer| weights.of::<CudaBuffer>().vector(shape.head_dim);
            let weights = [norms.queries, norms.keys].map(vector);
            (raw.rows(batch.rows(), shape.row()), weights, norms.norm)
        });
        let (rows, slots) = batch.stored_from(indices.start);
        let heads = shape.heads + 2 * shape.kv_heads;
        PREPARE_QKV.of(self.dtype).launch(
            &*self.device,
            Grid::line((indices.len() * heads).div_ceil(8), 128),
            (
                raw,
                qkv_at,
                weights[0],
                weights[1],
                cos,
                sin,
                batch.positions(),
                rows,
                slots,
                layer,
                indices.len(),
                shape.heads,
                shape.kv_heads,
                shape.head_dim,
                qkv.layout.stride,
                norm.eps,
                norm.shift,
            ),
        );
    }

    pub(crate) fn copy_in_every_layer(
        &self,
        shape: Attention,
        cache: &CudaBuffer,
        pages: &[(u32, u32)],
    ) {
        let words = page_len(shape) * cache.layout.element.bytes() / 4;
        let most = cache.layout.features / page_len(shape).max(1);
        let pairs: Vec<u32> = pages.iter().flat_map(|&(from, to)| [from, to]).collect();
        assert!(pairs.iter().all(|&page| (page as usize) < most), "pages beyond the cache");
        // The grid's second dimension has a low limit.
        for pairs in pairs.chunks(1 << 15) {
            let uploaded = self.uploaded(pairs);
            COPY_PAGES.launch(
                &*self.device,
                Grid::new([words.div_ceil(256), pairs.len() / 2, cache.layout.rows], THREADS),
                (cache.start(), uploaded.at(0), words as u64, (words * most) as u64),
            );
        }
    }

    pub(crate) fn attend(
        &self,
        shape: Attention,
        qkv: &CudaBuffer,
        batch: &CudaBatch,
        cache: &CudaBuffer,
        layer: usize,
        out: &CudaBuffer,
    ) {
        let layer = Self::layer(shape, batch, cache, layer);
        let Attention { heads, kv_heads, head_dim: dim, scale, .. } = shape;
        let (window, stride, out_stride) = (window(shape), qkv.layout.stride, out.layout.stride);
        let rows = batch.rows();
        let (qkv, out) = (qkv.rows(rows, shape.row()), out.rows(rows, heads * dim));
        let pages = batch.pages();
        let kernels = for_head(&ATTENTION_TILES, dim).zip(for_head(&ATTENTION_DECODE, dim));
        let kernels = kernels.filter(|_| self.dtype == Dtype::Bf16);
        let Some(((padded, by_warp), (_, by_block))) = kernels else {
            let tiles = batch.tiles(heads / kv_heads, |words| self.uploaded(words));
            let shared = 4 * (32 * (2 * dim + 1) + 8 * dim + 8 * 32);
            let grid = Grid::new([tiles.len, kv_heads, 1], THREADS).with_shared(word(shared));
            let tiles = tiles.block.at(0);
            ATTENTION.of(self.dtype).launch(
                &*self.device,
                grid,
                (
                    qkv, layer, tiles, pages, out, heads, kv_heads, dim, window, scale, stride,
                    out_stride,
                ),
            );
            return;
        };
        let tiles =
            batch.split_tiles(shape, self.device.limits().processors, |words| self.uploaded(words));
        let pairs = tiles.partials * kv_heads * tiles.rows;
        let partial = self.scratch(4 * pairs * (dim + 2));
        let (sums, extents) = (partial.at(0), partial.at(4 * pairs * dim));
        // A stage has 64 keys and values.
        let stage = 256 * padded;
        let (kernel, threads, shared) = if tiles.rows == WARP_ROWS {
            (by_block, 32 * WARPS, if padded > 64 { 3 } else { 4 } * stage)
        } else {
            // Shared memory holds two stages, and the results of earlier splits.
            let threads = 2 * tiles.rows;
            (by_warp, threads, 2 * stage + if tiles.several { 2 * padded * threads } else { 0 })
        };
        let grid = Grid::new([tiles.len, kv_heads, 1], word(threads)).with_shared(word(shared));
        let (all, merged, tile_rows) = (tiles.tiles(), tiles.merged_tiles(), tiles.rows);
        kernel.launch(
            &*self.device,
            grid,
            (
                qkv, layer, all, pages, out, sums, extents, heads, kv_heads, dim, window, scale,
                stride, out_stride,
            ),
        );
        ATTENTION_MERGE.launch(
            &*self.device,
            Grid::new([tiles.merged, kv_heads, 1], 128),
            (merged, sums, extents, out, heads, kv_heads, dim, tile_rows, out_stride),
        );
    }

    pub(crate) fn attention_gradient(
        &self,
        shape: Attention,
        qkv: &CudaBuffer,
        batch: &CudaBatch,
        d_out: &CudaBuffer,
        d_qkv: &CudaBuffer,
    ) {
        check(shape);
        let Attention { heads, kv_heads, head_dim: dim, scale, .. } = shape;
        let (window, stride, out_stride) = (window(shape), qkv.layout.stride, d_out.layout.stride);
        assert_eq!(stride, d_qkv.layout.stride);
        let rows = batch.rows();
        let [qkv, d_qkv] = [qkv, d_qkv].map(|of| of.rows(rows, shape.row()));
        let d_out = d_out.rows(rows, heads * dim);
        let group = heads / kv_heads;
        let queries = for_head(&ATTENTION_BACKWARD_QUERIES_TILES, dim);
        let keys = for_head(&ATTENTION_BACKWARD_KEYS_TILES, dim);
        // Rows and keys of a tile; then each kernel, its threads and its bytes of shared memory.
        let (tile, queries, keys) = match (queries, keys) {
            (Some((padded, queries)), Some((_, keys))) if self.dtype == Dtype::Bf16 => {
                let (of_queries, of_keys) =
                    (warps(batch.longest() * group), warps(batch.longest()));
                // Queries: two stages of 64 keys and values. Keys: two stages of 32 queries, d_out
                // and statistics, and the block's values.
                let shared = 256 * padded + 1024 + 2 * WARP_ROWS * of_keys * padded;
                (
                    [WARP_ROWS * of_queries, WARP_ROWS * of_keys],
                    (queries, 32 * of_queries, 512 * padded),
                    (keys, 32 * of_keys, shared),
                )
            }
            _ => {
                let shared = 4 * (2 * 32 * (dim + 1) + 2 * 8 * dim + 8 * 32);
                let threads = THREADS as usize;
                (
                    [ROWS, KEYS],
                    (ATTENTION_BACKWARD_QUERIES.of(self.dtype), threads, shared),
                    (ATTENTION_BACKWARD_KEYS.of(self.dtype), threads, shared + 4 * 8 * 32),
                )
            }
        };
        let tiles = batch.gradient_tiles([group, tile[0], tile[1]], |words| self.uploaded(words));
        let scratch = self.scratch(gradient_workspace(self.dtype, shape, rows));
        let statistics = scratch.at(0);
        let grid = |tiles, threads, shared| {
            Grid::new([tiles, kv_heads, 1], word(threads)).with_shared(word(shared))
        };
        let (query_tiles, key_tiles, runs) = (tiles.query_tiles(), tiles.key_tiles(), tiles.runs());
        queries.0.launch(
            &*self.device,
            grid(tiles.queries, queries.1, queries.2),
            (
                qkv,
                d_out,
                query_tiles,
                d_qkv,
                statistics,
                heads,
                kv_heads,
                dim,
                window,
                scale,
                stride,
                out_stride,
            ),
        );
        keys.0.launch(
            &*self.device,
            grid(tiles.keys, keys.1, keys.2),
            (
                qkv, d_out, key_tiles, runs, statistics, d_qkv, heads, kv_heads, dim, window,
                scale, stride, out_stride,
            ),
        );
    }
}
