//! Calls whose sizes do not fit each other are refused, because kernels rely on the sizes.

use crate::support::{cpu, no_weights, zeros};
use isentrope_kernels::{
    Attention, Backend, DeviceBatch, Grouped, HostBatch, Kind, Linear, RmsNorm, Role, Run,
    SamplingMasks, Turn,
};
use std::ops::Range;
use std::panic::catch_unwind;

/// Calls that a kernel could not survive, and a part of the message of their panic.
const REFUSED: [(&str, fn()); 16] = [
    ("2 rows of 8", || {
        let shape = Linear { inputs: 8, outputs: 8 };
        cpu().linear(shape, &zeros(1, 15), &no_weights(shape), None, &mut zeros(2, 8), 2);
    }),
    ("3 rows of 8", || {
        let shape = Linear { inputs: 8, outputs: 8 };
        cpu().linear(shape, &zeros(2, 8), &no_weights(shape), None, &mut zeros(3, 8), 3);
    }),
    // A target beyond the vocabulary.
    ("assertion", || {
        let shape = Linear { inputs: 2, outputs: 5 };
        let masks = SamplingMasks::default().into();
        cpu().head(
            shape,
            &zeros(1, 2),
            &no_weights(shape),
            cpu().upload_index(&[5]),
            masks,
            1.0,
            None,
        );
    }),
    ("overlap", || {
        let layout = Grouped { stride: 15, offset: 0, groups: 2, features: 8 };
        cpu().rms_norm(
            layout,
            RmsNorm::plain(1e-5),
            &zeros(6, 15),
            &zeros(1, 8),
            &mut zeros(6, 15),
            3,
        );
    }),
    // A position beyond the tables.
    ("assertion", || {
        let angles = cpu().allocate(Role::Exact(3, 4)).unwrap();
        let run = Run { row: 0, len: 1, position: 3, pages: 0..0 };
        let (batch, mut x) = (batch(1, &[run], &[]), zeros(1, 8));
        cpu().rope(Grouped::rows(8), &mut x, &angles, &angles, &batch, Turn::Forward);
    }),
    // A token in the padding of the table.
    ("vocabulary", || {
        let vocabulary = Linear { inputs: 3, outputs: 61 };
        let mut gradient = cpu().allocate(Role::Gradient(Kind::Matrix(vocabulary))).unwrap();
        cpu().add_embedding_rows(
            vocabulary,
            &zeros(1, 3),
            &cpu().upload_index(&[61]),
            &mut gradient,
        );
    }),
    // A token beyond the vocabulary.
    ("assertion", || {
        let vocabulary = Linear { inputs: 3, outputs: 61 };
        let batch = cpu().upload_batch(&HostBatch { tokens: vec![61], ..HostBatch::default() });
        cpu().embed(vocabulary, &no_weights(vocabulary), &batch, &mut zeros(1, 3));
    }),
    ("a slot beyond the end", || {
        let (row, slot) = (cpu().upload_index(&[0]), cpu().upload_index(&[2]));
        cpu().store_rows(&zeros(3, 20), &row, &mut zeros(2, 20), &slot);
    }),
    ("rows beyond the batch", || attend(&[run(39, 2, 0..1)], &[0])),
    ("positions beyond the sequence's pages", || attend(&[run(0, 17, 0..1)], &[0])),
    ("pages beyond the cache", || attend(&[run(0, 17, 0..2)], &[3, 4])),
    // Two runs that both store the first position of one sequence.
    ("runs share places in the cache", || attend(&[run(0, 3, 0..1), run(3, 1, 0..1)], &[2])),
    ("runs share rows", || attend(&[run(10, 5, 0..1), run(0, 11, 1..2)], &[0, 1])),
    ("runs share rows", || attend_backward(&[run(0, 9, 0..0), run(8, 1, 0..0)])),
    ("a run continues none before it", || {
        attend_backward(&[run(0, 3, 0..0), Run { row: 3, len: 4, position: 4, pages: 0..0 }]);
    }),
    // A run that is longer than the batch, of a gradient.
    ("rows beyond the batch", || attend_backward(&[run(0, 10, 0..0)])),
];

#[test]
fn calls_whose_sizes_do_not_fit_are_refused() {
    for (message, call) in REFUSED {
        let panic = catch_unwind(call).unwrap_err();
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.unwrap_or_else(|| panic.downcast_ref::<&str>().unwrap().to_string());
        assert!(text.contains(message), "{message}: {text}");
    }
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
        states: Vec::new(),
    };
    cpu().upload_batch(&host)
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
