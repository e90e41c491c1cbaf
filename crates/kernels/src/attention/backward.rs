//! The gradient of attention over whole sequences.

use super::forward::exponentials;
use super::{Attention, Run, check_disjoint};
use crate::simd::{Kernel, LANES, Simd, vectors};
use crate::threads::{Engine, Shared};
use crate::tile::{End, Product, Start};

/// Query positions per tile.
const TILE: usize = 32;

/// `d_qkv` (overwritten) from `d_out: [rows, heads * head_dim]`. Runs are whole sequences, from position 0. Softmax
/// weights are recomputed from `qkv`. A key's or value's gradient is one chain over the heads of its group and,
/// within a head, the queries in order; a query's is one chain over the keys in order.
pub(crate) fn backward(
    engine: &Engine,
    shape: Attention,
    qkv: &[f32],
    runs: &[Run],
    d_out: &[f32],
    d_qkv: &mut [f32],
) {
    assert!(shape.heads.is_multiple_of(shape.kv_heads) && shape.window != Some(0));
    for run in runs {
        assert_eq!(run.position, 0, "the gradient needs whole sequences");
        let rows = run.row + run.len;
        assert!(qkv.len() >= rows * shape.row() && d_qkv.len() >= rows * shape.row());
        assert!(d_out.len() >= rows * shape.heads * shape.head_dim);
    }
    check_disjoint(runs);
    let d_qkv = Shared::of(d_qkv);
    engine.threads.ranges(runs.len() * shape.kv_heads, 1, 1, |range| {
        for i in range {
            let (run, kv_head) = (&runs[i / shape.kv_heads], i % shape.kv_heads);
            let first = run.row * shape.row();
            // SAFETY: tasks own disjoint (rows, heads) of d_qkv; extents were checked above.
            unsafe {
                engine.isa.run(Sequence {
                    shape,
                    kv_head,
                    len: run.len,
                    qkv: qkv.as_ptr().add(first),
                    d_out: d_out.as_ptr().add(run.row * shape.heads * shape.head_dim),
                    d_qkv: d_qkv.start().add(first),
                });
            }
        }
    });
}

struct Sequence {
    shape: Attention,
    kv_head: usize,
    len: usize,
    qkv: *const f32,
    d_out: *const f32,
    d_qkv: *mut f32,
}

