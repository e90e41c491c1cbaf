//! Attention in bf16 and its gradient, of numbers for which both are exact in any arithmetic.
//!
//! The first half of a head's features are slots. A key has a number in one of them, a query asks
//! for one, and scores are so far apart that every key counts nothing but those with the largest
//! number in the slot that is asked for: one, or two with equal scores, whose weights are 1 or a
//! half. The other features of keys, values and gradients are -1, 0 or 1, and queries have none.

use super::{attention, cache, compare, noise, read, rounded, rows, sequences, unsigned_zeros};
use crate::cuda::Cuda;
use crate::device::Device;
use isentrope_kernels::{Attention, Backend, HostBatch, Run};
use std::ops::Range;

/// The least magnitude of queries and keys in a slot. Half its square is beyond what an exponential
/// in f32 can tell from 0.
const STRENGTH: f32 = 16.0;
/// Positions: more than a tile of 64 keys, and than a page; and fewer.
const LENS: [usize; 2] = [75, 20];
/// Sequences that go on from the second one, where the gradient is computed, and what each has
/// beyond it.
const FURTHER: [usize; 2] = [9, 21];
/// Features of a head that kernels are made for.
const FEATURES: [usize; 4] = [16, 32, 64, 128];
/// Positions of a sequence with two splits, of which the last one is decoded: the second has some
/// of the slots only.
const LONG: usize = SPLIT + 20;
const SPLIT: usize = crate::splits::SPLIT;
/// The last rows of that sequence, of which a block has more than one warp's, over both splits.
const SEVERAL: usize = crate::splits::WARP_ROWS + 1;

fn shape(heads: usize, kv_heads: usize, head_dim: usize) -> Attention {
    Attention { heads, kv_heads, head_dim, window: None, scale: 0.5 }
}

/// -1, 0 or 1.
fn signs(seed: u64, len: usize) -> Vec<f32> {
    noise(seed, len).into_iter().map(|x| (x * 1.5).round() + 0.0).collect()
}

/// A sequence: the rows that it begins with, which may be another's as well, and its own, behind
/// which queries are.
struct Line {
    beginning: Range<usize>,
    own: Range<usize>,
}

/// The sequences of a gradient, whose rows follow one another.
fn lines() -> Vec<Line> {
    let mut end = 0;
    let lens = LENS.into_iter().map(|len| (0..0, len));
    let further = FURTHER.into_iter().map(|len| (LENS[0]..LENS[0] + LENS[1], len));
    let line = |(beginning, len)| {
        let own = end..end + len;
        end += len;
        Line { beginning, own }
    };
    lens.chain(further).map(line).collect()
}

/// A row for a position: `strength` is what its key has in its slot, and `asks` which slot a head
/// asks for, and how strongly.
fn row(
    shape: Attention,
    position: usize,
    strength: f32,
    asks: impl Fn(usize) -> (usize, f32),
    numbers: &mut impl Iterator<Item = f32>,
) -> Vec<f32> {
    let (dim, slots) = (shape.head_dim, shape.head_dim / 2);
    let mut row: Vec<f32> = numbers.take(shape.row()).collect();
    for head in 0..shape.heads {
        let (slot, strength) = asks(head);
        row[head * dim..][..dim].fill(0.0);
        row[head * dim + slot] = strength;
    }
    for head in shape.heads..shape.heads + shape.kv_heads {
        row[head * dim..][..slots].fill(0.0);
        row[head * dim + position % slots] = strength;
    }
    row
}

