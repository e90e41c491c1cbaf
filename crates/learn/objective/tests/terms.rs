//! Single terms of the loss, and inputs at the edges.

use crate::common::{Arrays, arrays};
use crate::methods::{published, with};
use isentrope_objective::{
    Aggregation, Covariance, EntropyBonus, KlEstimator, Loss, Method, Methods, Objective,
    ObjectiveSettings, ReferenceKl, Statistics, objective,
};
use proptest::prelude::*;

fn on_policy() -> Arrays {
    let logprobs = vec![-0.1, -3.0, -0.5, -2.0, -0.2, -1.0];
    Arrays {
        lengths: vec![3, 3],
        old_logprobs: logprobs.clone(),
        reference_logprobs: logprobs.clone(),
        logprobs,
        entropies: vec![0.5, 2.0, 0.7, 1.5, 0.3, 0.9],
        advantages: vec![1.0, 1.0, 1.0, -1.0, -1.0, -1.0],
        ..Default::default()
    }
}

#[test]
fn clip_cov_takes_the_policy_gradient_and_leaves_the_other_terms() {
    let arrays = Arrays { entropy_coefficient: 0.1, ..on_policy() };
    let mut settings = ObjectiveSettings {
        reference_kl: ReferenceKl { coefficient: 0.5, estimator: KlEstimator::K1 },
        ..Default::default()
    };
    let plain = objective(&settings, &arrays.minibatch());
    settings.covariance =
        Covariance { method: Method::ClipCov, fraction: Some(0.5), low: 0.0, ..Default::default() };
    let with = objective(&settings, &arrays.minibatch());
    assert_eq!(with.selected.len(), 3);
    assert_eq!(with.d_entropies, plain.d_entropies);
    let mut removed = 0.0;
    for t in 0..6 {
        let detached = with.selected.contains(&t);
        let expected = if detached { 0.5 / 6.0 } else { plain.d_logprobs[t] };
        assert_eq!(with.d_logprobs[t], expected);
        removed += if detached { 1.0 / 6.0 } else { 0.0 };
    }
    let kept: f64 = with.d_logprobs.iter().map(|d| d.abs()).sum();
    assert!((with.statistics.cov_gradient_share - removed / (removed + kept)).abs() < 1e-12);
    let [low_negative, .., high_positive] = with.statistics.cov_quadrants;
    let sum = low_negative + high_positive;
    assert_eq!(sum, with.selected.len(), "positive covariances lie in two quadrants");
}

#[test]
fn the_entropy_mask_keeps_the_most_uncertain_tokens_and_the_denominator() {
    let mut arrays = Arrays { entropy_coefficient: 0.1, ..on_policy() };
    arrays.old_logprobs[1] -= 0.1;
    // A masked token bears nothing, also where the ratio is the whole response's.
    for loss in Loss::ALL {
        let plain = ObjectiveSettings { loss, ..Default::default() };
        let settings = ObjectiveSettings { entropy_mask_fraction: Some(0.3), ..plain.clone() };
        let [plain, masked] = [plain, settings].map(|s| objective(&s, &arrays.minibatch()));
        for t in 0..6 {
            let kept = arrays.entropies[t] >= 1.5;
            assert_eq!(masked.d_logprobs[t], if kept { plain.d_logprobs[t] } else { 0.0 });
        }
    }
    let plain = objective(&ObjectiveSettings::default(), &arrays.minibatch());
    let settings = ObjectiveSettings { entropy_mask_fraction: Some(0.3), ..Default::default() };
    let masked = objective(&settings, &arrays.minibatch());
    assert_eq!(masked.d_entropies, plain.d_entropies);
    let Statistics { methods, method_gradient_share, .. } = &masked.statistics;
    assert_eq!(
        (&methods[..], method_gradient_share),
        (&[("method/entropy_mask", 4.0 / 6.0)][..], &None)
    );
    // Masked tokens have nothing that Clip-Cov could take.
    let covariance = covariance(Method::ClipCov, Some(1.0), 9.0);
    let both = objective(&ObjectiveSettings { covariance, ..settings }, &arrays.minibatch());
    assert_eq!(both.selected, [1, 3]);
}

/// A method whose band is this far from 0 on both sides.
fn covariance(method: Method, fraction: Option<f64>, high: f64) -> Covariance {
    Covariance { method, fraction, low: -high, high, ..Default::default() }
}