impl Kernel for Sequence {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let shape = self.shape;
        let (dim, padded, group, n) = (shape.head_dim, shape.padded_dim(), shape.group(), self.len);
        let (row, out_row) = (shape.row(), shape.heads * dim);
        let keys = n.next_multiple_of(LANES);
        let k_at = (shape.heads + self.kv_head) * dim;
        let v_at = (shape.heads + shape.kv_heads + self.kv_head) * dim;
        let mut k = vec![0.0f32; n * padded];
        let mut k_t = vec![0.0f32; dim * keys];
        let mut v_t = vec![0.0f32; dim * keys];
        let mut d_k = vec![0.0f32; n * padded];
        let mut d_v = vec![0.0f32; n * padded];
        let mut q = vec![0.0f32; TILE * padded];
        let mut d_o = vec![0.0f32; TILE * padded];
        let mut d_q = vec![0.0f32; TILE * padded];
        let mut p = vec![0.0f32; TILE * keys];
        let mut d_p = vec![0.0f32; TILE * keys];
        // SAFETY: `backward` checked that n rows of qkv, d_out and d_qkv are there; scratch is sized above.
        unsafe {
            for j in 0..n {
                let (key, value) = (self.qkv.add(j * row + k_at), self.qkv.add(j * row + v_at));
                for d in 0..dim {
                    k[j * padded + d] = *key.add(d);
                    k_t[d * keys + j] = *key.add(d);
                    v_t[d * keys + j] = *value.add(d);
                }
            }
            for head in self.kv_head * group..(self.kv_head + 1) * group {
                for first in (0..n).step_by(TILE) {
                    let count = TILE.min(n - first);
                    // Keys the tile sees: `from` is a multiple of 16.
                    let from = shape.first_visible(first) / LANES * LANES;
                    let to = first + count;
                    let width = (to - from).next_multiple_of(LANES);
                    for i in 0..count {
                        let query = self.qkv.add((first + i) * row + head * dim);
                        let d_out = self.d_out.add((first + i) * out_row + head * dim);
                        std::ptr::copy_nonoverlapping(query, q.as_mut_ptr().add(i * padded), dim);
                        std::ptr::copy_nonoverlapping(d_out, d_o.as_mut_ptr().add(i * padded), dim);
                    }
                    let product = Product {
                        a: q.as_ptr(),
                        a_row_stride: padded,
                        a_step_stride: 1,
                        b: k_t.as_ptr().add(from),
                        b_step_stride: keys,
                        c: p.as_mut_ptr(),
                        c_row_stride: keys,
                        steps: dim,
                        rows: count,
                        columns: width,
                        start: Start::Zero,
                        end: End::Store,
                    };
                    product.run::<S>();
                    Product { a: d_o.as_ptr(), b: v_t.as_ptr().add(from), c: d_p.as_mut_ptr(), ..product }
                        .run::<S>();
                    for i in 0..count {
                        let visible =
                            shape.first_visible(first + i).saturating_sub(from)..first + i + 1 - from;
                        let p = &mut p[i * keys..][..width];
                        let sum = exponentials::<S>(p, shape.scale, visible.start, visible.end);
                        softmax_gradient::<S>(p, sum, shape.scale, &mut d_p[i * keys..][..width]);
                    }
                    // Rows are keys, steps are queries.
                    let by_key = Product {
                        a: p.as_ptr(),
                        a_row_stride: 1,
                        a_step_stride: keys,
                        b: d_o.as_ptr(),
                        b_step_stride: padded,
                        c: d_v.as_mut_ptr().add(from * padded),
                        c_row_stride: padded,
                        steps: count,
                        rows: to - from,
                        columns: padded,
                        start: Start::Load,
                        end: End::Store,
                    };
                    by_key.run::<S>();
                    Product {
                        a: d_p.as_ptr(),
                        b: q.as_ptr(),
                        c: d_k.as_mut_ptr().add(from * padded),
                        ..by_key
                    }
                    .run::<S>();
                    Product {
                        a: d_p.as_ptr(),
                        a_row_stride: keys,
                        a_step_stride: 1,
                        b: k.as_ptr().add(from * padded),
                        b_step_stride: padded,
                        c: d_q.as_mut_ptr(),
                        c_row_stride: padded,
                        steps: to - from,
                        rows: count,
                        columns: padded,
                        start: Start::Zero,
                        end: End::Store,
                    }
                    .run::<S>();
                    for i in 0..count {
                        let out = self.d_qkv.add((first + i) * row + head * dim);
                        std::ptr::copy_nonoverlapping(d_q.as_ptr().add(i * padded), out, dim);
                    }
                }
            }
            for j in 0..n {
                let from = j * padded;
                std::ptr::copy_nonoverlapping(d_k.as_ptr().add(from), self.d_qkv.add(j * row + k_at), dim);
                std::ptr::copy_nonoverlapping(d_v.as_ptr().add(from), self.d_qkv.add(j * row + v_at), dim);
            }
        }
    }
}

/// `p` holds exponentials and their sum is given: normalises p, and replaces `d_p` by the gradient of the unscaled
/// scores, `scale * p (d_p - sum_j p_j d_p_j)`.
#[inline(always)]
unsafe fn softmax_gradient<S: Simd>(p: &mut [f32], sum: f32, scale: f32, d_p: &mut [f32]) {
    let (x, d) = (p.as_mut_ptr(), d_p.as_mut_ptr());
    // SAFETY: both rows have one length, a multiple of 16.
    unsafe {
        let sum = S::splat(sum);
        let mut dot = S::splat(0.0);
        vectors!(p.len(), |i, _n| {
            let v = S::div(S::load(x.add(i)), sum);
            S::store(x.add(i), v);
            dot = S::fma(v, S::load(d.add(i)), dot);
        });
        let dot = S::splat(S::sum(dot));
        let scale = S::splat(scale);
        vectors!(p.len(), |i, _n| {
            let g = S::mul(S::load(x.add(i)), S::sub(S::load(d.add(i)), dot));
            S::store(d.add(i), S::mul(g, scale));
        });
    }
}
