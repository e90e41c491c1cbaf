//! The exact reverse KL to a teacher: value and gradient against sums over the whole vocabulary,
//! and an update's bits however its passes are made and on however many ranks.

use crate::learner::{
    ALL, NONE, SILENT, TEMPERATURE, against_the_mean, masks, on_policy, sample, sequences, tokens,
    weights,
};
use crate::ranks::on_ranks;
use crate::support::{self, adapted, limits, model};
use isentrope_budget::PassLimits;
use isentrope_kernels::SamplingMasks;
use isentrope_model::{Model, Packed, Sequence};
use isentrope_ranks::World;
use isentrope_train::learner::{Coefficients, Learner, OnPolicy, UpdateBatch, UpdateTeacher};
use isentrope_train::ranks::TrainingRanks;
use isentrope_train::settings::OptimizerSettings;
use std::sync::Arc;

/// The prompt of [`tokens`], and the teacher's.
const PROMPT: usize = 4;
const TAUGHT_PROMPT: usize = 9;

/// Sequences behind the prompts that the teacher is shown.
fn taught(tokens: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let prompt = |s: u32| (0..TAUGHT_PROMPT as u32).map(move |i| (i * 11 + s / 3 * 5) % 61);
    (0..).zip(tokens).map(|(s, own)| prompt(s).chain(own[PROMPT..].to_vec()).collect()).collect()
}

fn learner(model: Model, limits: PassLimits, ranks: TrainingRanks) -> Learner {
    let settings = OptimizerSettings { learning_rate: 0.01, ..Default::default() };
    support::learner(model, settings, limits, ranks)
}

