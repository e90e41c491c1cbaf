//! A response does not depend on responses sampled beside it, nor on how little memory there is.

use crate::device::Trial;
use crate::models::{FAMILIES, bits};
use crate::properties;
use crate::requests::{
    ResponseId, alone, check_free_pages, exact, request, requests, run, run_apart, run_turns,
    setting,
};
use isentrope_model::{
    ActivationCache, Derivatives, Gradient, Model, Packed, Scores, Sequence, Tape, TapeKind,
};
use isentrope_rollout::{Completion, Engine, Key, Request, ResponseMasks, Sampling};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

properties!(
    responses_are_those_of_each_request_alone,
    a_sample_does_not_depend_on_how_many_there_are,
    keys_decide_what_is_drawn,
    responses_that_go_on_elsewhere_are_those_that_stay,
    cached_activations_are_what_a_pass_computes,
    cached_activations_of_several_turns_are_what_a_pass_computes
);

/// Models that sample.
fn sampled() -> impl Strategy<Value = &'static str> {
    let mut names = FAMILIES.to_vec();
    let some = ["qwen3", "qwen3 with an adapter", "qwen3-moe", "qwen3.5"];
    names.retain(|name| some.contains(name));
    prop::sample::select(names)
}

fn responses_are_those_of_each_request_alone(trial: &Trial) {
    proptest!(trial.cases(96), |(
        name in sampled(),
        requests in requests(trial),
        setting in setting(),
        order in any::<Index>(),
    )| {
        let model = trial.model(name);
        let limits = setting.limits(trial, model, &requests);
        let mut engine = setting.engine(model, limits);
        let together = run(&mut engine, limits, &requests);
        check_alone(model, &requests, &together)?;
        // In another order, and on an engine that has been used: nothing of the first round remains
        // in it.
        let mut rotated = requests.clone();
        let by = order.index(requests.len());
        rotated.rotate_left(by);
        for ((i, sample), completion) in run(&mut engine, limits, &rotated) {
            let original = (i + by) % requests.len();
            prop_assert_eq!(exact(&completion), exact(&together[&(original, sample)]));
        }
        check_free_pages(trial, model, &mut engine, limits);
    });
}

/// Checks that each completion is the one of its request alone.
fn check_alone(
    model: &Model,
    requests: &[Request],
    completions: &BTreeMap<ResponseId, Completion>,
) -> Result<(), TestCaseError> {
    for (i, request) in requests.iter().enumerate() {
        for (sample, expected) in alone(model, request).iter().enumerate() {
            let got = exact(&completions[&(i, sample)]);
            prop_assert_eq!(got, exact(expected), "request {} sample {}", i, sample);
        }
    }
    Ok(())
}

fn a_sample_does_not_depend_on_how_many_there_are(trial: &Trial) {
    let model = trial.model("qwen3");
    let sampling = Sampling { max_tokens: 40, ..Sampling::default() };
    let eight = alone(model, &request(&[3, 4, 5], 8, 0, sampling.clone()));
    let one = alone(model, &request(&[3, 4, 5], 1, 0, sampling));
    assert_eq!(exact(&one[0]), exact(&eight[0]));
    for (i, a) in eight.iter().enumerate() {
        assert!(eight[..i].iter().all(|b| a.tokens != b.tokens), "two samples are the same");
    }
}

fn keys_decide_what_is_drawn(trial: &Trial) {
    let model = trial.model("qwen3");
    let sampling = Sampling { max_tokens: 30, ..Sampling::default() };
    let of = |seed, step, prompt| {
        let key = Key { seed, step, prompt };
        let request = Request { key, ..request(&[3, 4], 1, 0, sampling.clone()) };
        alone(model, &request).remove(0).tokens
    };
    let base = of(1, 2, 3);
    assert_eq!(base, of(1, 2, 3));
    for other in [of(2, 2, 3), of(1, 3, 3), of(1, 2, 4), of(2, 1, 3)] {
        assert_ne!(base, other);
    }
}

/// Scores of a completion and the gradient of `sum(logprob - entropy / 3 - 0.7 log_mass)`, as bits.
fn gradient(model: &Model, (scores, tape): (Scores, Tape<'_>)) -> Vec<Vec<u32>> {
    let targets = scores.logprobs.len();
    let mut gradient = Gradient::zeros(model).unwrap();
    let [logprobs, entropies, log_masses] = [1.0, -1.0 / 3.0, -0.7].map(|by| vec![by; targets]);
    let derivatives = Derivatives {
        logprobs: &logprobs,
        entropies: &entropies,
        log_masses: &log_masses,
        ..Derivatives::default()
    };
    model.backward(tape, derivatives, &mut gradient);
    let sum = gradient.finish(model);
    let of = |(id, p, t)| sum.tensor(&*model.backend, id, p, t);
    let tensors = model.layout.trained().tensors().map(of);
    let all = [scores.logprobs, scores.entropies, scores.log_masses].into_iter().chain(tensors);
    all.map(|values| values.iter().map(|v| v.to_bits()).collect()).collect()
}

/// Enough slots for every activation of a case.
const ENOUGH: usize = 5000;

/// The slots of an activation cache.
fn slots() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0usize), 1usize..400, Just(ENOUGH)]
}

