//! Every submitted request finishes, however little memory there is. One that can never finish is
//! refused.

use crate::device::Trial;
use crate::models::nan_model;
use crate::properties;
use crate::requests::{ROOMY, alone, exact, least_pages, limits, request, run};
use isentrope_model::ActivationCache;
use isentrope_rollout::{Engine, Error, Event, FinishReason, Request, Sampling};

properties!(
    responses_wait_where_only_one_fits_at_a_time,
    a_request_that_needs_all_memory_is_taken_and_one_page_more_is_refused,
    what_cannot_be_sampled_is_refused_and_nothing_is_queued,
    huge_limits_mean_to_the_end_of_the_context,
    stop_tokens_and_end_tokens_end_a_response_and_belong_to_it,
    a_full_activation_cache_keeps_whole_responses,
    memory_that_there_is_not_is_refused_with_a_sentence,
    draws_are_read_behind_a_step_and_no_row_is_fed_beyond_a_known_end,
    logits_that_are_not_finite_end_their_response_whenever_draws_are_read
);

fn responses_wait_where_only_one_fits_at_a_time(trial: &Trial) {
    let model = trial.model("qwen3");
    let sampling = Sampling { max_tokens: 2 * trial.page(), ..Sampling::default() };
    let prompt: Vec<u32> = (0..trial.page() as u32 + 3).map(|i| i % 61).collect();
    let requests: Vec<Request> = (0..4).map(|i| request(&prompt, 3, i, sampling.clone())).collect();
    let limits = limits(model, least_pages(trial.page(), &requests[0]), 64, 1024);
    let mut engine = Engine::new(model, None, limits).unwrap();
    for r in &requests {
        engine.submit(r.clone()).unwrap();
    }
    let (mut finished, mut most) = (0, 0);
    for _ in 0..10_000 {
        let events = engine.step().unwrap();
        finished += events.iter().filter(|e| matches!(e, Event::Finished { .. })).count();
        most = most.max(engine.running());
        if engine.is_idle() {
            break;
        }
    }
    assert_eq!((finished, most), (12, 1));
}

fn a_request_that_needs_all_memory_is_taken_and_one_page_more_is_refused(trial: &Trial) {
    let model = trial.model("qwen3");
    for samples in [1, 3] {
        for prompt in [trial.page() - 1, trial.page(), trial.page() + 1] {
            let prompt = vec![7; prompt];
            let sampling = Sampling { max_tokens: trial.page() + 2, ..Sampling::default() };
            let request = request(&prompt, samples, 0, sampling);
            let pages = least_pages(trial.page(), &request);
            let enough = limits(model, pages, 8, 1024);
            let together = run(
                &mut Engine::new(model, None, enough).unwrap(),
                enough,
                std::slice::from_ref(&request),
            );
            assert_eq!(together.len(), samples);
            let mut engine = Engine::new(model, None, limits(model, pages - 1, 8, 1024)).unwrap();
            let message = engine.submit(request.clone()).unwrap_err().to_string();
            assert!(
                message.contains("keys and values") && message.contains("more memory"),
                "{message}"
            );
            assert!(engine.is_idle());
        }
    }
}

