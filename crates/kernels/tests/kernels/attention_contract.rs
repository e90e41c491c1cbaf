//! Attention bit for bit: the output of a position depends on its sequence up to it and on nothing else.

use crate::serve::{Piece, Sequences};
use crate::support::{assert_bits, cpu, every_cpu, noise, pieces};
use isentrope_kernels::Attention;
use proptest::prelude::*;

fn shape(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>) -> Attention {
    Attention { heads, kv_heads, head_dim, window, scale: (head_dim as f32).powf(-0.5) }
}

fn assert_all_bits(what: &str, got: &[Vec<f32>], want: &[Vec<f32>]) {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).for_each(|(got, want)| assert_bits(what, got, want));
}

#[test]
fn decoding_equals_prefill() {
    for shape in
        [shape(4, 2, 10, None), shape(6, 2, 64, Some(8)), shape(3, 1, 16, Some(1)), shape(2, 2, 80, None)]
    {
        let lens = [70, 1, 33, 16];
        let sequences = Sequences::new(shape, &lens, 5);
        let whole = sequences.serve_whole(cpu());
        // Sequences join late and end early, so that each step is another batch.
        let steps: Vec<Vec<Piece>> = (0..100)
            .map(|step| {
                let running = (0..lens.len()).filter(|&s| step >= 3 * s && step - 3 * s < lens[s]);
                running.map(|s| (s, step - 3 * s..step - 3 * s + 1)).collect()
            })
            .collect();
        assert_all_bits(&format!("{shape:?}"), &sequences.serve(cpu(), &steps), &whole);
    }
}

#[test]
fn instruction_sets_and_threads() {
    for shape in [shape(4, 2, 24, None), shape(5, 1, 64, Some(20))] {
        let lens = [90, 5, 33];
        let sequences = Sequences::new(shape, &lens, 5);
        let width = shape.heads * shape.head_dim;
        let d_out: Vec<Vec<f32>> = (0..).zip(lens).map(|(i, len)| noise(20 + i, len * width)).collect();
        let outputs = sequences.serve_whole(&every_cpu()[0]);
        let gradients = sequences.backward(&every_cpu()[0], &d_out);
        for cpu in every_cpu() {
            let what = format!("{}, {} threads", cpu.isa(), cpu.threads());
            assert_all_bits(&what, &sequences.serve_whole(cpu), &outputs);
            assert_all_bits(&what, &sequences.backward(cpu, &d_out), &gradients);
        }
    }
}

#[test]
fn gradients_of_a_sequence_alone_and_in_a_batch() {
    for shape in [shape(4, 2, 10, None), shape(3, 1, 64, Some(7))] {
        let lens = [40, 1, 77, 32];
        let sequences = Sequences::new(shape, &lens, 5);
        let width = shape.heads * shape.head_dim;
        let d_out: Vec<Vec<f32>> = (0..).zip(lens).map(|(i, len)| noise(20 + i, len * width)).collect();
        let together = sequences.backward(cpu(), &d_out);
        for (i, &len) in lens.iter().enumerate() {
            let alone = Sequences::new(shape, &[len], 5 + i as u64);
            assert_all_bits("alone", &alone.backward(cpu(), &d_out[i..=i]), &together[i..=i]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Prefill in chunks cut anywhere, chunks of several sequences interleaved (several of one sequence may share
    /// a batch), against each sequence whole and alone.
    #[test]
    fn chunks_equal_whole_sequences(
        lens in prop::collection::vec(1usize..60, 1..4),
        cuts in prop::collection::vec(prop::collection::vec(0usize..60, 0..6), 3),
        joined in any::<bool>(),
        (heads, kv_heads) in prop::sample::select(vec![(1, 1), (2, 2), (4, 2), (7, 1)]),
        head_dim in prop::sample::select(vec![2usize, 10, 16, 24, 64, 80]),
        window in prop::option::of(prop::sample::select(vec![1usize, 3, 8, 17, 1000])),
        seed in 0u64..1000,
    ) {
        let shape = shape(heads, kv_heads, head_dim, window);
        let sequences = Sequences::new(shape, &lens, seed);
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
        let got = sequences.serve(cpu(), &batches);
        for (s, &len) in lens.iter().enumerate() {
            let alone = Sequences::new(shape, &[len], seed + s as u64).serve_whole(cpu());
            assert_bits("chunks", &got[s], &alone[0]);
        }
    }
}
