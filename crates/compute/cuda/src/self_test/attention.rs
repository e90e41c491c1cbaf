//! Attention in bf16 and its gradient, of numbers for which both are exact in any arithmetic.
//!
//! The first half of a head's features are slots. A key has a number in one of them, and a query
//! asks for one. The scores are so far apart that only the keys with the largest number in the
//! query's slot count: one key of weight 1, or two keys with equal scores and weights of a half.
//! The other features are -1, 0 or 1 in keys, values and gradients, and 0 in queries.

use super::{attention, cache, compare, noise, read, rounded, rows, sequences, unsigned_zeros};
use crate::cuda::Cuda;
use isentrope_kernels::{Attention, Backend, Cpu, HostBatch, Run};
use std::ops::Range;

/// The least magnitude of queries and keys in a slot. An exponential in f32 of minus half its
/// square is 0.
const STRENGTH: f32 = 16.0;
/// Lengths of sequences: more positions than a tile of 64 keys and than a page, and fewer.
const LENS: [usize; 2] = [75, 20];
/// Tokens of the sequences that continue the second one, for the gradient.
const FURTHER: [usize; 2] = [9, 21];
/// Features of heads that kernels exist for.
const FEATURES: [usize; 4] = [16, 32, 64, 128];
/// Positions of a sequence with two splits. Its last token is decoded; the second split is short.
const LONG: usize = SPLIT + 20;
const SPLIT: usize = crate::splits::SPLIT;
/// The last rows of that sequence: more than a warp of a block has, over both splits.
const SEVERAL: usize = crate::splits::WARP_ROWS + 1;

fn shape(heads: usize, kv_heads: usize, head_dim: usize) -> Attention {
    Attention { heads, kv_heads, head_dim, window: None, scale: 0.5 }
}

/// -1, 0 or 1.
fn signs(seed: u64, len: usize) -> Vec<f32> {
    noise(seed, len).into_iter().map(|x| (x * 1.5).round() + 0.0).collect()
}

/// A sequence: first rows that it may share with another one, then its own rows, whose queries are
/// tested.
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

/// A row for a position: `strength` is the number that its key has in its slot. `asks` says which
/// slot a head's query asks for, and with which strength.
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

/// Attention over sequences of several tiles, and its gradient, also for sequences with a shared
/// beginning, for each number of features that kernels exist for. Two heads share a head of keys
/// and values.
///
/// # Errors
/// As [`self_test`](super::self_test).
pub(super) fn heads(backend: &Cuda, cpu: &Cpu) -> Result<(), String> {
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
            // Each two rounds of slots outweigh the rounds before.
            let strength = STRENGTH * (1 + position / slots / 2) as f32;
            let asks = |head| {
                let wanted = (position * 7 + 3 * head) % (position + 1);
                (wanted % slots, STRENGTH * (1.0 + 0.5 * ((position + head) % 3) as f32))
            };
            qkv.extend(row(shape, position, strength, asks, &mut numbers));
        }
        let d_out = signs(20, qkv.len() / shape.row() * width);
        let name = |what: &str| format!("{what} in bf16, of heads of {features},");
        let without = LENS.iter().sum::<usize>() * shape.row();
        let of_lens = |backend: &dyn Backend| attention(backend, shape, &LENS, &qkv[..without]);
        let out = as_bf16(of_lens(cpu));
        compare(&name("attention"), &unsigned_zeros(of_lens(backend)), &out)?;
        let first = &qkv[..LENS[0] * shape.row()];
        let got = unsigned_zeros(last_rows(backend, shape, first, 1));
        let last = &out[(LENS[0] - 1) * width..LENS[0] * width];
        compare(&name("decoding attention"), &got, last)?;

        let got = unsigned_zeros(gradient(backend, shape, &lines, &qkv, &d_out));
        let d_qkv = as_bf16(gradient(cpu, shape, &lines, &qkv, &d_out));
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

/// A decoding step over two splits, once with a block each whose results are combined, once with
/// one block. Also several rows, with a block whose warps have rows of their own.
///
/// # Errors
/// As [`self_test`](super::self_test).
pub(super) fn splits(apart: &Cuda, together: &Cuda, cpu: &Cpu) -> Result<(), String> {
    let shape = shape(2, 2, 64);
    let (width, slots) = (shape.heads * shape.head_dim, shape.head_dim / 2);
    let mut numbers = signs(22, LONG * shape.row()).into_iter();
    let mut exact = Vec::new();
    for position in 0..LONG {
        let counts = position < slots || position >= SPLIT;
        // One head finds a key in both splits, the other one in the first split only.
        let asks = |head| (if head == 0 { 5 } else { LONG - SPLIT + 5 }, STRENGTH);
        exact.extend(row(shape, position, if counts { STRENGTH } else { 0.0 }, asks, &mut numbers));
    }
    let want = as_bf16(last_rows(cpu, shape, &exact, SEVERAL));
    let last = &want[(SEVERAL - 1) * width..];
    let by_two = unsigned_zeros(last_rows(apart, shape, &exact, 1));
    compare("attention in bf16, in two splits that are put together,", &by_two, last)?;
    let by_one = unsigned_zeros(last_rows(together, shape, &exact, 1));
    compare("attention in bf16, in two splits of one block,", &by_one, last)?;
    let several = unsigned_zeros(last_rows(together, shape, &exact, SEVERAL));
    compare("attention in bf16, of several rows in two splits,", &several, &want)?;
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

/// The gradient of these sequences.
fn gradient(
    backend: &dyn Backend,
    shape: Attention,
    lines: &[Line],
    qkv: &[f32],
    d_out: &[f32],
) -> Vec<f32> {
    let run = |Line { beginning, own }: &Line| Run {
        row: own.start,
        len: own.len(),
        position: beginning.len(),
        pages: 0..0,
    };
    let (tokens, runs) = (vec![0; qkv.len() / shape.row()], lines.iter().map(run).collect());
    let batch = backend.upload_batch(&HostBatch { tokens, runs, ..HostBatch::default() });
    let mut gradient = rows(backend, &noise(21, qkv.len()), shape.row());
    let width = shape.heads * shape.head_dim;
    let (qkv_rows, d_out) = (rows(backend, qkv, shape.row()), rows(backend, d_out, width));
    backend.attention_backward(shape, &qkv_rows, &batch, &d_out, &mut gradient);
    read(backend, &gradient, qkv.len())
}

/// Attention of the last `count` rows to all rows.
fn last_rows(backend: &dyn Backend, shape: Attention, qkv: &[f32], count: usize) -> Vec<f32> {
    let width = shape.heads * shape.head_dim;
    let len = qkv.len() / shape.row();
    let (all, pages) = sequences(backend, &[len]);
    let mut last = HostBatch::default();
    last.push(&vec![0; count], len - count, &all.pages);
    let mut cache = cache(backend, shape, pages);
    backend.store_kv(
        shape,
        &rows(backend, qkv, shape.row()),
        &backend.upload_batch(&all),
        &mut cache,
        0,
    );
    let queries = rows(backend, &qkv[(len - count) * shape.row()..], shape.row());
    let mut out = rows(backend, &noise(24, count * width), width);
    backend.attention(shape, &queries, &backend.upload_batch(&last), &cache, 0, &mut out);
    read(backend, &out, count * width)
}

/// Numbers rounded to bf16, with zeros without a sign.
fn as_bf16(numbers: Vec<f32>) -> Vec<f32> {
    unsigned_zeros(rounded(numbers))
}
