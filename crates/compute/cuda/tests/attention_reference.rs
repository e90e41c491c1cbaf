//! Attention and its gradient as docs/concepts/numerics.md defines them for bf16 (rule 3), in
//! scalar code, query by query and key by key. The tensor core's kernels must equal it to the last
//! bit, whatever tiles, splits and neighbours they have.

use isentrope_kernels::{Attention, Run};

/// Keys of a tile, whose maximum and sums are taken at once.
const TILE: usize = 64;
/// Keys of a split.
const SPLIT: usize = 1024;

/// To bf16, to nearest even; a zero has no sign.
fn rounded(x: f32) -> f32 {
    let image = (x + 0.0).to_bits();
    f32::from_bits((image + 0x7fff + ((image >> 16) & 1)) & 0xffff_0000)
}

/// `exp` of crates/compute/kernels/src/math.rs.
fn exponential(x: f32) -> f32 {
    if x < -87.336_54 {
        return 0.0;
    }
    let magic = x.mul_add(std::f32::consts::LOG2_E, 12_582_912.0);
    let n = magic - 12_582_912.0;
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-355.0 / 512.0, x));
    let factorials = [720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0];
    let series = factorials
        .into_iter()
        .fold(1.0 / 5040.0, |p: f32, factorial: f32| p.mul_add(r, 1.0 / factorial));
    // By a power of two that may be below the least normal one: twice, which rounds once.
    series * 2f32.powi(n as i32 / 2) * 2f32.powi(n as i32 - n as i32 / 2)
}

/// A chain of the tensor core's steps, from a start value, over two rows of numbers: blocks of 16
/// in ascending order, the last one padded with zeros.
pub type Chain<'a> = &'a dyn Fn(f32, &[f32], &[f32]) -> f32;

/// Attention in scalar code.
pub struct Reference<'a> {
    pub shape: Attention,
    pub chain: Chain<'a>,
}

/// Three numbers of a query: its largest score, one over the sum of exponentials, the sum of p dp.
#[derive(Clone, Copy)]
struct Statistics {
    largest: f32,
    inverse: f32,
    dot: f32,
}

