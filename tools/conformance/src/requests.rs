//! Requests to a sampling engine, and checks of its events.

use crate::device::Trial;
use isentrope_kernels::SamplingMasks;
use isentrope_model::{KvCache, Model};
use isentrope_rollout::{
    Completion, Engine, Event, FinishReason, Key, Limits, PartialResponse, Request, ResponseMasks,
    Sampling,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A response's place: request and sample.
pub type ResponseId = (usize, usize);

pub fn request(prompt: &[u32], samples: usize, number: u64, sampling: Sampling) -> Request {
    let key = Key { seed: 11, step: 3, prompt: number };
    Request {
        key,
        prompt: prompt.to_vec(),
        samples: (0..samples).collect(),
        sampling: Arc::new(sampling),
        cache_activations: true,
    }
}

/// Enough memory for every test.
pub const ROOMY: Limits = Limits { cache_bytes: 32 << 20, sequences: 64, prefill_tokens: 1024 };

/// Submits requests and steps until nothing is left, checking that events add up.
pub fn run(
    engine: &mut Engine<'_>,
    limits: Limits,
    requests: &[Request],
) -> BTreeMap<ResponseId, Completion> {
    assert!(engine.is_idle());
    let ids: Vec<usize> = requests.iter().map(|r| engine.submit(r.clone()).unwrap()).collect();
    let mut tokens: BTreeMap<ResponseId, Vec<u32>> = BTreeMap::new();
    let mut finished = BTreeMap::new();
    let mut idle_steps = 0;
    while !engine.is_idle() {
        let events = engine.step().unwrap();
        assert!(engine.running() <= limits.sequences, "{} responses are running", engine.running());
        // A prompt may take one step per token without an event; everything else has events.
        idle_steps = if events.is_empty() { idle_steps + 1 } else { 0 };
        assert!(idle_steps <= 1000, "nothing happens any more");
        for event in events {
            match event {
                Event::NotFinite { .. } => panic!("logits are not finite: {event:?}"),
                Event::Token { request, sample, drawn, text } => {
                    assert_eq!(text, None, "there is no tokenizer");
                    let place = (ids.iter().position(|&id| id == request).unwrap(), sample);
                    assert!(!finished.contains_key(&place), "a token after the end of {place:?}");
                    tokens.entry(place).or_default().push(drawn.token);
                }
                Event::Finished { request, sample, completion } => {
                    let place = (ids.iter().position(|&id| id == request).unwrap(), sample);
                    assert_eq!(tokens.get(&place), Some(&completion.tokens));
                    assert_eq!(completion.logprobs.len(), completion.tokens.len());
                    assert_eq!(completion.entropies.len(), completion.tokens.len());
                    assert!(finished.insert(place, completion).is_none(), "{place:?} ended twice");
                }
            }
        }
    }
    assert_eq!(engine.running(), 0);
    let places =
        requests.iter().enumerate().flat_map(|(i, r)| r.samples.iter().map(move |&s| (i, s)));
    assert!(places.eq(finished.keys().copied()), "responses are missing");
    finished
}

/// Runs requests on an engine that keeps what stops. Some responses begin with given tokens, and
/// those that stop go on behind given tokens, for three turns at most.
pub fn run_turns(
    engine: &mut Engine<'_>,
    requests: &[Request],
) -> BTreeMap<ResponseId, Completion> {
    let given = |count: usize| (0..count as u32).map(|i| (i * 5 + 3) % 61).collect::<Vec<u32>>();
    let opened = |request: &Request, sample: usize| {
        let tokens = given((sample % 3 * 2).min(request.sampling.max_tokens - 1));
        let count = tokens.len();
        let mut opened = PartialResponse { tokens, ..PartialResponse::default() };
        if count > 0 {
            (opened.logprobs, opened.entropies) = (vec![0.0; count], vec![0.0; count]);
            opened.given.push(0..count);
            let mut masks = ResponseMasks { log_masses: vec![0.0; count], ..Default::default() };
            (0..count).for_each(|_| masks.tokens.push(&[]));
            opened.masks = request.sampling.records_kept.then_some(masks);
        }
        opened
    };
    for request in requests {
        let opened = request.samples.iter().map(|&sample| opened(request, sample)).collect();
        engine.submit_partial(request.clone(), opened).unwrap();
    }
    let mut finished = BTreeMap::new();
    while !engine.is_idle() {
        for event in engine.step().unwrap() {
            let Event::Finished { request, sample, completion } = event else { continue };
            if completion.finish_reason == FinishReason::Stop {
                let (length, turns) = (completion.tokens.len(), completion.given.turns(0).count());
                let next = given(1 + (request + sample + turns) % 5 * 4);
                let most = requests[request].sampling.max_tokens.min(completion.room);
                if turns < 3 && length + next.len() < most {
                    engine.go_on(request, sample, &next).unwrap();
                    continue;
                }
                engine.release_stopped(request, sample).unwrap();
            }
            assert!(finished.insert((request, sample), completion).is_none(), "it ended twice");
        }
    }
    let places =
        requests.iter().enumerate().flat_map(|(i, r)| r.samples.iter().map(move |&s| (i, s)));
    assert!(places.eq(finished.keys().copied()), "responses are missing");
    finished
}

/// Steps two engines in turn; the first begins with all requests. A move `(steps, engine, count,
/// first)` waits for `steps` further steps, then takes up to `count` unfinished responses of
/// `engine`, from the one that `first` picks, and lets them go on in the other engine.
pub fn run_apart(
    engines: &mut [Engine<'_>; 2],
    requests: &[Request],
    moves: &[(usize, usize, usize, prop::sample::Index)],
) -> BTreeMap<ResponseId, Completion> {
    // The request of each of an engine's.
    let mut numbers: [BTreeMap<usize, usize>; 2] = Default::default();
    for (number, request) in requests.iter().enumerate() {
        numbers[0].insert(engines[0].submit(request.clone()).unwrap(), number);
    }
    let mut finished = BTreeMap::new();
    let mut moves = moves.iter();
    let mut next = moves.next();
    let mut steps = 0;
    while engines.iter().any(|engine| !engine.is_idle()) {
        for (engine, numbers) in engines.iter_mut().zip(&numbers) {
            for event in engine.step().unwrap() {
                if let Event::Finished { request, sample, completion } = event {
                    let earlier = finished.insert((numbers[&request], sample), completion);
                    assert!(earlier.is_none(), "it has ended twice");
                }
            }
        }
        steps += 1;
        while let Some(&(after, from, count, first)) = next
            && steps >= after
        {
            (steps, next) = (0, moves.next());
            let unfinished: Vec<(usize, usize, usize)> = engines[from].unfinished().collect();
            if unfinished.is_empty() {
                continue;
            }
            let mut leaving: BTreeMap<usize, (Vec<usize>, Vec<PartialResponse>)> = BTreeMap::new();
            for &(id, sample, tokens) in
                unfinished.iter().skip(first.index(unfinished.len())).take(count)
            {
                let partial = engines[from].withdraw(id, sample).unwrap();
                assert_eq!(partial.tokens.len(), tokens);
                assert_eq!(engines[from].withdraw(id, sample), None, "it has left");
                let (samples, all) = leaving.entry(numbers[from][&id]).or_default();
                samples.push(sample);
                all.push(partial);
            }
            for (number, (samples, partial)) in leaving {
                let request =
                    Request { samples, cache_activations: false, ..requests[number].clone() };
                numbers[1 - from]
                    .insert(engines[1 - from].submit_partial(request, partial).unwrap(), number);
            }
        }
    }
    let places =
        requests.iter().enumerate().flat_map(|(i, r)| r.samples.iter().map(move |&s| (i, s)));
    assert!(places.eq(finished.keys().copied()), "responses are missing");
    finished
}

/// The completions of one request that has an engine to itself, which reads each draw at once.
pub fn alone(model: &Model, request: &Request) -> Vec<Completion> {
    let mut engine = Engine::new(model, None, ROOMY).unwrap().drawing_behind(false);
    run(&mut engine, ROOMY, std::slice::from_ref(request)).into_values().collect()
}

/// Pages that the engine needs for a request at the least: its prompt, one longest response, and
/// where several samples share a prompt that ends within a page, a copy of that page.
pub fn least_pages(page: usize, request: &Request) -> usize {
    let positions = request.prompt.len() + request.sampling.max_tokens - 1;
    let copy = usize::from(request.samples.len() > 1 && !request.prompt.len().is_multiple_of(page));
    positions.div_ceil(page) + copy
}

pub fn limits(model: &Model, pages: usize, sequences: usize, prefill_tokens: usize) -> Limits {
    Limits { cache_bytes: pages * KvCache::page_bytes(model), sequences, prefill_tokens }
}

/// How an engine is set up: the pages and the sequences that its requests share, and when it reads
/// its draws.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Pages beyond those that the largest request needs.
    spare_pages: usize,
    sequences: usize,
    prefill_tokens: usize,
    draws_behind: bool,
}

/// Engines of all sizes.
pub fn setting() -> impl Strategy<Value = Setting> {
    let spare_pages = prop_oneof![Just(0usize), 0usize..6, 6usize..200];
    let sequences = prop_oneof![Just(1usize), 1usize..5, 5usize..40];
    let prefill_tokens = prop_oneof![Just(1usize), 1usize..20, 20usize..300];
    (spare_pages, sequences, prefill_tokens, any::<bool>()).prop_map(
        |(spare_pages, sequences, prefill_tokens, draws_behind)| Setting {
            spare_pages,
            sequences,
            prefill_tokens,
            draws_behind,
        },
    )
}

impl Setting {
    /// The engine's limits, with enough pages for each of the requests.
    pub fn limits(&self, trial: &Trial, model: &Model, requests: &[Request]) -> Limits {
        let pages = requests.iter().map(|request| least_pages(trial.page(), request)).max();
        limits(model, pages.unwrap_or(1) + self.spare_pages, self.sequences, self.prefill_tokens)
    }

    pub fn engine<'a>(&self, model: &'a Model, limits: Limits) -> Engine<'a> {
        Engine::new(model, None, limits).unwrap().drawing_behind(self.draws_behind)
    }
}

