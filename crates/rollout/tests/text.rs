//! The text of responses, decoded token by token or when they have ended.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_kernels::{Cpu, Isa};
use isentrope_model::Model;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_rollout::{Completion, Engine, Event, FinishReason, Key, Limits, Request, Sampling};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Enough for anything here.
const ROOMY: Limits = Limits { cache_bytes: 32 << 20, sequences: 64, prefill_tokens: 1024 };

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/fixtures")
}

fn model() -> Model<Cpu> {
    let cpu = Arc::new(Cpu::new(Isa::available()[0], 2).unwrap());
    Model::load(&fixtures().join("models/qwen3"), cpu).unwrap()
}

fn request(prompt: &[u32], samples: usize, number: u64, sampling: Sampling) -> Request {
    let key = Key { seed: 11, step: 3, prompt: number };
    Request {
        key,
        prompt: prompt.to_vec(),
        samples: (0..samples).collect(),
        sampling: Arc::new(sampling),
        cache_activations: true,
    }
}

/// Completions in order of request and sample, and the text of each that came with its tokens.
fn run(mut engine: Engine<'_, Cpu>, sampling: &Sampling) -> Vec<(Completion, String)> {
    for (number, prompt) in [[3u32, 4, 5], [7, 7, 7]].iter().enumerate() {
        engine.submit(request(prompt, 3, number as u64, sampling.clone())).unwrap();
    }
    let mut streamed = vec![String::new(); 6];
    let mut completions = vec![None; 6];
    while !engine.is_idle() {
        for event in engine.step().unwrap() {
            match event {
                Event::Token { request, sample, text, .. } => {
                    streamed[request * 3 + sample] += text.as_deref().unwrap_or_default();
                }
                Event::Finished { request, sample, completion } => {
                    completions[request * 3 + sample] = Some(completion);
                }
            }
        }
    }
    completions.into_iter().map(Option::unwrap).zip(streamed).collect()
}

fn tokenizer(name: &str) -> Tokenizer {
    Tokenizer::read(&fixtures().join("tokenizer").join(name)).unwrap().unwrap()
}

fn open_ended() -> Sampling {
    Sampling { max_tokens: 48, eos_tokens: vec![17], ..Sampling::default() }
}

#[test]
fn completions_are_the_same_whenever_they_are_decoded() {
    let model = model();
    for name in ["byte-bpe", "byte-fallback", "character"] {
        let tokenizer = tokenizer(name);
        let engine = || Engine::new(&model, Some(&tokenizer), ROOMY).unwrap();
        let streamed = run(engine(), &open_ended());
        let at_the_end = run(engine().decoding_at_the_end(), &open_ended());
        for ((expected, streamed), (completion, text)) in streamed.iter().zip(&at_the_end) {
            assert!(expected.text.as_ref().is_some_and(|text| text.starts_with(streamed)));
            assert_eq!((completion, text.as_str()), (expected, ""), "{name}");
        }
    }
}

#[test]
fn stop_strings_are_seen_as_a_response_grows() {
    let model = model();
    for name in ["byte-bpe", "character"] {
        let tokenizer = tokenizer(name);
        let engine = || Engine::new(&model, Some(&tokenizer), ROOMY).unwrap();
        let texts = run(engine(), &open_ended()).into_iter().map(|(_, streamed)| streamed);
        let longest: Vec<char> = texts.max_by_key(String::len).unwrap().chars().collect();
        let stop: String = longest[longest.len() / 2..].iter().take(2).collect();

        let stopping = Sampling { stop_strings: vec![stop], ..open_ended() };
        let expected = run(engine(), &stopping);
        let cut = |c: &Completion| c.finish_reason == FinishReason::Stop && c.tokens.last() != Some(&17);
        assert!(expected.iter().any(|(completion, _)| cut(completion)), "{name}: no stop string occurred");
        assert_eq!(run(engine().decoding_at_the_end(), &stopping), expected, "{name}");
    }
}
