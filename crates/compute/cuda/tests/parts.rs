//! Several blocks of threads work on a row of logits. The results have the CPU's bits, however
//! parts and blocks end: statistics, masks, slopes of the entropy, and draws.

use crate::support::{bits, cpu, seeded};
use isentrope_cuda::Dtype;
use isentrope_kernels::{Backend, Draw, Drawn, HeadScores, Kind, Linear, Role, SamplingMasks};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Rows of logits: one row of weights times each scale. A small scale makes rows flat, a large one
/// makes one token likely.
#[derive(Clone, Debug)]
struct Case {
    weights: Vec<f32>,
    scales: Vec<f32>,
    temperature: f32,
    /// Percentage of the tokens that a mask keeps.
    kept: u32,
    uniforms: Vec<f64>,
}

/// Just below 1, so that rounding may put the draw beyond the end.
const LARGEST: f64 = 1.0 - f64::EPSILON / 2.0;

/// Vocabularies that end within or at the end of a lane, of a block of 256 or 512 tokens, or of a
/// part of 4096.
fn vocabulary() -> impl Strategy<Value = usize> {
    let near = |n: usize| n.saturating_sub(2).max(1)..n + 3;
    prop_oneof![1..40_usize, near(256), near(512), near(4096), near(8192), 1..13_000_usize]
}

fn weights() -> impl Strategy<Value = Vec<f32>> {
    let of = |len: usize| {
        // Multiples of a sixteenth, so that several tokens may be the likeliest.
        let coarse = prop::collection::vec((-64..=64_i8).prop_map(|n| f32::from(n) / 16.0), len);
        let fine = prop::collection::vec(-4.0..4.0_f32, len);
        (prop_oneof![coarse, fine], 0..len, 0..=len)
    };
    // Impossible tokens lie together: none, a few, or whole blocks and parts, at the end or before
    // it.
    vocabulary().prop_flat_map(of).prop_map(|(mut weights, from, len)| {
        let impossible = if from > 0 { from..(from + len).min(weights.len()) } else { 0..0 };
        weights[impossible].fill(f32::NEG_INFINITY);
        weights
    })
}

fn case() -> impl Strategy<Value = Case> {
    let scale = prop_oneof![Just(1.0_f32), 0.01..8.0_f32, Just(200.0)];
    let temperature = prop_oneof![Just(1.0_f32), 0.3..2.0_f32];
    let uniform = prop_oneof![4 => 0.0..1.0_f64, 1 => Just(0.0), 1 => Just(LARGEST)];
    let uniforms = prop::collection::vec(uniform, 1..6);
    let whole = (weights(), prop::collection::vec(scale, 1..5), temperature, 0..100_u32, uniforms);
    whole.prop_map(|(weights, scales, temperature, kept, uniforms)| Case {
        weights,
        scales,
        temperature,
        kept,
        uniforms,
    })
}

impl Case {
    /// The bits of a backend's results for the rows in this range.
    fn on(&self, backend: &dyn Backend, rows: Range<usize>) -> Vec<Vec<u32>> {
        let vocabulary = self.weights.len();
        let shape = Linear { inputs: 1, outputs: vocabulary };
        let mut packed = backend.allocate(Role::Weight(Kind::Matrix(shape))).unwrap();
        backend.pack(Kind::Matrix(shape), 0, &self.weights, &mut packed);
        let mut x = backend.buffer(Role::Activation(rows.len(), 1));
        backend.write(&mut x, 0, &self.scales[rows.clone()]);
        // Any token of a row, and the mask has it.
        let targets: Vec<u32> = rows.clone().map(|row| (row * 7919 % vocabulary) as u32).collect();
        let mut masks = SamplingMasks::default();
        for (row, &target) in rows.clone().zip(&targets) {
            let is_kept = |&token: &u32| {
                token == target || token.wrapping_mul(0x9e37_79b9) >> 8 < self.kept * 0x28f5c
            };
            masks.push(&if row % 2 == 0 {
                (0..vocabulary as u32).filter(is_kept).collect()
            } else {
                Vec::new()
            });
        }
        let (index, masks) = (|| backend.upload_index(&targets), Arc::new(masks));
        let t = self.temperature;
        let slopes = backend.entropy_slopes(shape, &x, &packed, index(), masks.clone(), t).slopes;
        let mut statistics = backend.head(shape, &x, &packed, index(), masks, t, None);
        let HeadScores { logprobs, entropies, log_masses } = backend.scores(&mut statistics);
        let draw =
            |row: usize, temperature, uniform| Draw::at_temperature(temperature, row, uniform);
        let draws: Vec<Draw> = (0..rows.len())
            .flat_map(|row| {
                let sampled =
                    self.uniforms.iter().map(move |&uniform| draw(row, self.temperature, uniform));
                sampled.chain([draw(row, 0.0, 0.5)])
            })
            .collect();
        let drawn = backend.draw(shape, &x, &packed, &draws);
        let of_draw = |drawn: Option<Drawn>| {
            drawn.map_or([u32::MAX; 3], |drawn| {
                [drawn.token, drawn.logprob.to_bits(), drawn.entropy.to_bits()]
            })
        };
        let drawn = drawn.into_iter().flat_map(of_draw);
        let [slopes, logprobs, entropies, log_masses] =
            [slopes, logprobs, entropies, log_masses].map(|numbers| bits(&numbers));
        vec![slopes, logprobs, entropies, log_masses, drawn.collect()]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_in_parts_have_the_bits_of_the_cpu(case in case(), seed in any::<u64>()) {
        let rows = 0..case.scales.len();
        let on_cuda = case.on(&seeded(Dtype::F32, seed), rows.clone());
        prop_assert_eq!(on_cuda, case.on(&cpu(), rows));
    }
}
