//! Attention against the reference, and the layout of its cache.

use crate::reference;
use crate::serve::{LAYER, PAGE, Sequences};
use crate::support::{POISON, assert_bits, assert_close, blank, cpu, download, noise, upload, wide, zeros};
use isentrope_kernels::{Attention, Backend, CpuBatch, HostBatch, Role, Run};

/// (heads, key-value heads): one head, MHA, GQA, MQA, a group larger than a tile.
const HEADS: [(usize, usize); 6] = [(1, 1), (3, 3), (4, 2), (6, 2), (5, 1), (28, 1)];

fn shapes() -> Vec<Attention> {
    let mut shapes = Vec::new();
    for (i, head_dim) in [2, 10, 16, 24, 64, 80].into_iter().enumerate() {
        for (j, (heads, kv_heads)) in HEADS.into_iter().enumerate() {
            // Windows of one key, within a page, across pages and beyond the sequence take turns.
            let window = [None, Some(1), Some(3), Some(8), Some(40), Some(5000)][(i + j) % 6];
            shapes.push(Attention { heads, kv_heads, head_dim, window, scale: (head_dim as f32).powf(-0.5) });
        }
    }
    shapes
}

fn lens(shape: Attention) -> &'static [usize] {
    if shape.heads * shape.head_dim > 500 { &[1, 17, 7] } else { &[1, 5, 6, 7, 13, 16, 100, 33] }
}

#[test]
fn forward() {
    for shape in shapes() {
        let sequences = Sequences::new(shape, lens(shape), 1);
        for (qkv, got) in sequences.qkv.iter().zip(sequences.serve_whole(cpu())) {
            let want = reference::attention(shape, &wide(qkv));
            assert_close(&format!("{shape:?}, {} tokens", want.len()), &got, &want, 2e-6);
        }
    }
}

#[test]
fn backward() {
    for shape in shapes() {
        let sequences = Sequences::new(shape, lens(shape), 1);
        let width = shape.heads * shape.head_dim;
        let d_out: Vec<Vec<f32>> =
            (0..).zip(lens(shape)).map(|(i, len)| noise(50 + i, len * width)).collect();
        let gradients = sequences.backward(cpu(), &d_out);
        for ((qkv, d_out), got) in sequences.qkv.iter().zip(&d_out).zip(gradients) {
            let want = reference::attention_backward(shape, &wide(qkv), &wide(d_out));
            let what = format!("{shape:?}, {} tokens", want.len() / shape.row());
            // Queries and keys have gradients far smaller than values: each part is held to its own size.
            let queries = shape.heads * shape.head_dim;
            for (part, at) in [
                ("scores", 0..shape.row() - shape.kv_heads * shape.head_dim),
                ("values", queries..shape.row()),
            ] {
                let got: Vec<f32> =
                    got.chunks(shape.row()).flat_map(|r| r[at.clone()].iter().copied()).collect();
                let want: Vec<f64> =
                    want.chunks(shape.row()).flat_map(|r| r[at.clone()].iter().copied()).collect();
                if shape.window != Some(1) && want.len() > at.len() {
                    let tolerance = 5e-6 * ((shape.heads / shape.kv_heads) as f64).sqrt();
                    assert_close(&format!("{part} of {what}"), &got, &want, tolerance);
                } else {
                    // One visible key: its weight is 1 whatever the score, whose gradient is rounding noise.
                    let error =
                        got.iter().zip(&want).map(|(&g, w)| (f64::from(g) - w).abs()).fold(0.0, f64::max);
                    assert!(error < 1e-5, "{part} of {what}: {error:.1e}");
                }
            }
        }
    }
}