/// The weights after an update with the divergence beside the other scores, and the divergences.
fn update(
    learner: &mut Learner,
    teacher: Option<&Model>,
    on_policy: &[Option<OnPolicy<'_>>],
) -> (Vec<u32>, Vec<f32>) {
    let tokens = tokens();
    let (sequences, taught) = (sequences(&tokens), taught(&tokens));
    let behind = |tokens| Sequence { tokens, score_from: TAUGHT_PROMPT };
    let taught: Vec<Sequence<'_>> = taught.iter().map(|tokens| behind(tokens)).collect();
    let masks = masks(&sequences);
    let batch = UpdateBatch {
        sequences: &sequences,
        masks: &masks,
        idle: &NONE,
        on_policy,
        temperature: TEMPERATURE,
        teacher: Some(UpdateTeacher { model: teacher, sequences: &taught }),
    };
    let forward = learner.forward(batch).unwrap();
    let derivatives = Coefficients {
        d_divergences: (0..forward.scores.logprobs.len()).map(slope).collect(),
        ..against_the_mean(&forward.scores, &sequences)
    };
    let divergences = learner.backward(forward, &derivatives).unwrap();
    assert!(learner.step(0.01).unwrap().is_finite());
    learner.make_whole().unwrap();
    (weights(learner), divergences)
}

/// The loss's derivative by the divergence at a target.
fn slope(target: usize) -> f32 {
    0.02 + 0.005 * (target % 7) as f32
}

/// The teacher has another family, or is the policy itself.
#[test]
fn an_update_has_the_same_bits_however_its_passes_are_made() {
    let of_passes = |policy: &dyn Fn() -> Model, teacher: Option<&Model>| {
        let mut results = Vec::new();
        let some = [true, false, true, true, false, true, true];
        for (micro_batch_tokens, tape_bytes) in
            [(1, 0), (1, usize::MAX), (40, 0), (40, 400_000), (1000, 0), (1000, usize::MAX)]
        {
            for (sampled, cached) in [(NONE, NONE), (ALL, NONE), (ALL, ALL), (some, SILENT)] {
                for (by_layer, offloads_inputs) in [(false, false), (true, false), (true, true)] {
                    let limits = PassLimits {
                        tape_bytes,
                        activation_slots: 200,
                        by_layer,
                        offloads_inputs,
                        ..limits(micro_batch_tokens)
                    };
                    let mut learner = learner(policy(), limits, TrainingRanks::alone(1));
                    let tokens = tokens();
                    let sequences = sequences(&tokens);
                    let slots = sample(&mut learner, &sequences);
                    let known = on_policy(&learner, &sequences, sampled, cached, &slots);
                    results.push(update(&mut learner, teacher, &known));
                    let case = format!(
                        "{micro_batch_tokens} tokens, {tape_bytes} bytes, by layer: {by_layer}, \
                         offloading: {offloads_inputs}, on-policy: {sampled:?}, cached: {cached:?}"
                    );
                    assert!(results.last() == results.first(), "{case}");
                }
            }
        }
        results.remove(0)
    };
    let frozen = of_passes(&|| model("qwen3", 2), Some(&model("llama-mqa", 1)));
    let own = of_passes(&|| model("qwen3", 2), None);
    assert!(frozen != own && own.1.iter().all(|divergence| *divergence >= -1e-6));
    of_passes(&|| adapted("qwen3", 2), Some(&model("qwen3", 2)));
}

#[test]
fn every_rank_has_the_bits_that_one_alone_would_have() {
    let (policy, other) = (|| model("qwen3-untied", 1), || model("qwen3-untied", 1));
    let on = |world: Arc<World>, limits: PassLimits, is_frozen: bool| {
        let ranks = TrainingRanks::new(world, 4).unwrap();
        let (mut learner, other) = (learner(policy(), limits, ranks), other());
        let first = update(&mut learner, Some(&other).filter(|_| is_frozen), &vec![None; 7]);
        // By the second update the policy is another than the one that it began as.
        (first, update(&mut learner, Some(&other).filter(|_| is_frozen), &vec![None; 7]))
    };
    for is_frozen in [true, false] {
        let alone = on(Arc::new(World::alone()), limits(40), is_frozen);
        assert!(alone.0 != alone.1);
        for (by_layer, weights_in_slices, tape_bytes) in
            [(false, false, usize::MAX), (true, false, usize::MAX), (true, true, 0)]
        {
            let limits = PassLimits { by_layer, weights_in_slices, tape_bytes, ..limits(40) };
            for count in [2, 4] {
                for of_rank in on_ranks(count, |world| on(world, limits, is_frozen)) {
                    assert!(of_rank == alone, "{count} ranks, {limits:?}, frozen: {is_frozen}");
                }
            }
        }
    }
}

/// Log-probs of all tokens behind these, among the first 61 of the model's.
fn distribution(model: &Model, behind: &[u32]) -> Vec<f64> {
    let texts: Vec<Vec<u32>> = (0..61).map(|token| [behind, &[token]].concat()).collect();
    let sequence = |tokens| Sequence { tokens, score_from: behind.len() };
    let packed = Packed::new(&texts.iter().map(|text| sequence(text)).collect::<Vec<_>>());
    let logprobs = model.score(&packed, TEMPERATURE).logprobs;
    let log_sum = logprobs.iter().map(|&l| f64::from(l).exp()).sum::<f64>().ln();
    logprobs.iter().map(|&l| f64::from(l) - log_sum).collect()
}

fn gradient(learner: &mut Learner) -> Vec<f64> {
    let tensors = learner.gradient().unwrap().into_iter();
    let values =
        |tensor: isentrope_model::checkpoint::Tensor<'_>| (tensor.values)().unwrap().to_vec();
    tensors.flat_map(values).map(f64::from).collect()
}

/// The gradient is that of the sampled token's form in the mean: the sum over all tokens v of
/// pi(v) (log pi(v) - log q(v)) grad log pi(v). The teacher's head has more tokens than the
/// policy's; q is over the policy's.
#[test]
fn value_and_gradient_are_sums_over_the_vocabulary() {
    let (all, teacher) = (tokens(), model("llama-mqa", 1));
    assert!(teacher.config.vocab_size > 61);
    let (tokens, behind) = (&all[..2], &taught(&all)[..2]);
    let sequences: Vec<Sequence<'_>> =
        tokens.iter().map(|tokens| Sequence { tokens, score_from: PROMPT }).collect();
    let taught: Vec<Sequence<'_>> =
        behind.iter().map(|tokens| Sequence { tokens, score_from: TAUGHT_PROMPT }).collect();
    let mut learner = learner(model("qwen3", 1), limits(1000), TrainingRanks::alone(1));
    let masks = SamplingMasks::default();
    let batch = UpdateBatch {
        sequences: &sequences,
        masks: &masks,
        idle: &[false; 2],
        on_policy: &[None, None],
        temperature: TEMPERATURE,
        teacher: Some(UpdateTeacher { model: Some(&teacher), sequences: &taught }),
    };
    let forward = learner.forward(batch).unwrap();
    let targets = forward.scores.logprobs.len();
    let derivatives = Coefficients {
        d_logprobs: vec![0.0; targets],
        d_entropies: vec![0.0; targets],
        d_divergences: (0..targets).map(slope).collect(),
        ..Coefficients::default()
    };
    let divergences = learner.backward(forward, &derivatives).unwrap();
    let ours = gradient(&mut learner);
    learner.free_gradient();

    let (mut texts, mut slopes, mut target) = (Vec::new(), Vec::new(), 0);
    for (own, its) in tokens.iter().zip(behind) {
        for place in PROMPT..own.len() {
            let own = &own[..place];
            let pi = distribution(&learner.model, own);
            let q = distribution(&teacher, &its[..place + TAUGHT_PROMPT - PROMPT]);
            let terms = pi.iter().zip(&q).map(|(pi, q)| pi.exp() * (pi - q));
            let expected: f64 = terms.clone().sum();
            let value = f64::from(divergences[target]);
            assert!((value - expected).abs() < 2e-6 && expected > 0.01, "{value} {expected}");
            texts.extend((0..61).map(|token| ([own, &[token]].concat(), place)));
            slopes.extend(terms.map(|term| (f64::from(slope(target)) * term) as f32));
            target += 1;
        }
    }
    let sampled: Vec<Sequence<'_>> =
        texts.iter().map(|(tokens, from)| Sequence { tokens, score_from: *from }).collect();
    let expectation = Coefficients {
        d_entropies: vec![0.0; slopes.len()],
        d_logprobs: slopes,
        ..Default::default()
    };
    learner.accumulate_weighted(&sampled, TEMPERATURE, &expectation).unwrap();
    let expected = gradient(&mut learner);
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let apart = norm(&mut ours.iter().zip(&expected).map(|(a, b)| a - b));
    let size = norm(&mut expected.iter().copied());
    assert!(apart < 2e-5 * size && size > 0.0, "{apart} of {size}");
}