/// Every combination of loss, aggregation and covariance method.
fn all_settings() -> Vec<ObjectiveSettings> {
    let every = with(Loss::Clip, &published()).methods;
    let mut all = Vec::new();
    for loss in Loss::ALL {
        for aggregation in Aggregation::ALL {
            for method in Method::ALL {
                all.push(ObjectiveSettings {
                    loss,
                    aggregation,
                    dual_clip: Some(3.0),
                    covariance: covariance(method, None, 100.0),
                    entropy_bonus: EntropyBonus { coefficient: 0.01, ..Default::default() },
                    reference_kl: ReferenceKl { coefficient: 0.1, estimator: KlEstimator::K3 },
                    entropy_mask_fraction: Some(0.5),
                    methods: if method == Method::KlCov {
                        every.clone()
                    } else {
                        Methods::default()
                    },
                    ..Default::default()
                });
            }
        }
    }
    all
}

fn assert_finite(arrays: &Arrays) {
    for settings in all_settings() {
        settings.check().unwrap();
        let result = objective(&settings, &arrays.minibatch());
        assert_eq!(result.d_logprobs.len(), arrays.logprobs.len());
        assert!(result.loss.is_finite(), "{settings:?}");
        assert!(
            result.d_logprobs.iter().chain(&result.d_entropies).all(|d| d.is_finite()),
            "{settings:?}"
        );
        for (name, value) in Statistics::metrics(&[result.statistics]) {
            assert!(value.is_finite(), "{name} is {value} with {settings:?}");
        }
    }
}

#[test]
fn degenerate_minibatches_give_finite_numbers() {
    let of = |lengths: &[usize], logprob: f64, old: f64, advantage: f64| {
        let n = lengths.iter().sum();
        Arrays {
            lengths: lengths.to_vec(),
            logprobs: vec![logprob; n],
            old_logprobs: vec![old; n],
            entropies: vec![0.0; n],
            advantages: vec![advantage; n],
            reference_logprobs: vec![old; n],
            entropy_coefficient: 0.01,
            ..Default::default()
        }
    };
    assert_finite(&of(&[], 0.0, 0.0, 0.0));
    assert_finite(&of(&[0, 0], 0.0, 0.0, 0.0));
    assert_finite(&of(&[1], -1.0, -1.0, 1.0));
    assert_finite(&of(&[3, 2], -1.0, -1.2, 0.0));
    assert_finite(&of(&[3, 0, 2], -1.0, -1.2, 0.7));
    // Ratios far beyond f64, both ways.
    assert_finite(&of(&[3, 2], -1.0, -1e6, 0.7));
    assert_finite(&of(&[3, 2], -1e6, -1.0, -0.7));
    assert_finite(&of(&[3, 2], -1.0, -1e6, -0.7));
}

#[test]
fn an_empty_minibatch_measures_nothing() {
    let nothing = objective(&ObjectiveSettings::default(), &Arrays::default().minibatch());
    assert_eq!(nothing.loss, 0.0);
    assert_eq!(nothing.statistics, Statistics::default());
}

proptest! {
    #[test]
    fn the_order_of_responses_does_not_matter(arrays in arrays(0.9)) {
        let settings = ObjectiveSettings { entropy_mask_fraction: Some(0.5), ..Default::default() };
        let backwards = arrays.reversed();
        let (a, b) = (objective(&settings, &arrays.minibatch()), objective(&settings, &backwards.minibatch()));
        prop_assert!((a.loss - b.loss).abs() < 1e-12);
        for (x, y) in arrays.reverse(&a.d_logprobs).iter().zip(&b.d_logprobs) {
            prop_assert!((x - y).abs() < 1e-12);
        }
    }
}

#[test]
fn clip_cov_passes_over_tokens_that_ratio_clipping_silenced() {
    // Token 0's ratio is far above 1 with a positive advantage, token 3's far above 1 with a
    // negative one.
    let mut arrays = on_policy();
    arrays.old_logprobs[0] -= 1.5;
    arrays.old_logprobs[3] -= 1.5;
    let covariance = covariance(Method::ClipCov, Some(1.0), 9.0);
    let select = |loss, dual_clip| {
        let covariance = covariance.clone();
        let settings = ObjectiveSettings { loss, dual_clip, covariance, ..Default::default() };
        objective(&settings, &arrays.minibatch()).selected
    };
    assert_eq!(select(Loss::Clip, None), [1, 2, 3, 4, 5]);
    assert_eq!(select(Loss::Clip, Some(3.0)), [1, 2, 4, 5]);
    // CISPO clips without taking the gradient away; the others have nothing that clips.
    for loss in [Loss::Cispo, Loss::Importance, Loss::PolicyGradient] {
        assert_eq!(select(loss, None), [0, 1, 2, 3, 4, 5]);
    }
    // The geometric means of both responses are exp(0.5): GSPO clips the first as a whole.
    assert_eq!(select(Loss::Gspo, None), [3, 4, 5]);
}