/// Rows that several sequences begin with get a gradient from all of them.
#[test]
fn backward_of_a_shared_beginning() {
    for shape in shapes() {
        let (row, width) = (shape.row(), shape.heads * shape.head_dim);
        let beginning = 19;
        let lens = [beginning, 24, 3, 40];
        let total: usize = lens.iter().sum();
        let (qkv, d_out) = (noise(1, total * row), noise(2, total * width));
        let mut runs = Vec::new();
        for (i, len) in lens.into_iter().enumerate() {
            let at = runs.last().map_or(0, |run: &Run| run.row + run.len);
            runs.push(Run { row: at, len, position: if i == 0 { 0 } else { beginning }, pages: 0..0 });
        }
        let mut d_qkv = blank(cpu(), total, row);
        let (device_qkv, device_d) = (upload(cpu(), row, &qkv), upload(cpu(), width, &d_out));
        cpu().attention_backward(shape, &device_qkv, &batch(total, &runs, &[]), &device_d, &mut d_qkv);
        let got = download(&d_qkv, total * row);

        // The sum over whole sequences, where what comes back to the beginning itself counts once.
        let mut want = vec![0.0; total * row];
        for (i, run) in runs.iter().enumerate() {
            let whole = |x: &[f32], features: usize| {
                let own = &x[run.row * features..(run.row + run.len) * features];
                wide(&if i == 0 { own.to_vec() } else { [&x[..beginning * features], own].concat() })
            };
            let mut d_out = whole(&d_out, width);
            if i > 0 {
                d_out[..beginning * width].fill(0.0);
            }
            let part = reference::attention_backward(shape, &whole(&qkv, row), &d_out);
            let rows = (0..if i == 0 { 0 } else { beginning }).chain(run.row..run.row + run.len);
            for (r, part) in rows.zip(part.chunks(row)) {
                want[r * row..(r + 1) * row].iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
            }
        }
        let tolerance = 1e-5 * ((shape.heads / shape.kv_heads) as f64).sqrt();
        assert_close(&format!("{shape:?}"), &got, &want, tolerance);
    }
}

#[test]
#[should_panic(expected = "a run continues none before it")]
fn runs_that_leave_a_gap_are_refused() {
    let shape = Attention { heads: 1, kv_heads: 1, head_dim: 16, window: None, scale: 1.0 };
    let (cpu, later) = (cpu(), Run { row: 3, len: 4, position: 4, pages: 0..0 });
    let (qkv, d_out) = (zeros(cpu, 9, shape.row()), zeros(cpu, 9, 16));
    let runs = batch(9, &[run(0, 3, 0..0), later], &[]);
    cpu.attention_backward(shape, &qkv, &runs, &d_out, &mut zeros(cpu, 9, 48));
}

/// Scores of hundreds: all weight on one key, the others underflow.
#[test]
fn steep_scores() {
    let shape = Attention { heads: 2, kv_heads: 1, head_dim: 16, window: None, scale: 40.0 };
    let sequences = Sequences::new(shape, &[50, 3], 9);
    for (qkv, got) in sequences.qkv.iter().zip(sequences.serve_whole(cpu())) {
        let want = reference::attention(shape, &wide(qkv));
        // A score of 600 is rounded to within 6e-5, and its exponential by as much.
        assert_close("steep", &got, &want, 5e-4);
    }
}

/// A page is keys `[kv heads, head_dim, 16]`, then values `[kv heads, 16, head_dim padded with zeros to 16]`; what
/// no position has filled stays as it was.
#[test]
fn cache_layout() {
    for (kv_heads, head_dim) in [(1, 2), (2, 10), (3, 16), (2, 24)] {
        let shape = Attention { heads: 2 * kv_heads, kv_heads, head_dim, window: None, scale: 1.0 };
        let sequences = Sequences::new(shape, &[1, 37, 16], 3);
        let pieces = [(0, 0..1), (1, 0..37), (2, 3..11)];
        let (qkv, runs) = sequences.batch(&pieces);
        let mut cache = sequences.cache(cpu());
        let batch = cpu().batch(&sequences.described(qkv.len() / shape.row(), &runs));
        cpu().store_kv(shape, &upload(cpu(), shape.row(), &qkv), &batch, &mut cache, LAYER);
        let padded = head_dim.next_multiple_of(16);
        let page_len = cpu().bytes(Role::Cache { shape, layers: 1, pages: 1 }) / 4;
        let mut want = vec![POISON; (LAYER + 1) * sequences.capacity * page_len];
        let layer = &mut want[LAYER * sequences.capacity * page_len..];
        for (sequence, positions) in pieces {
            for position in positions {
                let entry = sequences.pages[sequence].start + position / PAGE;
                let page = &mut layer[sequences.table[entry] as usize * page_len..][..page_len];
                let row = &sequences.qkv[sequence][position * shape.row()..][..shape.row()];
                let slot = position % PAGE;
                for head in 0..kv_heads {
                    let value = kv_heads * head_dim * PAGE + (head * PAGE + slot) * padded;
                    page[value..value + padded].fill(0.0);
                    for d in 0..head_dim {
                        page[(head * head_dim + d) * PAGE + slot] = row[(2 * kv_heads + head) * head_dim + d];
                        page[value + d] = row[(3 * kv_heads + head) * head_dim + d];
                    }
                }
            }
        }
        assert_bits(&format!("{shape:?}"), &cache, &want);
    }
}

