//! Drawn tokens against the exact distribution: computed here in f64, from logits that transformers
//! computed.

use crate::device::Trial;
use crate::models::{checkpoint, load};
use crate::properties;
use crate::requests::{request, run};
use isentrope_rollout::{Completion, Engine, Limits, Sampling};
use safetensors::SafeTensors;
use std::ops::Range;

properties!(
    tokens_are_drawn_from_the_distribution_asked_for,
    greedy_takes_the_likeliest_and_reports_temperature_1
);

const DRAWS: usize = 6000;
const CHECKPOINT: &str = "llama-mha";
const LIMITS: Limits = Limits { cache_bytes: 32 << 20, sequences: 512, prefill_tokens: 1024 };

/// A prompt and the logits that follow it.
fn prompt_and_logits() -> (Vec<u32>, Vec<f64>) {
    let bytes = std::fs::read(checkpoint(CHECKPOINT).join("expected.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let words = |name: &str| -> Vec<[u8; 4]> {
        file.tensor(name).unwrap().data().chunks_exact(4).map(|b| b.try_into().unwrap()).collect()
    };
    let tokens: Vec<u32> = words("tokens.0").into_iter().map(u32::from_le_bytes).collect();
    let logits: Vec<f64> =
        words("logits.0").into_iter().map(|b| f64::from(f32::from_le_bytes(b))).collect();
    let vocabulary = file.tensor("logits.0").unwrap().shape()[1];
    let length = 6;
    (tokens[..length].to_vec(), logits[(length - 1) * vocabulary..][..vocabulary].to_vec())
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let total: f64 = logits.iter().map(|l| l.exp()).sum();
    logits.iter().map(|l| l.exp() / total).collect()
}

fn entropy(p: &[f64]) -> f64 {
    -p.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>()
}

/// Keeps the tokens that `keep` likes by rank, probability and the probability of all likelier ones
/// together.
fn keep(p: &[f64], keep: impl Fn(usize, f64, f64) -> bool) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).filter(|&i| p[i] > 0.0).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let mut kept = vec![0.0; p.len()];
    let mut before = 0.0;
    for (rank, &i) in order.iter().enumerate() {
        if keep(rank, p[i], before) {
            kept[i] = p[i];
        }
        before += p[i];
    }
    let total: f64 = kept.iter().sum();
    kept.iter().map(|k| k / total).collect()
}

/// From the likeliest down.
fn ranked(p: &[f64]) -> Vec<f64> {
    let mut ranked = p.to_vec();
    ranked.sort_by(|a, b| b.total_cmp(a));
    ranked
}

// Truncation must not hang on the last digits of a backend that has few: bounds lie between tokens,
// not on one.

/// The rank, in a range of ranks, after which probabilities fall most steeply.
fn top_k_in(p: &[f64], ranks: Range<usize>) -> usize {
    let ranked = ranked(p);
    ranks
        .max_by(|&a, &b| (ranked[a - 1] / ranked[a]).total_cmp(&(ranked[b - 1] / ranked[b])))
        .unwrap()
}

/// A share that is reached in the middle of a token: the likeliest of those that reach something
/// near it.
fn top_p_near(p: &[f64], share: f64) -> f32 {
    let ranked = ranked(p);
    let ends: Vec<f64> =
        ranked.iter().scan(0.0, |sum, p| Some(std::mem::replace(sum, *sum + p) + p)).collect();
    let rank = ends.iter().position(|&end| end >= share).unwrap();
    (ends[rank] - ranked[rank] / 2.0) as f32
}

/// A bound for min-p that lies between the probabilities of two neighbours in rank.
fn min_p_near(p: &[f64], share: f64) -> f32 {
    let ranked = ranked(p);
    let rank = ranked.iter().position(|&p| p < share * ranked[0]).unwrap();
    ((ranked[rank - 1] * ranked[rank]).sqrt() / ranked[0]) as f32
}

/// Chi-square over tokens, with those expected fewer than five times in one bin, must not exceed
/// the value that one seed in ten thousand exceeds (by the approximation of Wilson and Hilferty).
fn assert_drawn_from(counts: &[usize], p: &[f64], what: &str) {
    let (mut bins, mut rest) = (Vec::new(), (0.0, 0.0));
    for (&count, p) in counts.iter().zip(p) {
        let expected = p * DRAWS as f64;
        assert!(expected > 0.0 || count == 0, "{what}: a token that is excluded was drawn");
        if expected >= 5.0 {
            bins.push((count as f64, expected));
        } else {
            rest = (rest.0 + count as f64, rest.1 + expected);
        }
    }
    if rest.1 > 0.0 {
        bins.push(rest);
    }
    assert!(bins.len() >= 3, "{what}: {} bins show nothing", bins.len());
    let chi: f64 =
        bins.iter().map(|(count, expected)| (count - expected).powi(2) / expected.max(1.0)).sum();
    let freedom = (bins.len() - 1) as f64;
    let spread = 2.0 / (9.0 * freedom);
    let limit = freedom * (1.0 - spread + 3.719 * spread.sqrt()).powi(3);
    assert!(
        chi < limit,
        "{what}: chi-square is {chi:.1} with {freedom} degrees of freedom, \
         at most {limit:.1} expected"
    );
}

