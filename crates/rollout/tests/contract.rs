//! What the engine promises: a response is what it would be alone, whatever is sampled beside it and however
//! little memory there is; everything submitted finishes; what can never finish is refused.

mod common;

use common::{ROOMY, alone, model, request, run};
use isentrope_kernels::{Backend, Cpu};
use isentrope_model::{Gradient, Keep, KvCache, Model, Packed, Recording, Scores, Sequence, Tape};
use isentrope_rollout::{Completion, Engine, Error, FinishReason, Limits, Request, Sampling};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

const PAGE: usize = Cpu::PAGE;

static MODEL: LazyLock<Model<Cpu>> = LazyLock::new(|| model("qwen3"));

/// Pages that the engine needs for a request at the least: its prompt, one longest response, and where several
/// samples share a prompt that ends within a page, a copy of that page.
fn least_pages(request: &Request) -> usize {
    let positions = request.prompt.len() + request.sampling.max_tokens - 1;
    let copy = usize::from(request.samples > 1 && !request.prompt.len().is_multiple_of(PAGE));
    positions.div_ceil(PAGE) + copy
}

fn limits(pages: usize, sequences: usize, prefill_tokens: usize) -> Limits {
    Limits { cache_bytes: pages * KvCache::page_bytes(&MODEL), sequences, prefill_tokens }
}

/// A completion with every float as its bits, since equal floats may differ in the sign of zero.
fn exact(completion: &Completion) -> (Vec<u32>, [Vec<u32>; 3], FinishReason) {
    let bits = |floats: &[f32]| floats.iter().map(|f| f.to_bits()).collect::<Vec<_>>();
    let sampling = completion.sampling_logprobs.as_deref().unwrap_or_default();
    let floats = [bits(&completion.logprobs), bits(sampling), bits(&completion.entropies)];
    (completion.tokens.clone(), floats, completion.finish_reason)
}

