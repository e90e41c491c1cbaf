//! The gradient of an update in shards, against the gradients of the shards alone, added here.

use crate::support::{self, limits, model};
use isentrope_kernels::SamplingMasks;
use isentrope_model::{Sequence, apart, units};
use isentrope_train::learner::{Coefficients, Learner, UpdateBatch};
use isentrope_train::ranks::TrainingRanks;
use isentrope_train::settings::OptimizerSettings;

const TEMPERATURE: f32 = 0.9;

fn learner(name: &str, micro_batch_tokens: usize, shards: usize) -> Learner {
    let limits = limits(micro_batch_tokens);
    support::learner(
        model(name, 2),
        OptimizerSettings::default(),
        limits,
        TrainingRanks::alone(shards),
    )
}

/// Eleven sequences; several share the four tokens of their prompt.
fn tokens() -> Vec<Vec<u32>> {
    let token = |s: u32, i: u32| (i * 7 + if i < 4 { s / 3 } else { s } * 13 + i * i) % 61;
    (0..11u32).map(|s| (0..7 + 3 * (s % 5)).map(|i| token(s, i)).collect()).collect()
}

/// Sequences about which the loss says nothing: a whole unit, and part of others.
const IDLE: [bool; 11] = [false, true, false, true, true, true, false, false, false, false, true];

fn sequences(tokens: &[Vec<u32>]) -> Vec<Sequence<'_>> {
    tokens.iter().map(|tokens| Sequence { tokens, score_from: 4 }).collect()
}

/// One coefficient per target that has nothing to do with any other.
fn coefficients(sequences: &[Sequence<'_>], idle: &[bool]) -> Coefficients {
    let of = |s: &Sequence<'_>, idle: bool, scale: f32| -> Vec<f32> {
        let each = s.tokens[s.score_from..].iter();
        each.map(|&token| if idle { 0.0 } else { scale * (token as f32 - 20.3) }).collect()
    };
    let all = |scale| {
        let each = sequences.iter().zip(idle);
        each.flat_map(|(sequence, &idle)| of(sequence, idle, scale)).collect()
    };
    Coefficients { d_logprobs: all(0.01), d_entropies: all(-0.003), ..Coefficients::default() }
}

/// Every number of the gradient, tensor after tensor.
fn gradient(learner: &mut Learner) -> Vec<f32> {
    learner
        .gradient()
        .unwrap()
        .into_iter()
        .flat_map(|tensor| (tensor.values)().unwrap().into_owned())
        .collect()
}

type Accumulate = fn(&mut Learner, &[Sequence<'_>], &[bool]);

fn reinforced(learner: &mut Learner, sequences: &[Sequence<'_>], idle: &[bool]) {
    let on_policy = vec![None; sequences.len()];
    let batch = UpdateBatch {
        sequences,
        masks: &SamplingMasks::default(),
        idle,
        on_policy: &on_policy,
        temperature: TEMPERATURE,
        teacher: None,
    };
    let forward = learner.forward(batch).unwrap();
    learner.backward(forward, &coefficients(sequences, idle)).unwrap();
}

fn fine_tuned(learner: &mut Learner, sequences: &[Sequence<'_>], _: &[bool]) {
    let idle = vec![false; sequences.len()];
    learner.accumulate_weighted(sequences, TEMPERATURE, &coefficients(sequences, &idle)).unwrap();
}

/// The shard of each sequence by the text of the contract.
fn shards_by_contract(units: &[(usize, usize)], shards: usize) -> Vec<usize> {
    let total: usize = units.iter().map(|&(_, weight)| weight).sum();
    let (mut before, mut of_sequences) = (0, Vec::new());
    for &(sequences, weight) in units {
        let shard = (before as f64 * shards as f64 / total as f64 + 1e-9).floor() as usize;
        of_sequences.extend(std::iter::repeat_n(shard.min(shards - 1), sequences));
        before += weight;
    }
    of_sequences
}

/// Adds in pairs of neighbours, until one is left.
fn added(mut sums: Vec<Vec<f32>>) -> Vec<f32> {
    while sums.len() > 1 {
        let pair = |pair: &[Vec<f32>]| match pair {
            [a, b] => a.iter().zip(b).map(|(a, b)| a + b).collect(),
            alone => alone[0].clone(),
        };
        sums = sums.chunks(2).map(pair).collect();
    }
    sums.remove(0)
}

fn assert_same(what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    let other = got.iter().zip(want).position(|(a, b)| a.to_bits() != b.to_bits());
    assert_eq!(other, None, "{what}");
}

/// A model with tied embeddings, and one whose head has weights of its own.
const MODELS: [&str; 2] = ["qwen3", "qwen3-untied"];

fn check(accumulate: Accumulate, units_of: fn(&[Sequence<'_>]) -> Vec<(usize, usize)>) {
    let tokens = tokens();
    let sequences = sequences(&tokens);
    for model in MODELS {
        let mut results = Vec::new();
        for shards in [1, 2, 3, 4, 5, 7, 8, 40] {
            let of = shards_by_contract(&units_of(&sequences), shards);
            let alone = (0..shards).map(|shard| {
                let own = |i: &usize| of[*i] == shard;
                let own: Vec<usize> = (0..sequences.len()).filter(own).collect();
                let idle: Vec<bool> = own.iter().map(|&i| IDLE[i]).collect();
                let own: Vec<Sequence<'_>> = own.iter().map(|&i| sequences[i]).collect();
                let mut learner = learner(model, 1000, 1);
                accumulate(&mut learner, &own, &idle);
                gradient(&mut learner)
            });
            let want = added(alone.collect());
            for micro_batch_tokens in [1, 30, 1000] {
                let mut learner = learner(model, micro_batch_tokens, shards);
                // The second time, what is left of the first must not show.
                for time in 0..2 {
                    accumulate(&mut learner, &sequences, &IDLE);
                    let what = format!(
                        "{model}, {shards} shards, {micro_batch_tokens} tokens, time {time}"
                    );
                    assert_same(&what, &gradient(&mut learner), &want);
                    assert_same(&what, &gradient(&mut learner), &want);
                    learner.step(0.0).unwrap();
                    if micro_batch_tokens == 30 {
                        learner.free_gradient();
                    }
                }
            }
            results.push(want);
        }
        assert!(
            results[1] != results[0],
            "two shards give other bits than one, or nothing was tried"
        );
    }
}

#[test]
fn the_gradient_of_an_update_is_that_of_its_shards_added_in_pairs() {
    check(reinforced, |sequences| {
        let mut rest = &IDLE[..];
        let weigh = |unit: isentrope_model::Unit| {
            let (own, others) = rest.split_at(unit.sequences);
            rest = others;
            (unit.sequences, if own.iter().all(|&idle| idle) { 0 } else { unit.tokens })
        };
        units(sequences).into_iter().map(weigh).collect()
    });
}

#[test]
fn so_is_that_of_examples() {
    check(fine_tuned, |sequences| {
        apart(sequences).into_iter().map(|unit| (unit.sequences, unit.tokens)).collect()
    });
}
