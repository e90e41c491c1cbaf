//! Calls whose sizes do not fit each other: the kernels behind them rely on what is checked here.

use crate::support::{cpu, no_weights, zeros};
use isentrope_kernels::{
    Attention, Backend, DeviceBatch, Grouped, HostBatch, Kind, Linear, Role, Run, SamplingMasks,
    Turn,
};
use std::ops::Range;

#[test]
#[should_panic(expected = "2 rows of 8")]
fn a_short_activation() {
    let shape = Linear { inputs: 8, outputs: 8 };
    cpu().linear(shape, &zeros(1, 15), &no_weights(shape), None, &mut zeros(2, 8), 2);
}

#[test]
#[should_panic(expected = "3 rows of 8")]
fn too_few_rows() {
    let shape = Linear { inputs: 8, outputs: 8 };
    cpu().linear(shape, &zeros(2, 8), &no_weights(shape), None, &mut zeros(3, 8), 3);
}

#[test]
#[should_panic(expected = "assertion")]
fn a_target_beyond_the_vocabulary() {
    let shape = Linear { inputs: 2, outputs: 5 };
    let masks = SamplingMasks::default().into();
    cpu().head(shape, &zeros(1, 2), &no_weights(shape), cpu().index(&[5]), masks, 1.0);
}

#[test]
#[should_panic(expected = "overlap")]
fn rows_of_a_norm_that_overlap() {
    let layout = Grouped { stride: 15, offset: 0, groups: 2, features: 8 };
    cpu().rms_norm(layout, 1e-5, &zeros(6, 15), &zeros(1, 8), &mut zeros(6, 15), 3);
}

#[test]
#[should_panic(expected = "assertion")]
fn a_position_beyond_the_tables() {
    let angles = cpu().allocate(Role::Exact(3, 4)).unwrap();
    let run = Run { row: 0, len: 1, position: 3, pages: 0..0 };
    cpu().rope(
        Grouped::rows(8),
        &mut zeros(1, 8),
        &angles,
        &angles,
        &batch(1, &[run], &[]),
        Turn::Forward,
    );
}

#[test]
#[should_panic(expected = "vocabulary")]
fn a_token_in_the_padding_of_the_table() {
    let vocabulary = Linear { inputs: 3, outputs: 61 };
    let mut gradient = cpu().allocate(Role::Gradient(Kind::Matrix(vocabulary))).unwrap();
    cpu().add_embedding_rows(vocabulary, &zeros(1, 3), &cpu().index(&[61]), &mut gradient);
}

#[test]
#[should_panic(expected = "assertion")]
fn a_token_beyond_the_vocabulary() {
    let vocabulary = Linear { inputs: 3, outputs: 61 };
    let batch = cpu().batch(&HostBatch { tokens: vec![61], ..HostBatch::default() });
    cpu().embed(vocabulary, &no_weights(vocabulary), &batch, &mut zeros(1, 3));
}

#[test]
#[should_panic(expected = "a slot beyond the end")]
fn rows_stored_beyond_the_end() {
    let (row, slot) = (cpu().index(&[0]), cpu().index(&[2]));
    cpu().store_rows(&zeros(3, 20), &row, &mut zeros(2, 20), &slot);
}

fn run(row: usize, len: usize, pages: Range<usize>) -> Run {
    Run { row, len, position: 0, pages }
}

fn batch(rows: usize, runs: &[Run], pages: &[u32]) -> DeviceBatch {
    let host = HostBatch {
        tokens: vec![0; rows],
        runs: runs.to_vec(),
        pages: pages.to_vec(),
        copied: Vec::new(),
    };
    cpu().batch(&host)
}

const ONE_HEAD: Attention =
    Attention { heads: 1, kv_heads: 1, head_dim: 16, window: None, scale: 1.0 };

fn attend(runs: &[Run], pages: &[u32]) {
    let cache = cpu().allocate(Role::Cache { shape: ONE_HEAD, layers: 1, pages: 4 }).unwrap();
    let (qkv, batch) = (zeros(40, ONE_HEAD.row()), batch(40, runs, pages));
    cpu().attention(ONE_HEAD, &qkv, &batch, &cache, 0, &mut zeros(40, 16));
}

fn attend_backward(runs: &[Run]) {
    let (qkv, d_out) = (zeros(9, ONE_HEAD.row()), zeros(9, 16));
    cpu().attention_backward(ONE_HEAD, &qkv, &batch(9, runs, &[]), &d_out, &mut zeros(9, 48));
}

#[test]
#[should_panic(expected = "rows beyond the batch")]
fn rows_beyond_the_batch() {
    attend(&[run(39, 2, 0..1)], &[0]);
}

#[test]
#[should_panic(expected = "positions beyond the sequence's pages")]
fn positions_without_a_page() {
    attend(&[run(0, 17, 0..1)], &[0]);
}

#[test]
#[should_panic(expected = "pages beyond the cache")]
fn pages_beyond_the_cache() {
    attend(&[run(0, 17, 0..2)], &[3, 4]);
}

/// Two runs of one sequence that both say what stands at its first position.
#[test]
#[should_panic(expected = "runs share places in the cache")]
fn runs_that_share_places_in_the_cache() {
    attend(&[run(0, 3, 0..1), run(3, 1, 0..1)], &[2]);
}

#[test]
#[should_panic(expected = "runs share rows")]
fn runs_that_share_rows() {
    attend(&[run(10, 5, 0..1), run(0, 11, 1..2)], &[0, 1]);
}

#[test]
#[should_panic(expected = "runs share rows")]
fn gradients_of_runs_that_share_rows() {
    attend_backward(&[run(0, 9, 0..0), run(8, 1, 0..0)]);
}

#[test]
#[should_panic(expected = "a run continues none before it")]
fn gradients_of_runs_that_leave_a_gap() {
    attend_backward(&[run(0, 3, 0..0), Run { row: 3, len: 4, position: 4, pages: 0..0 }]);
}