fn samplings() -> impl Strategy<Value = Sampling> {
    let shapes = prop_oneof![
        Just(Sampling::default()),
        Just(Sampling { temperature: 0.0, ..Sampling::default() }),
        Just(Sampling { temperature: 0.8, top_p: 0.9, ..Sampling::default() }),
        Just(Sampling { top_k: 7, min_p: 0.05, ..Sampling::default() }),
        Just(Sampling { temperature: 1.5, repetition_penalty: 1.3, ..Sampling::default() }),
    ];
    (shapes, 1usize..50, any::<bool>()).prop_map(|(sampling, max_tokens, ends)| Sampling {
        max_tokens,
        eos_tokens: if ends { vec![2, 17, 40] } else { Vec::new() },
        ..sampling
    })
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    // Lengths on both sides of page boundaries, and prompts that repeat.
    let prompt = (prop_oneof![1usize..70, Just(PAGE), Just(2 * PAGE), Just(2 * PAGE + 1)], 0u32..5)
        .prop_map(|(len, salt)| (0..len as u32).map(|i| (i * 7 + salt * 11) % 61).collect::<Vec<_>>());
    let one = (prompt, 0usize..6, samplings());
    prop::collection::vec(one, 1..7).prop_map(|all| {
        let numbered = all.into_iter().enumerate();
        numbered
            .map(|(i, (prompt, samples, sampling))| request(&prompt, samples, i as u64, sampling))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn responses_are_those_of_each_request_alone(
        requests in requests(),
        spare_pages in prop_oneof![Just(0usize), 0usize..6, 6usize..200],
        sequences in prop_oneof![Just(1usize), 1usize..5, 5usize..40],
        prefill_tokens in prop_oneof![Just(1usize), 1usize..20, 20usize..300],
        order in any::<prop::sample::Index>(),
    ) {
        let least = requests.iter().map(least_pages).max().unwrap_or(1);
        let limits = limits(least + spare_pages, sequences, prefill_tokens);
        let mut engine = Engine::new(&MODEL, None, limits).unwrap();
        let together = run(&mut engine, limits, &requests);
        for (i, request) in requests.iter().enumerate() {
            for (sample, expected) in alone(&MODEL, request).iter().enumerate() {
                prop_assert_eq!(exact(&together[&(i, sample)]), exact(expected), "request {} sample {}", i, sample);
            }
        }
        // In another order, and on an engine that has been used: nothing of the first round remains in it.
        let mut rotated = requests.clone();
        let by = order.index(requests.len());
        rotated.rotate_left(by);
        for ((i, sample), completion) in run(&mut engine, limits, &rotated) {
            let original = (i + by) % requests.len();
            prop_assert_eq!(exact(&completion), exact(&together[&(original, sample)]));
        }
        // All pages are free again: a request that needs every one of them is not kept waiting.
        let pages = least + spare_pages;
        let all = request(&[1], 1, 99, Sampling { max_tokens: pages * PAGE, ..Sampling::default() });
        if pages * PAGE < MODEL.context() {
            run(&mut engine, limits, &[all]);
        }
    }
}

#[test]
fn a_sample_does_not_depend_on_how_many_there_are() {
    let sampling = Sampling { max_tokens: 40, ..Sampling::default() };
    let eight = alone(&MODEL, &request(&[3, 4, 5], 8, 0, sampling.clone()));
    let one = alone(&MODEL, &request(&[3, 4, 5], 1, 0, sampling));
    assert_eq!(exact(&one[0]), exact(&eight[0]));
    for (i, a) in eight.iter().enumerate() {
        assert!(eight[..i].iter().all(|b| a.tokens != b.tokens), "two samples are the same");
    }
}

#[test]
fn responses_wait_where_only_one_fits_at_a_time() {
    let sampling = Sampling { max_tokens: 4 * PAGE, ..Sampling::default() };
    let prompt: Vec<u32> = (0..PAGE as u32 + 3).collect();
    let requests: Vec<Request> = (0..4).map(|i| request(&prompt, 3, i, sampling.clone())).collect();
    let limits = limits(least_pages(&requests[0]), 64, 1024);
    let mut engine = Engine::new(&MODEL, None, limits).unwrap();
    for r in &requests {
        engine.submit(r.clone()).unwrap();
    }
    let (mut finished, mut most) = (0, 0);
    for _ in 0..10_000 {
        let events = engine.step().unwrap();
        finished += events.iter().filter(|e| matches!(e, isentrope_rollout::Event::Finished { .. })).count();
        most = most.max(engine.running());
        if engine.is_idle() {
            break;
        }
    }
    assert_eq!((finished, most), (12, 1));
}

#[test]
fn a_request_that_needs_all_memory_is_taken_and_one_page_more_is_refused() {
    for samples in [1, 3] {
        for prompt in [PAGE - 1, PAGE, PAGE + 1] {
            let prompt = vec![7; prompt];
            let sampling = Sampling { max_tokens: 3 * PAGE, ..Sampling::default() };
            let request = request(&prompt, samples, 0, sampling);
            let pages = least_pages(&request);
            let enough = limits(pages, 8, 1024);
            let together =
                run(&mut Engine::new(&MODEL, None, enough).unwrap(), enough, std::slice::from_ref(&request));
            assert_eq!(together.len(), samples);
            let mut engine = Engine::new(&MODEL, None, limits(pages - 1, 8, 1024)).unwrap();
            let message = engine.submit(request.clone()).unwrap_err().to_string();
            assert!(message.contains("keys and values") && message.contains("more memory"), "{message}");
            assert!(engine.is_idle());
        }
    }
}

#[test]
fn what_cannot_be_sampled_is_refused_and_nothing_is_queued() {
    let mut engine = Engine::new(&MODEL, None, ROOMY).unwrap();
    let fine = Sampling::default;
    let context = MODEL.context();
    for (prompt, sampling, part) in [
        (vec![], fine(), "prompt is empty"),
        (vec![1, 61], fine(), "token 61 at index 1"),
        (vec![u32::MAX], fine(), "token 4294967295 at index 0"),
        (vec![1; context], fine(), "no room for a response"),
        (vec![1; context + 1], fine(), "context"),
        (vec![1], Sampling { stop_strings: vec!["x".into()], ..fine() }, "need a tokenizer"),
        (vec![1], Sampling { temperature: -1.0, ..fine() }, "temperature is -1"),
        (vec![1], Sampling { temperature: f32::NAN, ..fine() }, "temperature is NaN"),
        (vec![1], Sampling { temperature: 1e-5, ..fine() }, "temperature is 0.00001"),
        (vec![1], Sampling { top_p: 0.0, ..fine() }, "top-p is 0"),
        (vec![1], Sampling { top_p: 1.1, ..fine() }, "top-p is 1.1"),
        (vec![1], Sampling { min_p: -0.1, ..fine() }, "min-p is -0.1"),
        (vec![1], Sampling { repetition_penalty: 0.0, ..fine() }, "repetition-penalty is 0"),
        (vec![1], Sampling { max_tokens: 0, ..fine() }, "max-tokens is 0"),
        (vec![1], Sampling { stop_strings: vec![String::new()], ..fine() }, "at least one character"),
    ] {
        let error = engine.submit(request(&prompt, 2, 0, sampling)).unwrap_err();
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
        assert!(matches!(error, Error::Prompt(_) | Error::Setting { .. } | Error::Model(_)));
        assert!(engine.is_idle());
    }
    assert_eq!(engine.step().unwrap(), []);
    assert_eq!(engine.submit(request(&[1], 0, 0, fine())).unwrap(), 0);
    assert!(engine.is_idle(), "no samples are wanted, so none is awaited");
}

#[test]
fn huge_limits_mean_to_the_end_of_the_context() {
    let prompt = vec![7; MODEL.context() - 3];
    let sampling = Sampling { max_tokens: usize::MAX, top_k: usize::MAX, ..Sampling::default() };
    for completion in alone(&MODEL, &request(&prompt, 2, 0, sampling)) {
        assert_eq!((completion.tokens.len(), completion.finish_reason), (3, FinishReason::Length));
    }
}

#[test]
fn stop_tokens_and_end_tokens_end_a_response_and_belong_to_it() {
    let free = Sampling { max_tokens: 60, ..Sampling::default() };
    let tokens = |sampling: Sampling| alone(&MODEL, &request(&[3, 4, 5], 1, 0, sampling)).remove(0);
    let whole = tokens(free.clone());
    assert_eq!((whole.tokens.len(), whole.finish_reason), (60, FinishReason::Length));
    let stop = whole.tokens[30];
    let first = whole.tokens.iter().position(|&t| t == stop).unwrap();
    for sampling in [
        Sampling { stop_tokens: vec![stop], ..free.clone() },
        Sampling { eos_tokens: vec![stop], ..free.clone() },
        Sampling { stop_tokens: vec![stop], eos_tokens: vec![stop], ignore_eos: true, ..free.clone() },
    ] {
        let cut = tokens(sampling);
        assert_eq!((&cut.tokens[..], cut.finish_reason), (&whole.tokens[..=first], FinishReason::Stop));
    }
    let ignored = tokens(Sampling { eos_tokens: vec![stop], ignore_eos: true, ..free });
    assert_eq!(exact(&ignored), exact(&whole));
}

#[test]
fn keys_decide_what_is_drawn() {
    let sampling = Arc::new(Sampling { max_tokens: 30, ..Sampling::default() });
    let of = |seed, step, prompt| {
        let key = isentrope_rollout::Key { seed, step, prompt };
        alone(
            &MODEL,
            &Request { key, prompt: vec![3, 4], samples: 1, sampling: sampling.clone(), record: false },
        )
        .remove(0)
        .tokens
    };
    let base = of(1, 2, 3);
    assert_eq!(base, of(1, 2, 3));
    for other in [of(2, 2, 3), of(1, 3, 3), of(1, 2, 4), of(2, 1, 3)] {
        assert_ne!(base, other);
    }
}

/// Scores of a completion and the gradient of `sum(logprob - entropy / 3)`, as bits.
fn gradient((scores, tape): (Scores, Tape<'_, Cpu>)) -> Vec<Vec<u32>> {
    let targets = scores.logprobs.len();
    let mut gradient = Gradient::zeros(&MODEL).unwrap();
    MODEL.backward(tape, &vec![1.0; targets], &vec![-1.0 / 3.0; targets], &mut gradient);
    let sum = gradient.finish(&MODEL);
    let of = |(id, p, t)| sum.tensor(&*MODEL.backend, id, p, t);
    let tensors = MODEL.layout.tensors().map(of);
    let all = [scores.logprobs, scores.entropies].into_iter().chain(tensors);
    all.map(|values| values.iter().map(|v| v.to_bits()).collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_recording_has_what_a_pass_computes(
        requests in prop::collection::vec((requests(), any::<bool>()), 1..3),
        slots in prop_oneof![Just(0usize), 1usize..400, Just(5000)],
        spare_pages in prop_oneof![Just(0usize), 0usize..6, 6usize..200],
        sequences in prop_oneof![Just(1usize), 1usize..5, 5usize..40],
        prefill_tokens in prop_oneof![Just(1usize), 1usize..20, 20usize..300],
    ) {
        let requests: Vec<Request> = requests
            .into_iter()
            .flat_map(|(some, record)| some.into_iter().map(move |r| Request { record, ..r }))
            .collect();
        let least = requests.iter().map(least_pages).max().unwrap_or(1);
        let limits = limits(least + spare_pages, sequences, prefill_tokens);
        let mut recording = Recording::new(&MODEL, slots).unwrap();
        let mut engine = Engine::new(&MODEL, None, limits).unwrap().recording(Some(&mut recording));
        let together = run(&mut engine, limits, &requests);
        let without = run(&mut Engine::new(&MODEL, None, limits).unwrap(), limits, &requests);
        let mut held = BTreeMap::new();
        for ((request, sample), completion) in &together {
            let Request { prompt, record, sampling, .. } = &requests[*request];
            prop_assert_eq!(exact(completion), exact(&without[&(*request, *sample)]));
            prop_assert!(slots < 5000 || completion.slots.is_some() == *record, "there is room");
            let Some(slots) = &completion.slots else { continue };
            prop_assert!(record);
            let tokens = [&prompt[..], &completion.tokens].concat();
            prop_assert_eq!(slots.len(), tokens.len() - 1);
            for (position, &slot) in slots.iter().enumerate() {
                let row = (*request, if position < prompt.len() { 0 } else { 1 + sample }, position);
                prop_assert_eq!(*held.entry(slot).or_insert(row), row, "a slot with two rows");
            }
            let pack = || Packed::new(&[Sequence { tokens: &tokens, score_from: prompt.len() }]);
            let temperature = if sampling.temperature > 0.0 { sampling.temperature } else { 1.0 };
            let recalled = MODEL.recall(pack(), temperature, &recording, &[slots]);
            prop_assert!(gradient(recalled) == gradient(MODEL.forward(pack(), temperature, Keep::Activations)));
        }
    }
}

/// Where not everything fits, what started last is given up, and what it held serves the others.
#[test]
fn a_full_recording_keeps_whole_responses() {
    let sampling = Sampling { max_tokens: 10, ..Sampling::default() };
    let requests = [request(&[3, 4, 5, 6], 4, 0, sampling)];
    let recorded = |slots: usize| -> Vec<bool> {
        let mut recording = Recording::new(&MODEL, slots).unwrap();
        let mut engine = Engine::new(&MODEL, None, ROOMY).unwrap().recording(Some(&mut recording));
        run(&mut engine, ROOMY, &requests).values().map(|completion| completion.slots.is_some()).collect()
    };
    assert_eq!(recorded(4 + 4 * 9), [true; 4]);
    assert_eq!(recorded(4 + 4 * 9 - 1), [true, true, true, false]);
    assert_eq!(recorded(4 + 2 * 9), [true, true, false, false]);
    assert_eq!(recorded(4), [false; 4]);
    assert_eq!(recorded(3), [false; 4]);
}