/// Attention over sequences of several tiles, and its gradient, also where sequences begin alike,
/// for each number of features that kernels are made for. Two heads share one of keys and values.
///
/// # Errors
/// As [`self_test`](super::self_test).
pub(super) fn heads<D: Device>(backend: &Cuda<D>) -> Result<(), String> {
    for features in FEATURES {
        let shape = shape(2, 1, features);
        let (width, slots) = (shape.heads * features, features / 2);
        let lines = lines();
        let positions = lines
            .iter()
            .flat_map(|line| line.beginning.len()..line.beginning.len() + line.own.len());
        let mut numbers =
            signs(19, lines.last().map_or(0, |line| line.own.end) * shape.row()).into_iter();
        let mut qkv = Vec::new();
        for position in positions {
            // Every two rounds of slots outweigh those before.
            let strength = STRENGTH * (1 + position / slots / 2) as f32;
            let asks = |head| {
                let wanted = (position * 7 + 3 * head) % (position + 1);
                (wanted % slots, STRENGTH * (1.0 + 0.5 * ((position + head) % 3) as f32))
            };
            qkv.extend(row(shape, position, strength, asks, &mut numbers));
        }
        let d_out = signs(20, qkv.len() / shape.row() * width);
        let (out, d_qkv) = in_f64(shape, &lines, &qkv, &d_out);
        let name = |what: &str| format!("{what} in bf16, of heads of {features},");
        let without: usize = LENS.iter().sum();
        let got = attention(backend, shape, &LENS, &qkv[..without * shape.row()]);
        compare(&name("attention"), &unsigned_zeros(got), &out[..without * width])?;
        let first = &qkv[..LENS[0] * shape.row()];
        let got = last_rows(backend, shape, first, 1);
        compare(
            &name("decoding attention"),
            &unsigned_zeros(got),
            &out[(LENS[0] - 1) * width..LENS[0] * width],
        )?;

        let mut gradient = rows(backend, &noise(21, qkv.len()), shape.row());
        let run = |Line { beginning, own }: &Line| Run {
            row: own.start,
            len: own.len(),
            position: beginning.len(),
            pages: 0..0,
        };
        let (tokens, runs) = (vec![0; qkv.len() / shape.row()], lines.iter().map(run).collect());
        let batch = backend.batch(&HostBatch { tokens, runs, ..HostBatch::default() });
        let of = |numbers: &[f32], width| rows(backend, numbers, width);
        backend.attention_backward(
            shape,
            &of(&qkv, shape.row()),
            &batch,
            &of(&d_out, width),
            &mut gradient,
        );
        let got = unsigned_zeros(read(backend, &gradient, qkv.len()));
        for (part, features) in [("queries", 0..width), ("keys and values", width..shape.row())] {
            let part_of = |all: &[f32]| -> Vec<f32> {
                all.chunks(shape.row()).flat_map(|row| &row[features.clone()]).copied().collect()
            };
            compare(
                &name(&format!("the gradient of attention's {part}")),
                &part_of(&got),
                &part_of(&d_qkv),
            )?;
        }
    }
    Ok(())
}

/// A decoding step over two splits, by a block each, which are put together, and by one block; and
/// several rows, by a block whose warps have rows of their own.
///
/// # Errors
/// As [`self_test`](super::self_test).
pub(super) fn splits<D: Device>(apart: &Cuda<D>, together: &Cuda<D>) -> Result<(), String> {
    let shape = shape(2, 2, 64);
    let (width, slots) = (shape.heads * shape.head_dim, shape.head_dim / 2);
    let mut numbers = signs(22, LONG * shape.row()).into_iter();
    let mut exact = Vec::new();
    for position in 0..LONG {
        let counts = position < slots || position >= SPLIT;
        // One head finds a key in either split, the other one in the first alone.
        let asks = |head| (if head == 0 { 5 } else { LONG - SPLIT + 5 }, STRENGTH);
        exact.extend(row(shape, position, if counts { STRENGTH } else { 0.0 }, asks, &mut numbers));
    }
    let nothing = vec![0.0; LONG * width];
    let first = LONG - SEVERAL;
    let line = Line { beginning: 0..first, own: first..LONG };
    let (want, _) = in_f64(shape, &[line], &exact, &nothing);
    let last = &want[(LONG - 1) * width..];
    let by_two = unsigned_zeros(last_rows(apart, shape, &exact, 1));
    compare("attention in bf16, in two splits that are put together,", &by_two, last)?;
    let by_one = unsigned_zeros(last_rows(together, shape, &exact, 1));
    compare("attention in bf16, in two splits of one block,", &by_one, last)?;
    let several = unsigned_zeros(last_rows(together, shape, &exact, SEVERAL));
    compare("attention in bf16, of several rows in two splits,", &several, &want[first * width..])?;
    // Weights of many keys.
    let soft = Attention { scale: 0.2, ..shape };
    let numbers = noise(23, LONG * shape.row());
    let (by_two, by_one) =
        (last_rows(apart, soft, &numbers, 1), last_rows(together, soft, &numbers, 1));
    compare(
        "attention in bf16, in splits that are put together as if by one block,",
        &by_two,
        &by_one,
    )
}