fn what_cannot_be_sampled_is_refused_and_nothing_is_queued(trial: &Trial) {
    let model = trial.model("qwen3");
    let mut engine = Engine::new(model, None, ROOMY).unwrap();
    let fine = Sampling::default;
    let context = model.context();
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
        (
            vec![1],
            Sampling { stop_strings: vec![String::new()], ..fine() },
            "at least one character",
        ),
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

fn huge_limits_mean_to_the_end_of_the_context(trial: &Trial) {
    let model = trial.model("qwen3");
    let prompt = vec![7; model.context() - 3];
    let sampling = Sampling { max_tokens: usize::MAX, top_k: usize::MAX, ..Sampling::default() };
    for completion in alone(model, &request(&prompt, 2, 0, sampling)) {
        assert_eq!((completion.tokens.len(), completion.finish_reason), (3, FinishReason::Length));
        assert_eq!(completion.room, 3);
    }
}

fn stop_tokens_and_end_tokens_end_a_response_and_belong_to_it(trial: &Trial) {
    let model = trial.model("qwen3");
    let free = Sampling { max_tokens: 60, ..Sampling::default() };
    let tokens = |sampling: Sampling| alone(model, &request(&[3, 4, 5], 1, 0, sampling)).remove(0);
    let whole = tokens(free.clone());
    assert_eq!((whole.tokens.len(), whole.finish_reason), (60, FinishReason::Length));
    let stop = whole.tokens[30];
    let first = whole.tokens.iter().position(|&t| t == stop).unwrap();
    for sampling in [
        Sampling { stop_tokens: vec![stop], ..free.clone() },
        Sampling { eos_tokens: vec![stop], ..free.clone() },
        Sampling {
            stop_tokens: vec![stop],
            eos_tokens: vec![stop],
            ignore_eos: true,
            ..free.clone()
        },
    ] {
        let cut = tokens(sampling);
        assert_eq!(
            (&cut.tokens[..], cut.finish_reason),
            (&whole.tokens[..=first], FinishReason::Stop)
        );
    }
    let ignored = tokens(Sampling { eos_tokens: vec![stop], ignore_eos: true, ..free });
    assert_eq!(exact(&ignored), exact(&whole));
}

/// If not all responses fit, the responses that started last are given up, and their slots serve
/// the others.
fn a_full_activation_cache_keeps_whole_responses(trial: &Trial) {
    let model = trial.model("qwen3");
    let sampling = Sampling { max_tokens: 10, ..Sampling::default() };
    let requests = [request(&[3, 4, 5, 6], 4, 0, sampling)];
    let cached = |slots: usize| -> Vec<bool> {
        let mut activation_cache = ActivationCache::new(model, slots).unwrap();
        let mut engine = Engine::new(model, None, ROOMY)
            .unwrap()
            .caching_activations(Some(&mut activation_cache));
        run(&mut engine, ROOMY, &requests)
            .values()
            .map(|completion| completion.activation_slots.is_some())
            .collect()
    };
    assert_eq!(cached(4 + 4 * 9), [true; 4]);
    assert_eq!(cached(4 + 4 * 9 - 1), [true, true, true, false]);
    assert_eq!(cached(4 + 2 * 9), [true, true, false, false]);
    assert_eq!(cached(4), [false; 4]);
    assert_eq!(cached(3), [false; 4]);
}

fn memory_that_there_is_not_is_refused_with_a_sentence(trial: &Trial) {
    let model = trial.model("qwen3");
    let refused =
        Engine::new(model, None, limits(model, 1 << 45, 8, 1024)).err().unwrap().to_string();
    assert!(refused.starts_with("cannot allocate "), "{refused}");
}

/// Counts the tokens that each step hands out.
fn token_counts(mut engine: Engine<'_>, request: &Request) -> Vec<usize> {
    engine.submit(request.clone()).unwrap();
    let is_token = |event: &&Event| matches!(event, Event::Token { .. });
    let mut counts = Vec::new();
    while !engine.is_idle() {
        counts.push(engine.step().unwrap().iter().filter(is_token).count());
    }
    counts
}

fn draws_are_read_behind_a_step_and_no_row_is_fed_beyond_a_known_end(trial: &Trial) {
    let model = trial.model("qwen3");
    let engine =
        |draws_behind| Engine::new(model, None, ROOMY).unwrap().drawing_behind(draws_behind);
    let of = |sampling: Sampling| request(&[3, 4, 5], 2, 0, sampling);
    let plain = Sampling { max_tokens: 4, ..Sampling::default() };
    assert_eq!(token_counts(engine(false), &of(plain.clone())), [2; 4]);
    // A last step that only reads: all ends are known.
    assert_eq!(token_counts(engine(true), &of(plain.clone())), [0, 2, 2, 2, 2]);
    // Draws that the host makes are read at once.
    let of_host = Sampling { top_p: 0.9, ..plain.clone() };
    assert_eq!(token_counts(engine(true), &of(of_host)), [2; 4]);
    // Exactly one slot a row: one more row would push a response out.
    let slots = 3 + 2 * 3;
    let mut activation_cache = ActivationCache::new(model, slots).unwrap();
    let mut engine = engine(true).caching_activations(Some(&mut activation_cache));
    let completions = run(&mut engine, ROOMY, &[of(plain)]);
    assert!(completions.values().all(|completion| completion.activation_slots.is_some()));
}

fn logits_that_are_not_finite_end_their_response_whenever_draws_are_read(trial: &Trial) {
    let model = nan_model(trial, "qwen3");
    for draws_behind in [false, true] {
        let mut engine = Engine::new(&model, None, ROOMY).unwrap().drawing_behind(draws_behind);
        engine.submit(request(&[3, 4, 5], 2, 0, Sampling::default())).unwrap();
        let events: Vec<Event> = (0..2).flat_map(|_| engine.step().unwrap()).collect();
        let failed = |&sample: &usize| {
            events.contains(&Event::NotFinite { request: 0, sample, position: 3 })
        };
        assert!(events.len() == 2 && (0..2).all(|sample| failed(&sample)), "{events:?}");
        assert!(engine.is_idle());
    }
}