fn tokens_are_drawn_from_the_distribution_asked_for(trial: &Trial) {
    let (model, tolerance) =
        (load(&checkpoint(CHECKPOINT), trial.device().backend()), trial.tolerance().drawn);
    let (prompt, logits) = prompt_and_logits();
    let at =
        |temperature: f64| softmax(&logits.iter().map(|l| l / temperature).collect::<Vec<_>>());
    let plain = at(1.0);
    let penalised: Vec<f64> = logits
        .iter()
        .enumerate()
        .map(|(i, &l)| match prompt.contains(&(i as u32)) {
            true if l > 0.0 => l / 2.5,
            true => l * 2.5,
            false => l,
        })
        .collect();
    let likeliest = plain.iter().copied().fold(0.0, f64::max);
    let (top_k, top_p, min_p) =
        (top_k_in(&plain, 7..12), top_p_near(&plain, 0.8), min_p_near(&plain, 0.1));
    let (reached, least) = (f64::from(top_p), f64::from(min_p) * likeliest);
    // All truncations in turn, at a temperature of 1.4.
    let hot_top_k = top_k_in(&at(1.4), 20..30);
    let hot = keep(&at(1.4), |rank, _, _| rank < hot_top_k);
    let hot_top_p = top_p_near(&hot, 0.85);
    let hot = keep(&hot, |_, _, before| before < f64::from(hot_top_p));
    let hot_min_p = min_p_near(&hot, 0.2);
    let hot_least = f64::from(hot_min_p) * hot.iter().copied().fold(0.0, f64::max);
    let default = Sampling { max_tokens: 1, ..Sampling::default() };
    let cases = [
        ("plain", default.clone(), 1.0, plain.clone()),
        ("temperature 0.7", Sampling { temperature: 0.7, ..default.clone() }, 0.7, at(0.7)),
        ("temperature 2", Sampling { temperature: 2.0, ..default.clone() }, 2.0, at(2.0)),
        (
            "top-k",
            Sampling { top_k, ..default.clone() },
            1.0,
            keep(&plain, |rank, _, _| rank < top_k),
        ),
        (
            "top-p",
            Sampling { top_p, ..default.clone() },
            1.0,
            keep(&plain, |_, _, before| before < reached),
        ),
        ("min-p", Sampling { min_p, ..default.clone() }, 1.0, keep(&plain, |_, p, _| p >= least)),
        (
            "penalty 2.5",
            Sampling { repetition_penalty: 2.5, ..default.clone() },
            1.0,
            softmax(&penalised),
        ),
        (
            "temperature 1.4, top-k, top-p, min-p",
            Sampling {
                temperature: 1.4,
                top_k: hot_top_k,
                top_p: hot_top_p,
                min_p: hot_min_p,
                ..default
            },
            1.4,
            keep(&hot, |_, p, _| p >= hot_least),
        ),
    ];
    for (number, (what, sampling, temperature, expected)) in cases.into_iter().enumerate() {
        let mut engine = Engine::new(&model, None, LIMITS).unwrap();
        let request = request(&prompt, DRAWS, number as u64, sampling);
        let draws = run(&mut engine, LIMITS, &[request]);
        let policy = at(temperature);
        let mut counts = vec![0; expected.len()];
        for Completion { tokens, logprobs, sampling_logprobs, entropies, .. } in draws.values() {
            let token = tokens[0] as usize;
            counts[token] += 1;
            assert!(
                (f64::from(logprobs[0]) - policy[token].ln()).abs() < tolerance,
                "{what}: log-prob of {token}"
            );
            assert!(
                (f64::from(entropies[0]) - entropy(&policy)).abs() < tolerance,
                "{what}: entropy"
            );
            let drawn_from = sampling_logprobs.as_ref().map_or(logprobs[0], |lp| lp[0]);
            assert!(
                (f64::from(drawn_from) - expected[token].ln()).abs() < tolerance,
                "{what}: sampling log-prob of {token}"
            );
        }
        assert_drawn_from(&counts, &expected, what);
    }
}

fn greedy_takes_the_likeliest_and_reports_temperature_1(trial: &Trial) {
    let (model, tolerance) =
        (load(&checkpoint(CHECKPOINT), trial.device().backend()), trial.tolerance().drawn);
    let (prompt, logits) = prompt_and_logits();
    let likeliest = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
    let p = softmax(&logits);
    let sampling = Sampling { temperature: 0.0, max_tokens: 1, top_k: 5, ..Sampling::default() };
    let draws = run(
        &mut Engine::new(&model, None, LIMITS).unwrap(),
        LIMITS,
        &[request(&prompt, 3, 0, sampling)],
    );
    for completion in draws.values() {
        assert_eq!(
            (completion.tokens[0] as usize, &completion.sampling_logprobs),
            (likeliest, &None)
        );
        assert!((f64::from(completion.logprobs[0]) - p[likeliest].ln()).abs() < tolerance);
        assert!((f64::from(completion.entropies[0]) - entropy(&p)).abs() < tolerance);
    }
}