/// Attention of so many of the last of these rows to all.
fn last_rows<D: Device>(
    backend: &Cuda<D>,
    shape: Attention,
    qkv: &[f32],
    count: usize,
) -> Vec<f32> {
    let width = shape.heads * shape.head_dim;
    let len = qkv.len() / shape.row();
    let (all, pages) = sequences(backend, &[len]);
    let mut last = HostBatch::default();
    last.push(&vec![0; count], len - count, &all.pages);
    let mut cache = cache(backend, shape, pages);
    backend.store_kv(shape, &rows(backend, qkv, shape.row()), &backend.batch(&all), &mut cache, 0);
    let queries = rows(backend, &qkv[(len - count) * shape.row()..], shape.row());
    let mut out = rows(backend, &noise(24, count * width), width);
    backend.attention(shape, &queries, &backend.batch(&last), &cache, 0, &mut out);
    read(backend, &out, count * width)
}

/// Attention of the sequences' own rows and its gradient, as bf16.
fn in_f64(shape: Attention, lines: &[Line], qkv: &[f32], d_out: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let Attention { heads, kv_heads, head_dim: dim, scale, .. } = shape;
    let (row, width) = (shape.row(), heads * dim);
    let wide =
        |numbers: &[f32]| numbers.iter().map(|&number| f64::from(number)).collect::<Vec<f64>>();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (qkv, d_out) = (wide(qkv), wide(d_out));
    let (mut out, mut d_qkv) = (vec![0.0; d_out.len()], vec![0.0; qkv.len()]);
    for Line { beginning, own } in lines {
        for (i, head) in own.clone().flat_map(|i| (0..heads).map(move |head| (i, head))) {
            let seen = beginning.clone().chain(own.start..=i);
            let kv_head = head / (heads / kv_heads);
            let at_q = i * row + head * dim;
            let at_k = |j: usize| j * row + (heads + kv_head) * dim;
            let at_v = |j: usize| at_k(j) + kv_heads * dim;
            let at_out = i * width + head * dim;
            let (q, dy) = (&qkv[at_q..][..dim], &d_out[at_out..][..dim]);
            let score = |j| dot(q, &qkv[at_k(j)..][..dim]) * f64::from(scale);
            let scores: Vec<f64> = seen.clone().map(score).collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let e: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let sum: f64 = e.iter().sum();
            let dp: Vec<f64> = seen.clone().map(|j| dot(dy, &qkv[at_v(j)..][..dim])).collect();
            let mean = dot(&e, &dp) / sum;
            for (j, (e, dp)) in seen.zip(e.iter().zip(&dp)) {
                let p = e / sum;
                let slope = p * (dp - mean) * f64::from(scale);
                for feature in 0..dim {
                    out[at_out + feature] += p * qkv[at_v(j) + feature];
                    d_qkv[at_q + feature] += slope * qkv[at_k(j) + feature];
                    d_qkv[at_k(j) + feature] += slope * qkv[at_q + feature];
                    d_qkv[at_v(j) + feature] += p * d_out[at_out + feature];
                }
            }
        }
    }
    let narrow = |numbers: Vec<f64>| {
        unsigned_zeros(rounded(numbers.into_iter().map(|number| number as f32)))
    };
    (narrow(out), narrow(d_qkv))
}
