//! The gradient of attention over whole sequences.

use super::forward::exponentials;
use super::{Attention, check};
use crate::batch::{CheckedBatch, Run};
use crate::simd::{Kernel, LANES, Simd, vectors};
use crate::threads::{Shared, Workers};
use crate::tile::{End, Product, Start};

/// Query positions per tile.
const TILE: usize = 32;

impl Attention {
    /// Floats that the gradient takes per position of a sequence, if all key-value heads are worked
    /// on at once: keys and values, their gradients, and a tile of softmax weights with its
    /// gradient.
    pub(crate) fn gradient_workspace(self) -> usize {
        self.kv_heads * (3 * self.padded_dim() + 2 * self.head_dim + 2 * TILE)
    }
}

/// `d_qkv` (overwritten) from `d_out: [rows, heads * head_dim]`. Softmax weights are recomputed
/// from `qkv`.
///
/// A run that starts at position 0 is a whole sequence, or the shared beginning of the runs after
/// it that start where it ends. A key's or value's gradient is one chain over the runs that see it
/// in order, within a run over the heads of its group, and within a head over the queries in order;
/// a query's is one chain over the keys in order.
pub(crate) fn backward(
    workers: &Workers,
    shape: Attention,
    qkv: &[f32],
    batch: &CheckedBatch,
    d_out: &[f32],
    d_qkv: &mut [f32],
) {
    check(shape);
    let (rows, runs) = (batch.host().rows(), &batch.host().runs);
    assert!(qkv.len() >= rows * shape.row() && d_qkv.len() >= rows * shape.row());
    assert!(d_out.len() >= rows * shape.heads * shape.head_dim);
    let families: Vec<&[Run]> = runs.chunk_by(|_, run| run.position > 0).collect();
    for family in &families {
        assert_eq!(family[0].position, 0, "the gradient needs whole sequences");
        assert!(
            family[1..].iter().all(|run| run.position == family[0].len),
            "a run continues none before it"
        );
    }
    let d_qkv = Shared::of(d_qkv);
    workers.threads.ranges(families.len() * shape.kv_heads, 1, 1, |range| {
        for i in range {
            let (runs, kv_head) = (families[i / shape.kv_heads], i % shape.kv_heads);
            // SAFETY: tasks own disjoint (rows, heads) of d_qkv, since by `CheckedBatch` runs share no
            // rows; extents were checked above.
            unsafe {
                workers.isa.run(Family {
                    shape,
                    kv_head,
                    runs,
                    qkv: qkv.as_ptr(),
                    d_out: d_out.as_ptr(),
                    d_qkv: d_qkv.start(),
                });
            }
        }
    });
}

/// A run that starts at position 0 and those that continue it.
struct Family<'a> {
    shape: Attention,
    kv_head: usize,
    runs: &'a [Run],
    qkv: *const f32,
    d_out: *const f32,
    d_qkv: *mut f32,
}

impl Kernel for Family<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let shape = self.shape;
        let (dim, padded, group) = (shape.head_dim, shape.padded_dim(), shape.group());
        let (row, out_row) = (shape.row(), shape.heads * dim);
        let longest = self.runs.iter().map(|run| run.position + run.len).max().unwrap_or(0);
        let keys = longest.next_multiple_of(LANES);
        let k_at = (shape.heads + self.kv_head) * dim;
        let v_at = (shape.heads + shape.kv_heads + self.kv_head) * dim;
        // Keys by position: first the shared prefix, then one run after the other.
        let mut k = vec![0.0f32; longest * padded];
        let mut k_t = vec![0.0f32; dim * keys];
        let mut v_t = vec![0.0f32; dim * keys];
        let mut d_k = vec![0.0f32; longest * padded];
        let mut d_v = vec![0.0f32; longest * padded];
        let mut q = vec![0.0f32; TILE * padded];
        let mut d_o = vec![0.0f32; TILE * padded];
        let mut d_q = vec![0.0f32; TILE * padded];
        let mut p = vec![0.0f32; TILE * keys];
        let mut d_p = vec![0.0f32; TILE * keys];
        // The gradients of the shared prefix's keys and values are complete after all runs have
        // added to them.
        let write = |run: &Run, d_k: &[f32], d_v: &[f32]| {
            for i in 0..run.len {
                let from = (run.position + i) * padded;
                // SAFETY: `backward` checked that the run's rows of d_qkv are there.
                unsafe {
                    let to = self.d_qkv.add((run.row + i) * row);
                    std::ptr::copy_nonoverlapping(
                        d_k[from..from + dim].as_ptr(),
                        to.add(k_at),
                        dim,
                    );
                    std::ptr::copy_nonoverlapping(
                        d_v[from..from + dim].as_ptr(),
                        to.add(v_at),
                        dim,
                    );
                }
            }
        };
        for run in self.runs {
            // SAFETY: `backward` checked that the run's rows of qkv, d_out and d_qkv are there;
            // scratch is sized above.
            unsafe {
                let qkv = self.qkv.add(run.row * row);
                let d_out = self.d_out.add(run.row * out_row);
                let d_qkv = self.d_qkv.add(run.row * row);
                for i in 0..run.len {
                    let (key, value) = (qkv.add(i * row + k_at), qkv.add(i * row + v_at));
                    let j = run.position + i;
                    for d in 0..dim {
                        k[j * padded + d] = *key.add(d);
                        k_t[d * keys + j] = *key.add(d);
                        v_t[d * keys + j] = *value.add(d);
                    }
                }
                let own = run.position * padded..(run.position + run.len) * padded;
                d_k[own.clone()].fill(0.0);
                d_v[own].fill(0.0);
                for (head, first) in (self.kv_head * group..(self.kv_head + 1) * group)
                    .flat_map(|head| (0..run.len).step_by(TILE).map(move |first| (head, first)))
                {
                    let count = TILE.min(run.len - first);
                    let position = run.position + first;
                    // Keys the tile sees: `from` is a multiple of 16.
                    let from = shape.first_visible(position) / LANES * LANES;
                    let to = position + count;
                    let width = (to - from).next_multiple_of(LANES);
                    for i in 0..count {
                        let query = qkv.add((first + i) * row + head * dim);
                        let d_out = d_out.add((first + i) * out_row + head * dim);
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
                    Product {
                        a: d_o.as_ptr(),
                        b: v_t.as_ptr().add(from),
                        c: d_p.as_mut_ptr(),
                        ..product
                    }
                    .run::<S>();
                    for i in 0..count {
                        let visible = shape.first_visible(position + i).saturating_sub(from)
                            ..position + i + 1 - from;
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
                        let out = d_qkv.add((first + i) * row + head * dim);
                        std::ptr::copy_nonoverlapping(d_q.as_ptr().add(i * padded), out, dim);
                    }
                }
            }
            if run.position > 0 {
                write(run, &d_k, &d_v);
            }
        }
        if let Some(beginning) = self.runs.first() {
            write(beginning, &d_k, &d_v);
        }
    }
}

/// `p` holds exponentials, and their sum is given. Normalises `p`, and replaces `d_p` by the
/// gradient of the unscaled scores, `scale * p (d_p - sum_j p_j d_p_j)`.
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