fn cached_activations_are_what_a_pass_computes(trial: &Trial) {
    proptest!(trial.cases(48), |(
        name in sampled(),
        requests in prop::collection::vec((requests(trial), any::<bool>()), 1..3),
        slots in slots(),
        setting in setting(),
    )| {
        let model = trial.model(name);
        let mut all = Vec::new();
        for (requests, cache_activations) in requests {
            all.extend(requests.into_iter().map(|r| Request { cache_activations, ..r }));
        }
        let requests = all;
        let limits = setting.limits(trial, model, &requests);
        let mut activation_cache = ActivationCache::new(model, slots).unwrap();
        let engine = setting.engine(model, limits);
        let mut engine = engine.caching_activations(Some(&mut activation_cache));
        let together = run(&mut engine, limits, &requests);
        let mut engine = Engine::new(model, None, limits).unwrap().drawing_behind(false);
        let without = run(&mut engine, limits, &requests);
        for ((request, sample), completion) in &together {
            prop_assert_eq!(exact(completion), exact(&without[&(*request, *sample)]));
            let is_cached = completion.activation_slots.is_some();
            let is_wanted = requests[*request].cache_activations;
            prop_assert!(slots < ENOUGH || is_cached == is_wanted, "there is room");
        }
        check_slots(model, &activation_cache, &requests, &together)?;
        check_free_slots(slots, &activation_cache, &together)?;
    });
}

fn cached_activations_of_several_turns_are_what_a_pass_computes(trial: &Trial) {
    proptest!(trial.cases(16), |(
        name in sampled(),
        requests in requests(trial),
        slots in slots(),
        setting in setting(),
    )| {
        let model = trial.model(name);
        // Turns are short.
        let eos_tokens = || (0..16).collect();
        let short = |request: Request| {
            let sampling = Sampling { eos_tokens: eos_tokens(), ..(*request.sampling).clone() };
            Request { sampling: Arc::new(sampling), ..request }
        };
        let requests: Vec<Request> = requests.into_iter().map(short).collect();
        let limits = setting.limits(trial, model, &requests);
        let mut activation_cache = ActivationCache::new(model, slots).unwrap();
        let engine = setting.engine(model, limits).keeping_stopped();
        let mut engine = engine.caching_activations(Some(&mut activation_cache));
        let together = run_turns(&mut engine, &requests);
        check_free_pages(trial, model, &mut engine, limits);
        let engine = Engine::new(model, None, limits).unwrap().drawing_behind(false);
        let without = run_turns(&mut engine.keeping_stopped(), &requests);
        for (place, completion) in &together {
            prop_assert_eq!(exact(completion), exact(&without[place]));
            prop_assert_eq!(&completion.given, &without[place].given);
            prop_assert!(slots < ENOUGH || completion.activation_slots.is_some(), "there is room");
        }
        check_slots(model, &activation_cache, &requests, &together)?;
        check_free_slots(slots, &activation_cache, &together)?;
    });
}

/// If there is room, only completions hold slots.
fn check_free_slots(
    slots: usize,
    activation_cache: &ActivationCache,
    completions: &BTreeMap<ResponseId, Completion>,
) -> Result<(), TestCaseError> {
    let held = completions.values().filter_map(|completion| completion.activation_slots.as_ref());
    let held: BTreeSet<u32> = held.flatten().copied().collect();
    prop_assert!(slots < ENOUGH || activation_cache.free_slots() + held.len() == slots);
    Ok(())
}

/// The slots of completions hold a pass's activations of their tokens, and no slot has two rows.
fn check_slots(
    model: &Model,
    activation_cache: &ActivationCache,
    requests: &[Request],
    completions: &BTreeMap<ResponseId, Completion>,
) -> Result<(), TestCaseError> {
    let mut held = BTreeMap::new();
    for ((request, sample), completion) in completions {
        let Request { prompt, cache_activations, sampling, .. } = &requests[*request];
        let Some(slots) = &completion.activation_slots else { continue };
        prop_assert!(cache_activations);
        let tokens = [&prompt[..], &completion.tokens].concat();
        prop_assert_eq!(slots.len(), tokens.len() - 1);
        for (position, &slot) in slots.iter().enumerate() {
            let row = (*request, if position < prompt.len() { 0 } else { 1 + sample }, position);
            prop_assert_eq!(*held.entry(slot).or_insert(row), row, "a slot with two rows");
        }
        let ResponseMasks { tokens: masks, log_masses } =
            completion.masks.clone().unwrap_or_default();
        let pack = || {
            let sequence = Sequence { tokens: &tokens, score_from: prompt.len() };
            Packed::new(&[sequence]).with_masks(masks.clone())
        };
        let temperature = if sampling.temperature > 0.0 { sampling.temperature } else { 1.0 };
        let mut tape = model.tape_from_cache(pack(), temperature, activation_cache, &[slots], None);
        let from_cache = (tape.read_scores(model), tape);
        let passed = model.forward(pack(), temperature, TapeKind::Activations);
        prop_assert!(log_masses.is_empty() || bits(&passed.0.log_masses) == bits(&log_masses));
        prop_assert!(gradient(model, from_cache) == gradient(model, passed));
    }
    Ok(())
}

fn responses_that_go_on_elsewhere_are_those_that_stay(trial: &Trial) {
    let moves = (0usize..20, 0usize..2, 1usize..6, any::<Index>());
    proptest!(trial.cases(96), |(
        name in sampled(),
        requests in requests(trial),
        settings in [setting(), setting()],
        slots in slots(),
        moves in prop::collection::vec(moves, 1..30),
    )| {
        let model = trial.model(name);
        let limits = settings.map(|setting| setting.limits(trial, model, &requests));
        let mut activation_cache = ActivationCache::new(model, slots).unwrap();
        let [first, second] = [0, 1].map(|i| settings[i].engine(model, limits[i]));
        let mut engines = [first.caching_activations(Some(&mut activation_cache)), second];
        let together = run_apart(&mut engines, &requests, &moves);
        for (engine, limits) in engines.iter_mut().zip(limits) {
            check_free_pages(trial, model, engine, limits);
        }
        drop(engines);
        check_alone(model, &requests, &together)?;
        check_slots(model, &activation_cache, &requests, &together)?;
    });
}
