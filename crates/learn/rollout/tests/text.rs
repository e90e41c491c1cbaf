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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compute/model/tests/fixtures")
}

fn model() -> Model {
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
fn run(engine: Engine<'_>, sampling: &Sampling) -> Vec<(Completion, String)> {
    run_in_two(engine, None, sampling)
}

/// As [`run`], but responses that have not ended after `second.0` steps go on in `second.1`.
fn run_in_two<'a>(
    mut engine: Engine<'a>,
    mut second: Option<(usize, Engine<'a>)>,
    sampling: &Sampling,
) -> Vec<(Completion, String)> {
    let requests = [[3u32, 4, 5], [7, 7, 7]].iter().zip(0..);
    let requests: Vec<Request> =
        requests.map(|(prompt, number)| request(prompt, 3, number, sampling.clone())).collect();
    for request in &requests {
        engine.submit(request.clone()).unwrap();
    }
    let mut streamed = vec![String::new(); 6];
    let mut completions = vec![None; 6];
    for steps in 0.. {
        if let Some((_, mut next)) = second.take_if(|(after, _)| *after == steps) {
            // The second engine numbers requests alike: one with nothing left has no samples.
            for (number, request) in requests.iter().enumerate() {
                let unfinished = engine.unfinished().filter(|(id, ..)| *id == number);
                let samples: Vec<usize> = unfinished.map(|(_, sample, _)| sample).collect();
                let withdraw = |&sample: &usize| engine.withdraw(number, sample).unwrap();
                let partial = samples.iter().map(withdraw).collect();
                next.submit_partial(Request { samples, ..request.clone() }, partial).unwrap();
            }
            assert!(engine.is_idle());
            engine = next;
        }
        if engine.is_idle() {
            break;
        }
        for event in engine.step().unwrap() {
            match event {
                Event::NotFinite { .. } => panic!("{event:?}"),
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
        let cut =
            |c: &Completion| c.finish_reason == FinishReason::Stop && c.tokens.last() != Some(&17);
        assert!(
            expected.iter().any(|(completion, _)| cut(completion)),
            "{name}: no stop string occurred"
        );
        assert_eq!(run(engine().decoding_at_the_end(), &stopping), expected, "{name}");
        assert_eq!(run(engine().drawing_behind(true), &stopping), expected, "{name}");
    }
}

/// Their text has no special tokens, in which a stop text could be found.
#[test]
fn stop_texts_that_are_special_tokens_end_responses_as_tokens() {
    let (model, tokenizer) = (model(), tokenizer("byte-bpe"));
    let engine = || Engine::new(&model, Some(&tokenizer), ROOMY).unwrap();
    let free = run(engine(), &open_ended());
    let mut ended = 0;
    for (text, id) in [("<bos>", 0), ("<eos>", 1), ("<pad>", 2)] {
        let stopping = open_ended().ending_at(&[17], &[text.into()], Some(&tokenizer));
        for ((got, _), (free, _)) in run(engine(), &stopping).iter().zip(&free) {
            let end = free
                .tokens
                .iter()
                .position(|&token| token == id)
                .map_or(free.tokens.len(), |at| at + 1);
            assert_eq!(got.tokens, free.tokens[..end], "the token is part of the response");
            assert_eq!(
                got.text,
                Some(tokenizer.decode(&got.tokens, true).unwrap()),
                "and not of its text"
            );
            if got.tokens.last() == Some(&id) {
                assert_eq!(got.finish_reason, FinishReason::Stop);
                ended += 1;
            }
        }
    }
    assert!(ended > 0, "no special token was drawn");
    // Others are in the text, and found there.
    for text in ["<think>", "<bos>x", "a"] {
        let stopping = open_ended().ending_at(&[], &[text.into()], Some(&tokenizer));
        assert_eq!((stopping.stop_tokens, stopping.stop_strings), (vec![], vec![text.to_owned()]));
    }
}

/// Every response leaves its engine after a number of tokens, and goes on in another.
#[test]
fn text_and_stop_strings_go_on_where_a_response_does() {
    let model = model();
    for name in ["byte-bpe", "byte-fallback", "character"] {
        let tokenizer = tokenizer(name);
        let engine = || Engine::new(&model, Some(&tokenizer), ROOMY).unwrap();
        let texts = run(engine(), &open_ended()).into_iter().map(|(_, streamed)| streamed);
        let longest: Vec<char> = texts.max_by_key(String::len).unwrap().chars().collect();
        let stop: String = longest[longest.len() / 2..].iter().take(3).collect();
        // Random tokens of byte-fallback are hardly ever whole characters.
        let stops = if name == "byte-fallback" { None } else { Some(vec![stop]) };
        for stop_strings in [vec![]].into_iter().chain(stops) {
            let sampling = Sampling { stop_strings, ..open_ended() };
            let expected = run(engine(), &sampling);
            let tokens = |(completion, _): &(Completion, String)| completion.tokens.len();
            for after in 0..=expected.iter().map(tokens).max().unwrap() {
                for (first, second) in
                    [(engine(), engine()), (engine(), engine().decoding_at_the_end())]
                {
                    let moved = run_in_two(first, Some((after, second)), &sampling);
                    for ((completion, _), (expected, _)) in moved.iter().zip(&expected) {
                        assert_eq!(completion, expected, "{name}, after {after} tokens");
                    }
                }
                for draws_behind in [false, true] {
                    let engine = || engine().drawing_behind(draws_behind);
                    let moved = run_in_two(engine(), Some((after, engine())), &sampling);
                    assert_eq!(moved, expected, "{name}, after {after} tokens");
                }
            }
        }
    }
}
