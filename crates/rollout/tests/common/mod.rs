//! Shared by the integration tests: tiny checkpoints, and an engine watched from outside.

#![allow(dead_code, reason = "every test binary uses its own part")]

use isentrope_kernels::{Cpu, Isa};
use isentrope_model::Model;
use isentrope_rollout::{Completion, Engine, Event, Key, Limits, Request, Sampling};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A response's place: request and sample.
pub type Place = (usize, usize);

pub fn model_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/fixtures/models").join(name)
}

pub fn model(name: &str) -> Model<Cpu> {
    Model::load(&model_dir(name), Arc::new(Cpu::new(Isa::available()[0], 2).unwrap())).unwrap()
}

pub fn request(prompt: &[u32], samples: usize, number: u64, sampling: Sampling) -> Request {
    let key = Key { seed: 11, step: 3, prompt: number };
    Request { key, prompt: prompt.to_vec(), samples, sampling: Arc::new(sampling), record: true }
}

/// Enough for anything here.
pub const ROOMY: Limits = Limits { cache_bytes: 32 << 20, sequences: 64, prefill_tokens: 1024 };

/// Submits requests and steps until nothing is left, checking that events add up.
pub fn run(
    engine: &mut Engine<'_, Cpu>,
    limits: Limits,
    requests: &[Request],
) -> BTreeMap<Place, Completion> {
    assert!(engine.is_idle());
    let ids: Vec<usize> = requests.iter().map(|r| engine.submit(r.clone()).unwrap()).collect();
    let mut tokens: BTreeMap<Place, Vec<u32>> = BTreeMap::new();
    let mut finished = BTreeMap::new();
    let mut idle_steps = 0;
    while !engine.is_idle() {
        let events = engine.step().unwrap();
        assert!(engine.running() <= limits.sequences, "{} responses are running", engine.running());
        // A prompt may take one step per token; nothing else keeps quiet.
        idle_steps = if events.is_empty() { idle_steps + 1 } else { 0 };
        assert!(idle_steps <= 1000, "nothing happens any more");
        for event in events {
            match event {
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
    let places = requests.iter().enumerate().flat_map(|(i, r)| (0..r.samples).map(move |s| (i, s)));
    assert!(places.eq(finished.keys().copied()), "responses are missing");
    finished
}

/// The completions of one request that has an engine to itself.
pub fn alone(model: &Model<Cpu>, request: &Request) -> Vec<Completion> {
    let mut engine = Engine::new(model, None, ROOMY).unwrap();
    run(&mut engine, ROOMY, std::slice::from_ref(request)).into_values().collect()
}