/// Runs a request that needs every page of an engine: it waits for ever if a page is not free.
pub fn check_free_pages(trial: &Trial, model: &Model, engine: &mut Engine<'_>, limits: Limits) {
    let positions = limits.cache_bytes / KvCache::page_bytes(model) * trial.page();
    if positions < model.context() {
        let sampling = Sampling { max_tokens: positions, ..Sampling::default() };
        let all = Request { cache_activations: false, ..request(&[1], 1, 99, sampling) };
        run(engine, limits, &[all]);
    }
}

/// A completion with every float as its bits, since equal floats may differ in the sign of zero.
pub fn exact(
    completion: &Completion,
) -> (Vec<u32>, [Vec<u32>; 4], Option<SamplingMasks>, FinishReason) {
    let bits = |floats: &[f32]| floats.iter().map(|f| f.to_bits()).collect::<Vec<_>>();
    let sampling = completion.sampling_logprobs.as_deref().unwrap_or_default();
    let masks = completion.masks.clone();
    let log_masses = masks.as_ref().map_or(&[][..], |masks| &masks.log_masses);
    let floats = [&completion.logprobs[..], sampling, &completion.entropies, log_masses].map(bits);
    (completion.tokens.clone(), floats, masks.map(|masks| masks.tokens), completion.finish_reason)
}

