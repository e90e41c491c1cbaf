//! Micro-batches change nothing, unless they are asked to.

mod common;

use common::{Arrays, arrays};
use isentrope_objective::{
    Covariance, DrawKey, KlEstimator, Loss, Method, Minibatch, Objective, Scope, Settings, objective,
};
use proptest::prelude::*;

/// KL-Cov with the smooth estimate, so that every picked token shows in the gradient.
fn settings(method: Method, scope: Scope, fraction: f64) -> Settings {
    let covariance = Covariance {
        method,
        scope,
        fraction: Some(fraction),
        low: -1.0,
        high: 2.0,
        kl: KlEstimator::K2,
        ..Default::default()
    };
    Settings { loss: Loss::Importance, covariance, ..Default::default() }
}

fn method() -> impl Strategy<Value = Method> {
    prop::sample::select(vec![Method::ClipCov, Method::KlCov])
}

/// Numbers of responses that add up to `responses`; zeros among them.
fn partition(responses: usize, mut cuts: Vec<usize>) -> Vec<usize> {
    for cut in &mut cuts {
        *cut %= responses + 1;
    }
    cuts.extend([0, responses]);
    cuts.sort_unstable();
    cuts.windows(2).map(|w| w[1] - w[0]).collect()
}

fn bits(objective: &Objective) -> Vec<u64> {
    let numbers = objective.d_logprobs.iter().chain(&objective.d_entropies);
    numbers.chain([&objective.loss]).map(|x| x.to_bits()).collect()
}

proptest! {
    #[test]
    fn minibatch_scope_gives_the_same_bits_for_every_partition(
        arrays in arrays(0.9),
        method in method(),
        fraction in 0.01f64..0.9,
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let settings = settings(method, Scope::Minibatch, fraction);
        let responses = arrays.lengths.len();
        let whole = objective(&settings, &arrays.minibatch(&[responses]));
        let parts = objective(&settings, &arrays.minibatch(&partition(responses, cuts)));
        prop_assert_eq!(&whole.selected, &parts.selected);
        prop_assert_eq!(bits(&whole), bits(&parts));
        prop_assert_eq!(whole.statistics, parts.statistics);
    }

    #[test]
    fn one_micro_batch_is_the_minibatch(arrays in arrays(0.9), method in method(), fraction in 0.01f64..0.9) {
        let responses = [arrays.lengths.len()];
        let of = |scope| objective(&settings(method, scope, fraction), &arrays.minibatch(&responses));
        prop_assert_eq!(of(Scope::Minibatch), of(Scope::MicroBatch));
    }

    /// KL-Cov draws nothing, so that a micro-batch by itself picks the same tokens.
    #[test]
    fn micro_batch_scope_selects_in_each_by_itself(
        arrays in arrays(0.9),
        fraction in 0.01f64..0.9,
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let parts = partition(arrays.lengths.len(), cuts);
        let batch = arrays.minibatch(&parts);
        let together = objective(&settings(Method::KlCov, Scope::MicroBatch, fraction), &batch);
        let (mut expected, mut response, mut start) = (Vec::new(), 0, 0);
        for &part in &parts {
            let lengths = &arrays.lengths[response..response + part];
            let tokens = start..start + lengths.iter().sum::<usize>();
            let alone = objective(
                &settings(Method::KlCov, Scope::Minibatch, fraction),
                &Minibatch {
                    lengths,
                    logprobs: &arrays.logprobs[tokens.clone()],
                    old_logprobs: &arrays.old_logprobs[tokens.clone()],
                    entropies: &arrays.entropies[tokens.clone()],
                    advantages: &arrays.advantages[tokens.clone()],
                    ..batch
                },
            );
            expected.extend(alone.selected.iter().map(|t| start + t));
            (response, start) = (response + part, tokens.end);
        }
        prop_assert_eq!(together.selected, expected);
    }
}

/// Two responses, 40 tokens, all covariances within the band.
fn two_responses() -> Arrays {
    let wave = |f: f64| (0..40).map(|t| -1.0 + 0.3 * (f * f64::from(t)).sin()).collect::<Vec<_>>();
    Arrays {
        lengths: vec![20, 20],
        logprobs: wave(1.0),
        old_logprobs: wave(1.1),
        entropies: wave(0.7),
        advantages: [vec![1.0; 20], vec![-1.0; 20]].concat(),
        ..Default::default()
    }
}

#[test]
fn micro_batch_scope_changes_the_selection_and_draws_by_micro_batch() {
    let arrays = two_responses();
    let select =
        |method, scope| objective(&settings(method, scope, 0.1), &arrays.minibatch(&[1, 1])).selected;
    for method in [Method::ClipCov, Method::KlCov] {
        let (whole, parts) = (select(method, Scope::Minibatch), select(method, Scope::MicroBatch));
        assert_eq!((whole.len(), parts.len()), (4, 4));
        assert_ne!(whole, parts);
        assert_eq!(parts.iter().filter(|&&t| t < 20).count(), 2, "two of each half");
    }
    // Each half is all eligible; the same stream would pick the same places in both.
    let places = |drawn: &[usize]| drawn.iter().map(|t| t % 20).collect::<Vec<_>>();
    let drawn = select(Method::ClipCov, Scope::MicroBatch);
    assert_ne!(places(&drawn[..2]), places(&drawn[2..]));
}

#[test]
fn clip_cov_draws_by_its_key() {
    let mut arrays = two_responses();
    let settings = settings(Method::ClipCov, Scope::Minibatch, 0.1);
    let mut draw = |key| {
        arrays.key = key;
        objective(&settings, &arrays.minibatch(&[])).selected
    };
    let key = DrawKey { seed: 1, step: 2, update: 3 };
    let first = draw(key);
    assert_eq!(first, draw(key));
    for other in [DrawKey { seed: 2, ..key }, DrawKey { step: 3, ..key }, DrawKey { update: 4, ..key }] {
        assert_ne!(first, draw(other));
    }
}