impl Reference<'_> {
    fn query<'a>(&self, row: &'a [f32], head: usize) -> &'a [f32] {
        &row[head * self.shape.head_dim..][..self.shape.head_dim]
    }
    fn key<'a>(&self, row: &'a [f32], head: usize) -> &'a [f32] {
        self.query(row, self.shape.heads + head * self.shape.kv_heads / self.shape.heads)
    }
    fn value<'a>(&self, row: &'a [f32], head: usize) -> &'a [f32] {
        self.query(
            row,
            self.shape.heads + self.shape.kv_heads + head * self.shape.kv_heads / self.shape.heads,
        )
    }

    fn is_visible(&self, query: usize, key: usize) -> bool {
        key <= query && self.shape.window.is_none_or(|window| query - key < window)
    }

    /// Scores of the keys of one tile, -infinity for invisible keys.
    fn scores(
        &self,
        rows: &[&[f32]],
        query_row: &[f32],
        position: usize,
        head: usize,
        tile: usize,
    ) -> Vec<f32> {
        let score = |key: usize| match rows.get(key) {
            Some(row) if self.is_visible(position, key) => {
                (self.chain)(0.0, self.query(query_row, head), self.key(row, head))
                    * self.shape.scale
            }
            _ => f32::NEG_INFINITY,
        };
        (tile * TILE..(tile + 1) * TILE).map(score).collect()
    }

    /// The output of a query at a position for one head. Rows of `[q, k, v]` by position.
    pub fn output(&self, rows: &[&[f32]], position: usize, head: usize) -> Vec<f32> {
        let dim = self.shape.head_dim;
        let (mut all, mut all_sum, mut result) = (f32::NEG_INFINITY, 0.0f32, vec![0.0f32; dim]);
        for split in 0..=position / SPLIT {
            let (mut largest, mut sum, mut sums) = (f32::NEG_INFINITY, 0.0f32, vec![0.0f32; dim]);
            for tile in split * (SPLIT / TILE)..(split + 1) * (SPLIT / TILE) {
                let z = self.scores(rows, rows[position], position, head, tile);
                let most = z.iter().copied().fold(largest, f32::max);
                if most == f32::NEG_INFINITY {
                    continue;
                }
                let factor = exponential(largest - most);
                largest = most;
                let weights: Vec<f32> = z.iter().map(|z| rounded(exponential(z - most))).collect();
                sum = (self.chain)(sum * factor, &weights, &[1.0; TILE]);
                for (d, sum) in sums.iter_mut().enumerate() {
                    let value =
                        |key: usize| rows.get(key).map_or(0.0, |row| self.value(row, head)[d]);
                    let values: Vec<f32> = (tile * TILE..(tile + 1) * TILE).map(value).collect();
                    *sum = (self.chain)(*sum * factor, &weights, &values);
                }
            }
            if largest == f32::NEG_INFINITY {
                continue;
            }
            let most = all.max(largest);
            let (of_old, of_new) = (exponential(all - most), exponential(largest - most));
            all = most;
            all_sum = sum.mul_add(of_new, all_sum * of_old);
            for (result, sum) in result.iter_mut().zip(sums) {
                *result = sum.mul_add(of_new, *result * of_old);
            }
        }
        result.into_iter().map(|sum| rounded(sum / all_sum)).collect()
    }

    fn statistics(
        &self,
        rows: &[&[f32]],
        query_row: &[f32],
        d_out: &[f32],
        position: usize,
        head: usize,
    ) -> Statistics {
        let (mut largest, mut sum, mut dot) = (f32::NEG_INFINITY, 0.0f32, 0.0f32);
        for tile in 0..=position / TILE {
            let z = self.scores(rows, query_row, position, head, tile);
            let most = z.iter().copied().fold(largest, f32::max);
            if most == f32::NEG_INFINITY {
                continue;
            }
            let factor = exponential(largest - most);
            largest = most;
            // Four partial sums; each adds two neighbours out of eight.
            let (mut more, mut more_dot) = ([0.0f32; 4], [0.0f32; 4]);
            for (i, z) in z.into_iter().enumerate().filter(|(_, z)| *z > f32::NEG_INFINITY) {
                let e = exponential(z - most);
                let dp = (self.chain)(
                    0.0,
                    self.query(d_out, head),
                    self.value(rows[tile * TILE + i], head),
                );
                more[i % 8 / 2] += e;
                more_dot[i % 8 / 2] = e.mul_add(dp, more_dot[i % 8 / 2]);
            }
            let tree = |of: [f32; 4]| (of[0] + of[1]) + (of[2] + of[3]);
            sum = sum.mul_add(factor, tree(more));
            dot = dot.mul_add(factor, tree(more_dot));
        }
        let inverse = 1.0 / sum;
        Statistics { largest, inverse, dot: dot * inverse }
    }

    /// The gradient of all rows. A run that begins at position 0 is a sequence, or the shared
    /// beginning of the runs behind it that start further on.
    pub fn gradient(&self, qkv: &[f32], d_out: &[f32], runs: &[Run]) -> Vec<f32> {
        let Attention { heads, kv_heads, head_dim: dim, scale, .. } = self.shape;
        let group = heads / kv_heads;
        let (row, width) = (self.shape.row(), heads * dim);
        let at = |i: usize| &qkv[i * row..][..row];
        let d_at = |i: usize| &d_out[i * width..][..width];
        let mut d_qkv = vec![0.0; qkv.len()];
        for family in runs.chunk_by(|_, run| run.position > 0) {
            // Sums of keys and of values, by row of the batch.
            let mut sums = vec![0.0f32; qkv.len()];
            for run in family {
                let mut rows: Vec<&[f32]> =
                    (0..run.position).map(|i| at(family[0].row + i)).collect();
                rows.extend((run.row..run.row + run.len).map(at));
                let place = |key: usize| {
                    if key < run.position {
                        family[0].row + key
                    } else {
                        run.row + key - run.position
                    }
                };
                for head in 0..heads {
                    // Weights and gradients of scores, [queries, keys], rounded.
                    let (mut weights, mut slopes) = (Vec::new(), Vec::new());
                    for i in 0..run.len {
                        let (position, d_out) = (run.position + i, d_at(run.row + i));
                        let of = self.statistics(&rows, rows[position], d_out, position, head);
                        let pair = |key: usize| {
                            if !self.is_visible(position, key) {
                                return (0.0, 0.0);
                            }
                            let z = (self.chain)(
                                0.0,
                                self.query(rows[position], head),
                                self.key(rows[key], head),
                            ) * scale;
                            let p = exponential(z - of.largest) * of.inverse;
                            let dp = (self.chain)(
                                0.0,
                                self.query(d_out, head),
                                self.value(rows[key], head),
                            );
                            (rounded(p), rounded(p * (dp - of.dot)))
                        };
                        let (p, d): (Vec<f32>, Vec<f32>) = (0..rows.len()).map(pair).unzip();
                        for feature in 0..dim {
                            let keys: Vec<f32> =
                                rows.iter().map(|row| self.key(row, head)[feature]).collect();
                            let sum = (self.chain)(0.0, &d, &keys);
                            d_qkv[(run.row + i) * row + head * dim + feature] =
                                rounded(sum * scale);
                        }
                        weights.push(p);
                        slopes.push(d);
                    }
                    for key in 0..rows.len() {
                        let column =
                            |of: &[Vec<f32>]| of.iter().map(|row| row[key]).collect::<Vec<f32>>();
                        let (weights, slopes) = (column(&weights), column(&slopes));
                        for feature in 0..dim {
                            let of_rows = |of: &dyn Fn(usize) -> f32| {
                                (0..run.len).map(of).collect::<Vec<f32>>()
                            };
                            let queries = of_rows(&|i| self.query(at(run.row + i), head)[feature]);
                            let outs = of_rows(&|i| self.query(d_at(run.row + i), head)[feature]);
                            let base = place(key) * row + (heads + head / group) * dim + feature;
                            sums[base] = (self.chain)(sums[base], &slopes, &queries);
                            let base = base + kv_heads * dim;
                            sums[base] = (self.chain)(sums[base], &weights, &outs);
                        }
                    }
                }
            }
            for i in family.iter().flat_map(|run| run.row..run.row + run.len) {
                for feature in heads * dim..row {
                    let is_key = feature < (heads + kv_heads) * dim;
                    let sum = sums[i * row + feature];
                    d_qkv[i * row + feature] = rounded(if is_key { sum * scale } else { sum });
                }
            }
        }
        d_qkv
    }
}
