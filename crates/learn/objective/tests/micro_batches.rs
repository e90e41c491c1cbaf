//! The tokens that the reference's micro-batches would select, beside those that the minibatch
//! selects.
//!
//! The published code centres covariances and picks tokens in each micro-batch by itself, so that a
//! setting of memory changes the algorithm. [`objective`] picks from the minibatch, unless a scope
//! says otherwise; here it is given the parts one by one, as the published code is.

use crate::common::{Arrays, arrays};
use isentrope_objective::{
    Covariance, DrawKey, Loss, Method, Objective, ObjectiveSettings, Outcome, Pick, advantages,
    objective,
};
use proptest::prelude::*;
use serde::Deserialize;

fn settings(method: Method, fraction: f64) -> ObjectiveSettings {
    let covariance =
        Covariance { method, fraction: Some(fraction), low: -1.0, high: 2.0, ..Default::default() };
    ObjectiveSettings { loss: Loss::Importance, covariance, ..Default::default() }
}

/// The objective of each part, as if it were a minibatch of its own, and the place of its first
/// token. `parts` are numbers of responses. Parts draw random numbers of their own.
fn by_part(
    settings: &ObjectiveSettings,
    arrays: &Arrays,
    parts: &[usize],
) -> Vec<(usize, Objective)> {
    let (mut objectives, mut response, mut token) = (Vec::new(), 0, 0);
    for (number, &responses) in parts.iter().enumerate() {
        let lengths = &arrays.lengths[response..response + responses];
        let tokens = token..token + lengths.iter().sum::<usize>();
        (response, token) = (response + responses, tokens.end);
        let part = |values: &[f64]| values.get(tokens.clone()).unwrap_or_default().to_vec();
        let part = Arrays {
            lengths: lengths.to_vec(),
            logprobs: part(&arrays.logprobs),
            old_logprobs: part(&arrays.old_logprobs),
            entropies: part(&arrays.entropies),
            old_entropies: part(&arrays.old_entropies),
            advantages: part(&arrays.advantages),
            masses: arrays.masses.as_ref().map(|masses| masses.each_ref().map(|of| part(of))),
            key: DrawKey { update: arrays.key.update + number as u64, ..arrays.key },
            ..Default::default()
        };
        objectives.push((tokens.start, objective(settings, &part.minibatch())));
    }
    assert_eq!(
        (response, token),
        (arrays.lengths.len(), arrays.logprobs.len()),
        "the parts are the minibatch"
    );
    objectives
}

/// The tokens that the parts select, ascending.
fn selected_by_part(settings: &ObjectiveSettings, arrays: &Arrays, parts: &[usize]) -> Vec<usize> {
    let parts = by_part(settings, arrays, parts);
    parts.iter().flat_map(|(start, part)| part.selected.iter().map(move |t| start + t)).collect()
}

proptest! {
    #[test]
    fn a_scope_of_responses_picks_what_micro_batches_of_so_many_do(
        arrays in arrays(0.9),
        method in prop::sample::select(vec![Method::ClipCov, Method::KlCov]),
        pick in prop::sample::select(vec![Pick::Largest, Pick::Better, Pick::Worse]),
        fraction in 0.01f64..0.9,
        size in 1usize..6,
    ) {
        let mut settings = settings(method, fraction);
        settings.covariance.pick = pick;
        let responses = arrays.lengths.len();
        let mut sizes = vec![size; responses / size];
        sizes.extend((responses % size > 0).then_some(responses % size));
        let parts = by_part(&settings, &arrays, &sizes);
        let whole = objective(&settings, &arrays.minibatch());
        settings.covariance.scope_responses = Some(size);
        let scoped = objective(&settings, &arrays.minibatch());
        let picked = |start: usize, tokens: usize| -> Vec<usize> {
            scoped.selected.iter().filter(|&&t| (start..start + tokens).contains(&t)).map(|t| t - start).collect()
        };
        let mut eligible = 0;
        for (start, part) in &parts {
            let picked = picked(*start, part.covariances.len());
            // Clip-Cov draws by the part's number, the parts here by keys of their own.
            match method {
                Method::KlCov => prop_assert_eq!(&picked, &part.selected),
                _ => prop_assert_eq!(picked.len(), part.selected.len()),
            }
            let in_band = |t: &usize| part.covariances[*t] > -1.0 && part.covariances[*t] < 2.0;
            prop_assert!(method == Method::KlCov || picked.iter().all(in_band));
            eligible += part.statistics.cov_eligible;
        }
        prop_assert_eq!(scoped.statistics.cov_eligible, eligible);
        prop_assert_eq!(scoped.covariances, whole.covariances, "what is reported is of the \
                                                                minibatch");
    }
}

/// A response of the first minibatch of `recipes/quickstart.toml`.
#[derive(Deserialize)]
struct Response {
    group: usize,
    reward: f64,
    logprobs: Vec<f64>,
}

fn quickstart() -> Arrays {
    let responses: Vec<Response> =
        serde_json::from_str(include_str!("fixtures/minibatch.json")).unwrap();
    let outcome = |r: &Response| Outcome {
        group: r.group,
        reward: r.reward,
        tokens: r.logprobs.len(),
        greedy_reward: 0.0,
    };
    let outcomes: Vec<Outcome> = responses.iter().map(outcome).collect();
    let logprobs: Vec<f64> = responses.iter().flat_map(|r| r.logprobs.clone()).collect();
    let of_tokens = |(advantage, r): (f64, &Response)| vec![advantage; r.logprobs.len()];
    Arrays {
        lengths: responses.iter().map(|r| r.logprobs.len()).collect(),
        old_logprobs: logprobs.clone(),
        entropies: vec![0.0; logprobs.len()],
        advantages: advantages(&ObjectiveSettings::default(), &outcomes)
            .into_iter()
            .zip(&responses)
            .flat_map(of_tokens)
            .collect(),
        logprobs,
        ..Default::default()
    }
}

/// The table in docs/concepts/entropy.md: of a real minibatch of 128 responses, the tokens that
/// KL-Cov picks in micro-batches, and how many of them the minibatch picks too.
#[test]
fn micro_batches_of_a_real_minibatch_select_other_tokens_and_more() {
    let arrays = quickstart();
    assert_eq!((arrays.lengths.len(), arrays.logprobs.len()), (128, 4960));
    for (fraction, counts) in [
        (2e-3, [(128, 9, 9), (64, 9, 8), (16, 8, 5), (8, 16, 6), (4, 32, 6), (2, 64, 7)]),
        (2e-4, [(128, 1, 1), (64, 2, 1), (16, 8, 1), (8, 16, 1), (4, 32, 1), (2, 64, 1)]),
    ] {
        let settings = settings(Method::KlCov, fraction);
        let whole = objective(&settings, &arrays.minibatch()).selected;
        for (responses, picked, shared) in counts {
            let parts = selected_by_part(&settings, &arrays, &vec![responses; 128 / responses]);
            let common = parts.iter().filter(|t| whole.contains(t)).count();
            assert_eq!(
                (parts.len(), common),
                (picked, shared),
                "{fraction} in parts of {responses} responses"
            );
        }
    }
}
