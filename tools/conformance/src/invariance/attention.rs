//! Attention bit for bit: the output of a position depends only on its sequence up to it.

use crate::data::{assert_bits, pieces};
use crate::device::{Device, Trial, width};
use crate::properties;
use crate::serve::{LAYER, Piece, Sequences};
use isentrope_kernels::{Attention, Role};
use proptest::prelude::*;

properties!(
    decoding_equals_prefill,
    variants,
    gradients_of_a_sequence_alone_and_in_a_batch,
    empty_batches_and_runs,
    pages_are_copied_in_every_layer,
    chunks_equal_whole_sequences
);

fn shape(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>) -> Attention {
    Attention { heads, kv_heads, head_dim, window, scale: (head_dim as f32).powf(-0.5) }
}

/// The gradient of a loss by the outputs of sequences of these lengths.
fn d_outs(device: &Device<'_>, shape: Attention, lens: &[usize]) -> Vec<Vec<f32>> {
    let role = |len| Role::Activation(len, width(shape));
    (0..).zip(lens).map(|(i, &len)| device.noise(role(len), 20 + i)).collect()
}

fn assert_all_bits(what: &str, got: &[Vec<f32>], want: &[Vec<f32>]) {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).for_each(|(got, want)| assert_bits(what, got, want));
}

fn decoding_equals_prefill(trial: &Trial) {
    let device = &trial.device();
    for shape in [
        shape(4, 2, 10, None),
        shape(6, 2, 64, Some(8)),
        shape(3, 1, 16, Some(1)),
        shape(2, 2, 80, None),
    ] {
        let lens = [70, 1, 33, 16];
        let sequences = Sequences::new(device, shape, &lens, 5);
        let whole = sequences.serve_whole(device);
        // Sequences join late and end early, so that each step is another batch.
        let steps: Vec<Vec<Piece>> = (0..100)
            .map(|step| {
                let running = (0..lens.len()).filter(|&s| step >= 3 * s && step - 3 * s < lens[s]);
                running.map(|s| (s, step - 3 * s..step - 3 * s + 1)).collect()
            })
            .collect();
        assert_all_bits(&format!("{shape:?}"), &sequences.serve(device, &steps), &whole);
    }
}

fn variants(trial: &Trial) {
    let first = &trial.device();
    for shape in [shape(4, 2, 24, None), shape(5, 1, 64, Some(20))] {
        let lens = [90, 5, 33];
        let sequences = Sequences::new(first, shape, &lens, 5);
        let d_out = d_outs(first, shape, &lens);
        let outputs = sequences.serve_whole(first);
        let gradients = sequences.backward(first, &d_out);
        for device in trial.devices().skip(1) {
            let what = device.name();
            assert_all_bits(what, &sequences.serve_whole(&device), &outputs);
            assert_all_bits(what, &sequences.backward(&device, &d_out), &gradients);
        }
    }
}

fn gradients_of_a_sequence_alone_and_in_a_batch(trial: &Trial) {
    let device = &trial.device();
    for shape in [shape(4, 2, 10, None), shape(3, 1, 64, Some(7))] {
        let lens = [40, 1, 77, 32];
        let sequences = Sequences::new(device, shape, &lens, 5);
        let d_out = d_outs(device, shape, &lens);
        let together = sequences.backward(device, &d_out);
        for (i, &len) in lens.iter().enumerate() {
            let alone = Sequences::new(device, shape, &[len], 5 + i as u64);
            assert_all_bits("alone", &alone.backward(device, &d_out[i..=i]), &together[i..=i]);
        }
    }
}

fn empty_batches_and_runs(trial: &Trial) {
    let device = &trial.device();
    let shape = Attention { heads: 2, kv_heads: 1, head_dim: 10, window: Some(3), scale: 1.0 };
    let sequences = Sequences::new(device, shape, &[20, 5], 1);
    let whole = sequences.serve_whole(device);
    let pieces = vec![vec![], vec![(1, 0..0), (0, 0..20)], vec![(0, 20..20), (1, 0..5)]];
    for (got, want) in sequences.serve(device, &pieces).iter().zip(&whole) {
        assert_bits("with empty runs", got, want);
    }
    assert!(Sequences::new(device, shape, &[], 1).backward(device, &[]).is_empty());
}

