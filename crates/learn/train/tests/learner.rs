//! An update's bits, however its passes are made.

use crate::support::{self, adapted, model};
use isentrope_budget::PassLimits;
use isentrope_kernels::SamplingMasks;
use isentrope_model::{
    ActivationCache, KvCache, Model, NamedTensor, Packed, Scores, Sequence, Step,
};
use isentrope_train::learner::{Coefficients, Learner, OnPolicy, UpdateBatch};
use isentrope_train::ranks::TrainingRanks;
use isentrope_train::settings::OptimizerSettings;

pub const TEMPERATURE: f32 = 0.9;

pub fn learner(model: Model, limits: PassLimits) -> Learner {
    let settings = OptimizerSettings { learning_rate: 0.01, ..Default::default() };
    support::learner(model, settings, limits, TrainingRanks::alone(1))
}

/// The bits of all trained weights.
pub fn weights(learner: &Learner) -> Vec<u32> {
    let model = &learner.model;
    let tensors = model.layout.trained().tensors();
    let values = |(id, parameter, tensor)| {
        let tensor: &NamedTensor = tensor;
        model.trained().tensor(&*model.backend, id, parameter, tensor)
    };
    tensors.flat_map(values).map(f32::to_bits).collect()
}

/// A loss that no pass can know alone: each target against the mean of all. It says nothing about
/// some sequences.
pub fn against_the_mean(scores: &Scores, sequences: &[Sequence<'_>]) -> Coefficients {
    let silent =
        sequences.iter().zip(SILENT).flat_map(|(s, silent)| vec![silent; s.target_count()]);
    let from_mean = |values: &[f32]| {
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let silent = silent.clone();
        values.iter().zip(silent).map(|(v, silent)| if silent { 0.0 } else { v - mean }).collect()
    };
    Coefficients {
        d_logprobs: from_mean(&scores.logprobs),
        d_entropies: from_mean(&scores.entropies),
        d_log_masses: from_mean(&scores.log_masses),
        ..Coefficients::default()
    }
}

/// Adds the gradient of [`against_the_mean`] to the learner's. Returns the scores.
pub fn accumulate(
    learner: &mut Learner,
    batch: UpdateBatch<'_>,
) -> isentrope_train::Result<Scores> {
    let forward = learner.forward(batch)?;
    let scores = forward.scores.clone();
    learner.backward(forward, &against_the_mean(&scores, batch.sequences))?;
    Ok(scores)
}

pub const SILENT: [bool; 7] = [false, true, false, false, true, true, false];

pub const ALL: [bool; 7] = [true; 7];
pub const NONE: [bool; 7] = [false; 7];

/// Feeds sequences to the model as a sampler would, and returns the slots of their inputs in the
/// learner's activation cache.
pub fn sample(learner: &mut Learner, sequences: &[Sequence<'_>]) -> Vec<Vec<u32>> {
    let Learner { model, activation_cache, .. } = learner;
    let activations = activation_cache.as_mut().unwrap();
    let mut slots = Vec::new();
    for sequence in sequences {
        let inputs = &sequence.tokens[..sequence.tokens.len() - 1];
        let pages = KvCache::pages_for(model, inputs.len());
        let mut cache = KvCache::new(model, pages).unwrap();
        let pages: Vec<u32> = (0..pages).filter_map(|_| cache.take()).collect();
        let state = cache.take_state();
        let of_sequence: Vec<u32> = inputs.iter().filter_map(|_| activations.take()).collect();
        for (position, slot) in of_sequence.iter().enumerate() {
            let mut step = Step::default();
            step.push(&inputs[position..=position], position, &pages, false);
            step.go_on_from_state(state);
            step.cache_activations(&[*slot]);
            model.step(&step, &mut cache, Some(&mut *activations));
        }
        slots.push(of_sequence);
    }
    slots
}

/// Tokens that truncated sampling has kept in the place of each target: for two in three, its token
/// and some others.
pub fn masks(sequences: &[Sequence<'_>]) -> SamplingMasks {
    let mut masks = SamplingMasks::default();
    for &target in sequences.iter().flat_map(|sequence| &sequence.tokens[sequence.score_from..]) {
        let near: Vec<u32> = (0..61).filter(|token| target.abs_diff(*token) % 5 == 0).collect();
        masks.push(if target % 3 == 0 { &[] } else { &near });
    }
    masks
}

/// Log-probs, entropies and log-masses of a sequence's targets, scored alone.
fn score(learner: &Learner, sequence: &Sequence<'_>) -> Scores {
    let sequence = std::slice::from_ref(sequence);
    learner.model.score(&Packed::new(sequence).with_masks(masks(sequence)), TEMPERATURE)
}

/// The scores of each sequence that is on-policy, and the slots of each whose activations are also
/// cached.
pub fn on_policy<'a>(
    learner: &Learner,
    sequences: &[Sequence<'_>],
    on_policy: [bool; 7],
    cached: [bool; 7],
    slots: &'a [Vec<u32>],
) -> Vec<Option<OnPolicy<'a>>> {
    let mut all = Vec::new();
    for (i, sequence) in sequences.iter().enumerate() {
        let scores = || score(learner, sequence);
        let slots = cached[i].then(|| &slots[i][..]);
        all.push(on_policy[i].then(|| OnPolicy { scores: scores(), slots }));
    }
    all
}

/// Three prompts of four tokens, and responses.
pub fn tokens() -> Vec<Vec<u32>> {
    let token = |s: u32, i: u32| (i * 7 + if i < 4 { s / 3 } else { s } * 13 + i * i) % 61;
    (0..7u32).map(|s| (0..9 + 5 * s).map(|i| token(s, i)).collect()).collect()
}

pub fn sequences(tokens: &[Vec<u32>]) -> Vec<Sequence<'_>> {
    tokens.iter().map(|tokens| Sequence { tokens, score_from: 4 }).collect()
}

#[test]
fn an_update_has_the_same_bits_however_its_passes_are_made() {
    updates_however_passes_are_made(|| model("qwen3", 2));
    updates_however_passes_are_made(|| adapted("qwen3", 2));
}

fn updates_however_passes_are_made(model: impl Fn() -> Model) {
    let tokens = tokens();
    let sequences = sequences(&tokens);
    let some = [true, false, true, true, false, true, true];
    let mut results = Vec::new();
    for micro_batch_tokens in [1, 40, 1000] {
        for tape_bytes in [0, 400_000, usize::MAX] {
            for (sampled, cached, idle) in [
                (NONE, NONE, NONE),
                (ALL, NONE, SILENT),
                (NONE, NONE, SILENT),
                (NONE, NONE, ALL),
                (ALL, ALL, NONE),
                (ALL, ALL, SILENT),
                (ALL, some, NONE),
                (some, some, NONE),
                (some, ALL, SILENT),
            ] {
                let orders: &[_] = match micro_batch_tokens {
                    40 => &[(false, false), (true, false), (true, true)],
                    _ => &[(false, false)],
                };
                for &(by_layer, offloads_inputs) in orders {
                    let limits = PassLimits {
                        micro_batch_tokens,
                        tape_bytes,
                        activation_slots: 200,
                        by_layer,
                        offloads_inputs,
                        weights_in_slices: false,
                    };
                    let mut learner = learner(model(), limits);
                    let before = weights(&learner);
                    let slots = sample(&mut learner, &sequences);
                    let on_policy = on_policy(&learner, &sequences, sampled, cached, &slots);
                    let masks = masks(&sequences);
                    let batch = UpdateBatch {
                        sequences: &sequences,
                        masks: &masks,
                        idle: &idle,
                        on_policy: &on_policy,
                        temperature: TEMPERATURE,
                        teacher: None,
                    };
                    accumulate(&mut learner, batch).unwrap();
                    assert!(learner.step(0.01).unwrap().is_finite());
                    results.push(weights(&learner));
                    assert_ne!(results[0], before);
                    let case = format!(
                        "{micro_batch_tokens} tokens in a pass, {tape_bytes} bytes, by layer: \
                         {by_layer}, offloading: {offloads_inputs}, on-policy: {sampled:?}, cached: {cached:?}, idle: {idle:?}"
                    );
                    assert!(results.last() == results.first(), "{case}");
                }
            }
        }
    }
}

/// Otherwise the test above could not tell whether it was.
#[test]
fn what_is_cached_is_what_is_used() {
    let tokens = tokens();
    let sequences = sequences(&tokens);
    let masks = masks(&sequences);
    let update = |cached| {
        let limits = PassLimits {
            micro_batch_tokens: 40,
            tape_bytes: usize::MAX,
            activation_slots: 200,
            by_layer: false,
            offloads_inputs: false,
            weights_in_slices: false,
        };
        let mut learner = learner(model("qwen3", 2), limits);
        let slots = sample(&mut learner, &sequences);
        let on_policy = on_policy(&learner, &sequences, ALL, cached, &slots);
        learner.activation_cache = Some(ActivationCache::new(&learner.model, 200).unwrap()); // zeros
        let batch = UpdateBatch {
            sequences: &sequences,
            masks: &masks,
            idle: &NONE,
            on_policy: &on_policy,
            temperature: TEMPERATURE,
            teacher: None,
        };
        accumulate(&mut learner, batch).unwrap();
        learner.step(0.01).unwrap();
        weights(&learner)
    };
    assert_ne!(update(ALL), update(NONE));
}