#[test]
fn empty_batches_and_runs() {
    let shape = Attention { heads: 2, kv_heads: 1, head_dim: 10, window: Some(3), scale: 1.0 };
    let sequences = Sequences::new(shape, &[20, 5], 1);
    let whole = sequences.serve_whole(cpu());
    let pieces = vec![vec![], vec![(1, 0..0), (0, 0..20)], vec![(0, 20..20), (1, 0..5)]];
    for (got, want) in sequences.serve(cpu(), &pieces).iter().zip(&whole) {
        assert_bits("with empty runs", got, want);
    }
    assert!(Sequences::new(shape, &[], 1).backward(cpu(), &[]).is_empty());
}

fn run(row: usize, len: usize, pages: std::ops::Range<usize>) -> Run {
    Run { row, len, position: 0, pages }
}

fn batch(rows: usize, runs: &[Run], table: &[u32]) -> CpuBatch {
    let host =
        HostBatch { tokens: vec![0; rows], runs: runs.to_vec(), table: table.to_vec(), copied: Vec::new() };
    cpu().batch(&host)
}

fn attend(runs: &[Run], table: &[u32]) {
    let shape = Attention { heads: 1, kv_heads: 1, head_dim: 16, window: None, scale: 1.0 };
    let cpu = cpu();
    let cache = cpu.allocate(Role::Cache { shape, layers: 1, pages: 4 }).unwrap();
    let (qkv, batch) = (zeros(cpu, 40, shape.row()), batch(40, runs, table));
    cpu.attention(shape, &qkv, &batch, &cache, 0, &mut zeros(cpu, 40, 16));
}

#[test]
#[should_panic(expected = "rows beyond the batch")]
fn rows_beyond_the_batch_are_refused() {
    attend(&[run(39, 2, 0..1)], &[0]);
}

#[test]
#[should_panic(expected = "positions beyond the sequence's pages")]
fn positions_without_a_page_are_refused() {
    attend(&[run(0, 17, 0..1)], &[0]);
}

#[test]
#[should_panic(expected = "pages beyond the cache")]
fn pages_beyond_the_cache_are_refused() {
    attend(&[run(0, 17, 0..2)], &[3, 4]);
}

/// Two runs of one sequence that both say what stands at its first position.
#[test]
#[should_panic(expected = "runs share places in the cache")]
fn runs_that_share_places_in_the_cache_are_refused() {
    attend(&[run(0, 3, 0..1), run(3, 1, 0..1)], &[2]);
}

/// Pages are copied in every layer, and nothing else is touched.
#[test]
fn pages_are_copied() {
    let shape = Attention { heads: 2, kv_heads: 1, head_dim: 10, window: None, scale: 1.0 };
    let role = |pages| Role::Cache { shape, layers: 3, pages };
    let (page, mut cache) = (cpu().bytes(role(1)) / 3 / 4, cpu().buffer(role(5)));
    let before = noise(1, 3 * 5 * page);
    cache.copy_from_slice(&before);
    cpu().copy_pages(shape, &mut cache, &[(4, 0), (1, 3)]);
    let mut want = before.clone();
    for layer in want.chunks_mut(5 * page) {
        layer.copy_within(4 * page.., 0);
        layer.copy_within(page..2 * page, 3 * page);
    }
    assert_bits("pages", &cache, &want);
}

#[test]
#[should_panic(expected = "runs share rows")]
fn runs_that_share_rows_are_refused() {
    attend(&[run(10, 5, 0..1), run(0, 11, 1..2)], &[0, 1]);
}

#[test]
#[should_panic(expected = "runs share rows")]
fn gradients_of_runs_that_share_rows_are_refused() {
    let shape = Attention { heads: 1, kv_heads: 1, head_dim: 16, window: None, scale: 1.0 };
    let cpu = cpu();
    let (qkv, d_out) = (zeros(cpu, 9, shape.row()), zeros(cpu, 9, 16));
    let runs = batch(9, &[run(0, 9, 0..0), run(8, 1, 0..0)], &[]);
    cpu.attention_backward(shape, &qkv, &runs, &d_out, &mut zeros(cpu, 9, 48));
}