/// A sequence whose pages are copies of another's has the other's outputs, in every layer.
fn pages_are_copied_in_every_layer(trial: &Trial) {
    let device = &trial.device();
    let shape = shape(2, 1, 10, None);
    let len = 2 * trial.page();
    let sequences = Sequences::new(device, shape, &[len, len], 1);
    let mut copied = Sequences::new(device, shape, &[len, len], 1);
    // The copies stand where the second sequence stood.
    copied.qkv[1] = copied.qkv[0].clone();
    let pages: Vec<(u32, u32)> = sequences.ranges[0]
        .clone()
        .zip(sequences.ranges[1].clone())
        .map(|(from, to)| (sequences.pages[from], sequences.pages[to]))
        .collect();
    let whole = sequences.serve_whole(device);
    let (qkv, runs) = sequences.batch(&[(0, 0..len), (1, 0..len)]);
    let rows = qkv.len() / shape.row();
    let qkv = device.upload(Role::Activation(rows, shape.row()), &qkv);
    let batch = device.upload_batch(&sequences.described(rows, &runs));
    let mut cache = sequences.cache(device);
    let out_role = Role::Activation(rows, width(shape));
    for layer in 0..=LAYER {
        device.store_kv(shape, &qkv, &batch, &mut cache, layer);
    }
    device.copy_pages(shape, &mut cache, &pages);
    // Both places have the first sequence's queries, and the second's pages now hold the first's
    // keys and values.
    let (twice, _) = copied.batch(&[(0, 0..len), (1, 0..len)]);
    let twice = device.upload(Role::Activation(rows, shape.row()), &twice);
    for layer in 0..=LAYER {
        let mut out = device.blank(out_role);
        device.attention(shape, &twice, &batch, &cache, layer, &mut out);
        let out = device.download(out_role, &out);
        for run in &runs {
            let got = &out[run.row * width(shape)..][..len * width(shape)];
            assert_bits(&format!("layer {layer}"), got, &whole[0]);
        }
    }
}

/// Prefill in chunks cut anywhere, chunks of several sequences interleaved (several of one sequence
/// may share a batch), against each sequence whole and alone.
fn chunks_equal_whole_sequences(trial: &Trial) {
    let device = &trial.device();
    assert_chunks(device, shape(4, 2, 2, None), &[17], &[vec![1]], false, 0);
    proptest!(trial.cases(60), |(
        lens in prop::collection::vec(1usize..60, 1..4),
        cuts in prop::collection::vec(prop::collection::vec(0usize..60, 0..6), 3),
        joined in any::<bool>(),
        (heads, kv_heads) in prop::sample::select(vec![(1, 1), (2, 2), (4, 2), (7, 1)]),
        head_dim in prop::sample::select(vec![2usize, 10, 16, 24, 64, 80]),
        window in prop::option::of(prop::sample::select(vec![1usize, 3, 8, 17, 1000])),
        seed in 0u64..1000,
    )| {
        assert_chunks(device, shape(heads, kv_heads, head_dim, window), &lens, &cuts, joined, seed);
    });
}

fn assert_chunks(
    device: &Device<'_>,
    shape: Attention,
    lens: &[usize],
    cuts: &[Vec<usize>],
    joined: bool,
    seed: u64,
) {
    let sequences = Sequences::new(device, shape, lens, seed);
    let chunks: Vec<Vec<Piece>> = lens
        .iter()
        .enumerate()
        .map(|(s, &len)| pieces(len, &cuts[s]).into_iter().map(|range| (s, range)).collect())
        .collect();
    let batches: Vec<Vec<Piece>> = if joined {
        vec![chunks.concat()]
    } else {
        (0..7).map(|i| chunks.iter().filter_map(|c| c.get(i).cloned()).collect()).collect()
    };
    let got = sequences.serve(device, &batches);
    for (s, &len) in lens.iter().enumerate() {
        let alone = Sequences::new(device, shape, &[len], seed + s as u64).serve_whole(device);
        assert_bits("chunks", &got[s], &alone[0]);
    }
}