/// How to sample fewer tokens than that: from the model's own distribution, or all sorts.
fn samplings(plain: bool, tokens: usize) -> impl Strategy<Value = Sampling> {
    let own = prop_oneof![
        Just(Sampling::default()),
        Just(Sampling { temperature: 0.0, ..Sampling::default() }),
        Just(Sampling { temperature: 0.7, records_kept: true, ..Sampling::default() }),
    ];
    let all = prop_oneof![
        Just(Sampling::default()),
        Just(Sampling { temperature: 0.0, ..Sampling::default() }),
        Just(Sampling { temperature: 0.8, top_p: 0.9, ..Sampling::default() }),
        Just(Sampling { top_k: 7, min_p: 0.05, records_kept: true, ..Sampling::default() }),
        Just(Sampling { temperature: 0.7, top_p: 0.95, records_kept: true, ..Sampling::default() }),
        Just(Sampling { temperature: 1.5, repetition_penalty: 1.3, ..Sampling::default() }),
    ];
    let shapes = if plain { own.boxed() } else { all.boxed() };
    (shapes, 1..tokens, any::<bool>()).prop_map(|(sampling, max_tokens, ends)| Sampling {
        max_tokens,
        eos_tokens: if ends { vec![2, 17, 40] } else { Vec::new() },
        ..sampling
    })
}

/// Some requests. If there is time for few, responses are short, but still cross a page.
pub fn requests(trial: &Trial) -> impl Strategy<Value = Vec<Request>> + use<> {
    let page = trial.page();
    let tokens = if trial.subject().cases(50) < 50 { page + 4 } else { 50 };
    // Lengths on both sides of page boundaries, and prompts that repeat.
    let prompt = (prop_oneof![1usize..70, Just(page), Just(2 * page), Just(2 * page + 1)], 0u32..5)
        .prop_map(|(len, salt)| {
            (0..len as u32).map(|i| (i * 7 + salt * 11) % 61).collect::<Vec<_>>()
        })
        .boxed();
    let some = move |plain| {
        prop::collection::vec((prompt.clone(), 0usize..6, samplings(plain, tokens)), 1..7)
    };
    // Draws that are all the device's may be read behind a step.
    any::<bool>().prop_flat_map(some).prop_map(|all| {
        let numbered = all.into_iter().enumerate();
        numbered
            .map(|(i, (prompt, samples, sampling))| request(&prompt, samples, i as u64, sampling))
            .collect()
    })
}