#[test]
fn clipping_is_counted_by_side() {
    let mut arrays = on_policy();
    for (t, log_ratio) in [(0, 0.5), (1, -0.5), (3, 0.5), (4, -0.5), (5, 2.0)] {
        arrays.old_logprobs[t] -= log_ratio;
    }
    let statistics = |loss| {
        let settings = ObjectiveSettings { loss, dual_clip: Some(3.0), ..Default::default() };
        objective(&settings, &arrays.minibatch()).statistics
    };
    let clip = statistics(Loss::Clip);
    assert_eq!(
        [clip.clip_fraction_low, clip.clip_fraction_high, clip.dual_clip_fraction],
        [1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0]
    );
    // Each side whatever the advantage.
    let cispo = statistics(Loss::Cispo);
    assert_eq!(
        [cispo.clip_fraction_low, cispo.clip_fraction_high, cispo.dual_clip_fraction],
        [2.0 / 6.0, 0.5, 0.0]
    );
    assert!((clip.ratio_max - 2f64.exp()).abs() < 1e-12);
    assert!(
        (clip.kl_old + 2.0 / 6.0).abs() < 1e-12 && (clip.log_ratio_abs - 4.0 / 6.0).abs() < 1e-12
    );
}

#[test]
fn ratios_beyond_the_numerical_limit_are_constant() {
    let mut arrays = on_policy();
    arrays.old_logprobs[3] -= 25.0;
    let token = |loss, clip_high| {
        let settings = ObjectiveSettings { loss, clip_high, ..Default::default() };
        objective(&settings, &arrays.minibatch()).d_logprobs[3]
    };
    assert_eq!(token(Loss::Importance, 0.2), 0.0);
    assert_eq!(token(Loss::Clip, 0.2), 0.0);
    // The response's mean log-ratio is 25 / 3, below GSPO's own limit of 10.
    assert!((token(Loss::Gspo, 0.2) - (25f64 / 3.0).exp() / 6.0).abs() < 1e-9);
    arrays.old_logprobs[4] -= 25.0;
    let gspo = ObjectiveSettings { loss: Loss::Gspo, ..Default::default() };
    let limited = objective(&gspo, &arrays.minibatch());
    assert_eq!(limited.d_logprobs[3..], [0.0; 3]);
    assert!((limited.loss - (-3.0 + 3.0 * 10f64.exp()) / 6.0).abs() < 1e-9);
}

/// The objectives of drifted log-probs, without a penalty and with KL-Cov's.
fn with_kl_cov(mut arrays: Arrays, by_advantage: bool) -> [Objective; 2] {
    for (t, old) in arrays.old_logprobs.iter_mut().enumerate() {
        *old += 0.1 * (t as f64 - 2.5);
    }
    let plain = ObjectiveSettings { loss: Loss::Importance, ..Default::default() };
    let covariance = Covariance {
        method: Method::KlCov,
        fraction: Some(0.34),
        coefficient: 2.0,
        by_advantage,
        ..Default::default()
    };
    let with = ObjectiveSettings { covariance, ..plain.clone() };
    [plain, with].map(|settings| objective(&settings, &arrays.minibatch()))
}

#[test]
fn kl_cov_adds_its_penalty_to_the_tokens_of_largest_covariance() {
    let [plain, with] = with_kl_cov(on_policy(), false);
    // Likely tokens of the better response and unlikely ones of the worse; the mean log-prob is
    // -1.13.
    assert_eq!((&with.selected[..], with.statistics.cov_eligible), (&[0, 3][..], 6));
    // Token 0 became likelier by 0.25 and token 3 less likely by 0.05.
    let (penalty, loss) = (2.0 * (0.25 + 0.05) / 6.0, with.loss - plain.loss);
    assert!((loss - penalty).abs() < 1e-12, "{loss}");
    let added: Vec<f64> =
        with.d_logprobs.iter().zip(&plain.d_logprobs).map(|(a, b)| a - b).collect();
    for (added, expected) in added.iter().zip([2.0, 0.0, 0.0, -2.0, 0.0, 0.0]) {
        assert!((added - expected / 6.0).abs() < 1e-12);
    }
    let rest: f64 = plain.d_logprobs.iter().map(|d| d.abs()).sum();
    let share = (4.0 / 6.0) / (4.0 / 6.0 + rest);
    assert!((with.statistics.cov_gradient_share - share).abs() < 1e-12);
}

#[test]
fn kl_cov_by_advantage_weighs_its_penalty_with_the_size_of_a() {
    let mut arrays = on_policy();
    arrays.advantages = vec![2.5, 2.5, 2.5, -0.5, -0.5, -0.5];
    let [plain, with] = with_kl_cov(arrays, true);
    assert_eq!(with.selected, [0, 3]);
    let added: Vec<f64> =
        with.d_logprobs.iter().zip(&plain.d_logprobs).map(|(a, b)| a - b).collect();
    for (added, expected) in added.iter().zip([5.0, 0.0, 0.0, -1.0, 0.0, 0.0]) {
        assert!((added - expected / 6.0).abs() < 1e-12);
    }
}
