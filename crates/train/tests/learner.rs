//! An update's bits, however its passes are made.

use isentrope_kernels::{Cpu, Isa};
use isentrope_model::checkpoint::{WeightDtype, WriteOptions};
use isentrope_model::{Model, Scores, Sequence};
use isentrope_train::learner::{Coefficients, Learner, PassLimits};
use isentrope_train::optimizer::Optimizer;
use isentrope_train::settings;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const TEMPERATURE: f32 = 0.9;

fn learner(limits: PassLimits) -> Learner<Cpu> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/fixtures/models/qwen3");
    let model = Model::load(&dir, Arc::new(Cpu::new(Isa::available()[0], 2).unwrap())).unwrap();
    let optimizer = Optimizer::new(&model, settings::Optimizer { learning_rate: 0.01, ..Default::default() });
    Learner::new(model, optimizer, limits)
}

fn weights(learner: &Learner<Cpu>) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let saved = dir.path().join("saved");
    let options = WriteOptions { dtype: WeightDtype::F32, max_shard_bytes: u64::MAX, carry_from: None };
    learner.model.save(&saved, options).unwrap();
    fs::read(saved.join("model.safetensors")).unwrap()
}

/// A loss that no pass can know alone: each target against the mean of all. It says nothing about some sequences.
fn against_the_mean(scores: &Scores, sequences: &[Sequence<'_>]) -> Coefficients {
    let silent = sequences.iter().zip(SILENT).flat_map(|(s, silent)| vec![silent; s.target_count()]);
    let from_mean = |values: &[f32]| {
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let silent = silent.clone();
        values.iter().zip(silent).map(|(v, silent)| if silent { 0.0 } else { v - mean }).collect()
    };
    Coefficients { d_logprobs: from_mean(&scores.logprobs), d_entropies: from_mean(&scores.entropies) }
}

const SILENT: [bool; 7] = [false, true, false, false, true, true, false];

#[test]
fn an_update_has_the_same_bits_however_its_passes_are_made() {
    let tokens: Vec<Vec<u32>> =
        (0..7u32).map(|s| (0..9 + 5 * s).map(|i| (i * 7 + s * 13 + i * i) % 61).collect()).collect();
    let sequences: Vec<_> = tokens.iter().map(|tokens| Sequence { tokens, score_from: 4 }).collect();
    let mut results = Vec::new();
    for micro_batch_tokens in [1, 40, 1000] {
        for tape_bytes in [0, 400_000, usize::MAX] {
            for (knows, idle) in [(false, [false; 7]), (true, SILENT), (false, SILENT), (false, [true; 7])] {
                let mut learner = learner(PassLimits { micro_batch_tokens, tape_bytes });
                let before = weights(&learner);
                let known = knows.then(|| learner.score(&sequences, TEMPERATURE));
                let loss = |scores: &Scores| (against_the_mean(scores, &sequences), ());
                learner.accumulate(&sequences, &idle, TEMPERATURE, known, loss);
                assert!(learner.step(0.01).unwrap().applied);
                results.push(weights(&learner));
                assert_ne!(results[0], before);
                let case = format!(
                    "{micro_batch_tokens} tokens in a pass, {tape_bytes} bytes, known: {knows}, idle: {idle:?}"
                );
                assert!(results.last() == results.first(), "{case}");
            }
        }
    }
}
