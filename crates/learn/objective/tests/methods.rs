//! Losses and entropy methods against an independent derivation, and the properties that each
//! method must have.

use crate::common::{Arrays, arrays};
use isentrope_objective::{
    Entropic, Estimator, FlexibleClip, KlEstimator, Loss, Methods, ObjectiveSettings, ReferenceKl,
    RunState, Statistics, catalogue, objective,
};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

type Metric = (&'static str, f64);

#[derive(Deserialize)]
struct Case {
    lengths: Vec<usize>,
    logprobs: Vec<f64>,
    old_logprobs: Vec<f64>,
    entropies: Vec<f64>,
    old_entropies: Vec<f64>,
    advantages: Vec<f64>,
    entropy_slopes: Vec<f64>,
    entropy_error: f64,
    progress: f64,
    raises_entropy: bool,
    results: Vec<Expected>,
}

#[derive(Deserialize)]
struct Expected {
    objective: Value,
    loss: f64,
    gradient: Vec<f64>,
}

/// Every method with published settings. `entropy_advantage` has no defaults.
pub fn published() -> Vec<(String, Value)> {
    let all = serde_json::to_value(ObjectiveSettings::default()).unwrap();
    let keys = all["methods"].as_object().unwrap().keys().cloned();
    let settings = |key: &str| match key {
        "entropy_advantage" => json!({ "alpha": 0.4, "kappa": 2.0 }),
        _ => json!({}),
    };
    keys.map(|key| (key.clone(), settings(&key))).collect()
}

pub fn with(loss: Loss, methods: &[(String, Value)]) -> ObjectiveSettings {
    let methods: serde_json::Map<String, Value> = methods.iter().cloned().collect();
    let settings: ObjectiveSettings =
        serde_json::from_value(json!({ "loss": loss, "methods": methods })).unwrap();
    settings.check().unwrap();
    settings
}

/// Each method alone, and all of them together.
fn sets() -> Vec<Vec<(String, Value)>> {
    let all = published();
    all.iter().map(|one| vec![one.clone()]).chain([all.clone()]).collect()
}

#[test]
fn values_and_gradients_are_those_of_the_formulas() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("fixtures/methods/methods.json")).unwrap();
    let mut methods: BTreeSet<String> = published().into_iter().map(|(key, _)| key).collect();
    let mut losses: BTreeSet<&str> = ["sapo", "gmpo", "dppo", "ce-gppo", "vespo"].into();
    for case in &cases {
        let arrays = Arrays {
            lengths: case.lengths.clone(),
            logprobs: case.logprobs.clone(),
            old_logprobs: case.old_logprobs.clone(),
            entropies: case.entropies.clone(),
            old_entropies: case.old_entropies.clone(),
            advantages: case.advantages.clone(),
            entropy_slopes: case.entropy_slopes.clone(),
            run: RunState {
                entropy_error: case.entropy_error,
                progress: case.progress,
                raises_entropy: case.raises_entropy,
                repo_zeta: None,
            },
            ..Default::default()
        };
        for Expected { objective: table, loss, gradient } in &case.results {
            let settings: ObjectiveSettings = serde_json::from_value(table.clone()).unwrap();
            settings.check().unwrap();
            losses.remove(table["loss"].as_str().unwrap());
            for key in table["methods"].as_object().into_iter().flat_map(|methods| methods.keys()) {
                methods.remove(key);
            }
            let ours = objective(&settings, &arrays.minibatch());
            assert!((ours.loss - loss).abs() < 1e-12, "{table}: {} instead of {loss}", ours.loss);
            assert_eq!(ours.d_logprobs.len(), gradient.len());
            for (t, (ours, theirs)) in ours.d_logprobs.iter().zip(gradient).enumerate() {
                assert!((ours - theirs).abs() < 1e-12, "{table}, token {t}: {ours}, not {theirs}");
            }
        }
    }
    assert!(methods.is_empty() && losses.is_empty(), "without a value: {methods:?} {losses:?}");
}

/// Settings at which each method leaves every token as it is.
const NEUTRAL: &str = r#"
{"w_reinforce": {"lambda": 1}}
{"repo_r": {"zeta": 0}}
{"entropy_advantage": {"alpha": 1e-300, "kappa": 2}}
{"steer": {"weight_min": 0.9999999999999999}}
{"erc": {"low": 0, "high": 1e9}}
{"clip_b": {"mu": 1e9}}
{"clip_v": {"mu": 1e9}}
{"flexible_clip": {"upper_slope": 0, "upper_intercept": 0.2}}
{"bapo": {"lower_start": 0.8, "upper_start": 1.2, "upper_max": 1.2}}
{"entropic": {"k_p": 0, "k_i": 0}}
{"archer": {"high_entropy_clip_low": 0.2, "high_entropy_clip_high": 0.2, "high_entropy_kl": 1}}
"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Not to the last bit: one minus the lower bound of a ratio is rounded, and so is a weight.
    #[test]
    fn at_its_neutral_setting_a_method_changes_nothing(arrays in arrays(0.9)) {
        let plain = objective(&ObjectiveSettings::default(), &arrays.minibatch());
        prop_assert_eq!(plain.statistics.method_gradient_share, None);
        let mut keys: BTreeSet<String> = published().into_iter().map(|(key, _)| key).collect();
        for line in NEUTRAL.trim().lines() {
            let methods: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
            let methods: Vec<_> = methods.into_iter().collect();
            keys.remove(&methods[0].0);
            let neutral = objective(&with(Loss::Clip, &methods), &arrays.minibatch());
            prop_assert!(neutral.statistics.method_gradient_share.unwrap() < 1e-12, "{line}");
            for (a, b) in neutral.d_logprobs.iter().zip(&plain.d_logprobs) {
                prop_assert!((a - b).abs() < 1e-12, "{}", line);
            }
        }
        prop_assert!(keys.is_empty(), "{:?}", keys);
    }

    /// Responses without advantage may be skipped in the update, so methods must leave them so.
    #[test]
    fn tokens_without_advantage_stay_without_gradient(mut arrays in arrays(0.9)) {
        let first = arrays.lengths[0];
        arrays.advantages[..first].fill(0.0);
        arrays.entropy_coefficient = 0.0;
        for methods in sets() {
            for loss in Loss::ALL {
                let objective = objective(&with(loss, &methods), &arrays.minibatch());
                let stays = objective.d_logprobs[..first].iter().all(|&d| d == 0.0);
                prop_assert!(stays, "{:?} {:?}", loss, methods);
            }
        }
    }

    #[test]
    fn the_order_of_responses_does_not_matter_to_any_loss_or_method(arrays in arrays(0.9)) {
        let backwards = arrays.reversed();
        for methods in sets() {
            for loss in Loss::ALL {
                let settings = with(loss, &methods);
                let [a, b] = [&arrays, &backwards].map(|a| objective(&settings, &a.minibatch()));
                prop_assert!((a.loss - b.loss).abs() < 1e-9 * (1.0 + a.loss.abs()));
                for (x, y) in arrays.reverse(&a.d_logprobs).iter().zip(&b.d_logprobs) {
                    let is_same = (x - y).abs() < 1e-9 * (1.0 + x.abs());
                    prop_assert!(is_same, "{:?} {:?}", loss, methods);
                }
            }
        }
    }
}

#[test]
fn each_method_has_its_metric_and_says_how_many_tokens_it_touched() {
    let arrays = Arrays {
        lengths: vec![2, 2],
        logprobs: vec![-1.0, -0.5, -2.0, -0.1],
        old_logprobs: vec![-1.2, -0.5, -1.7, -0.1],
        entropies: vec![1.0, 0.5, 2.0, 0.2],
        old_entropies: vec![1.0, 0.4, 2.0, 0.2],
        advantages: vec![1.0, 1.0, -1.0, -1.0],
        ..Default::default()
    };
    // Clip_B and Clip_V drop tokens of worse responses alone, whose S must be the least.
    let mut worse_first = arrays.clone();
    worse_first.advantages.reverse();
    let measured = |methods: &[(String, Value)]| {
        let filters = methods.iter().any(|(key, _)| key == "clip_b" || key == "clip_v");
        let arrays = if filters { &worse_first } else { &arrays };
        let statistics = objective(&with(Loss::Clip, methods), &arrays.minibatch()).statistics;
        let metrics = Statistics::metrics(&[statistics]).into_iter();
        metrics.filter(|(name, _)| name.starts_with("method/")).collect::<Vec<_>>()
    };
    // STEER's Omega is 0 where log pi = -H, which is so but for the last token. EntroPIC's alpha is
    // k_p times the distance of the mean entropy, 0.925, from the target.
    // The upper threshold is 0.5 - pi / 4 in a run's first step.
    let wider = 0.5 - [-1.0, -0.5, -2.0, -0.1].map(f64::exp).iter().sum::<f64>() / 16.0;
    let expected: [(&str, f64, &[Metric]); 11] = [
        ("w_reinforce", 0.5, &[]),
        ("repo_r", 1.0, &[]),
        ("entropy_advantage", 1.0, &[]),
        ("steer", 0.25, &[]),
        ("erc", 0.25, &[]),
        ("clip_b", 0.5, &[]),
        ("clip_v", 0.25, &[]),
        (
            "flexible_clip",
            1.0,
            &[("method/flexible_clip/low", 0.2), ("method/flexible_clip/high", wider)],
        ),
        ("bapo", 1.0, &[("method/bapo/lower", 0.6), ("method/bapo/upper", 1.2)]),
        ("archer", 0.5, &[]),
        ("entropic", 0.25, &[("method/entropic/alpha", 0.925 - 0.1)]),
    ];
    for (key, mut settings) in published() {
        let (_, share, own) = expected.iter().find(|(name, ..)| *name == key).unwrap();
        if key == "entropic" {
            settings["high_prob"] = json!(0.8);
        }
        if key == "clip_v" {
            settings["mu"] = json!(0.5);
        }
        if key == "clip_b" {
            settings["mu"] = json!(0.5);
        }
        let its = measured(&[(key.clone(), settings)]);
        assert_eq!(its[0], (&*format!("method/{key}"), *share));
        assert_eq!(its.len() - 2, own.len(), "{key}");
        for (ours, expected) in its[1..].iter().zip(*own) {
            assert!(ours.0 == expected.0 && (ours.1 - expected.1).abs() < 1e-12, "{ours:?}");
        }
        let (name, share) = its[its.len() - 1];
        assert!(name == "method/gradient_share" && share > 0.0, "{key}: {its:?}");
    }
    assert_eq!(measured(&[]), []);
}

/// The integral is the caller's, who adds up the errors of the updates.
#[test]
fn entropic_adds_the_errors_of_the_updates_before() {
    let method = Entropic { target: 0.5, k_p: 0.5, k_i: 0.25, high_prob: 0.0 };
    assert_eq!([method.error(0.75), method.error(f64::NAN)], [0.25, 0.0]);
    let arrays = |entropy_error| Arrays {
        lengths: vec![2],
        logprobs: vec![-1.0, -0.5],
        old_logprobs: vec![-1.0, -0.5],
        entropies: vec![1.0, 0.5],
        advantages: vec![1.0, -1.0],
        run: RunState { entropy_error, ..RunState::default() },
        ..Default::default()
    };
    let methods = Methods { entropic: Some(method.clone()), ..Methods::default() };
    let settings = ObjectiveSettings { methods, ..Default::default() };
    for (error, alpha) in [(0.0, 0.125), (1.5, 0.5), (-3.0, -0.625), (9.0, 1.0), (-9.0, -1.0)] {
        let objective = objective(&settings, &arrays(error).minibatch());
        assert_eq!(objective.mean_entropy, 0.75);
        assert_eq!(objective.statistics.methods[1], ("method/entropic/alpha", alpha));
        assert_eq!(objective.d_logprobs, [-(1.0 + alpha) / 2.0, (1.0 - alpha) / 2.0]);
    }
}

/// The caller moves zeta; without a target, a run's state has none.
#[test]
fn repo_takes_the_zeta_of_the_step() {
    let arrays = |repo_zeta| Arrays {
        lengths: vec![2],
        logprobs: vec![-1.0, -2.0],
        old_logprobs: vec![-1.0, -2.0],
        entropies: vec![1.0, 0.5],
        advantages: vec![1.0, -1.0],
        run: RunState { repo_zeta, ..RunState::default() },
        ..Default::default()
    };
    let of = |settings: Value, repo_zeta| {
        let settings = with(Loss::Clip, &[("repo_r".to_owned(), settings)]);
        objective(&settings, &arrays(repo_zeta).minibatch())
    };
    let steered = of(json!({ "target_entropy": 0.3 }), Some(0.25));
    assert_eq!(steered.statistics.methods[1], ("method/repo_r/zeta", 0.25));
    assert_eq!(steered.d_logprobs, [-0.625, 0.25]);
    let fixed = of(json!({ "zeta": 0.25 }), None);
    assert_eq!((fixed.d_logprobs, fixed.statistics.methods.len()), (steered.d_logprobs, 1));
}

/// The mean thresholds, for a token of probability 0.4, whose dynamic ones are 0.4 and 0.248.
#[test]
fn flexible_thresholds_follow_the_runs_progress() {
    let arrays = |progress, raises_entropy| Arrays {
        lengths: vec![1],
        logprobs: vec![f64::ln(0.4)],
        old_logprobs: vec![f64::ln(0.4)],
        entropies: vec![1.0],
        advantages: vec![1.0],
        run: RunState { progress, raises_entropy, ..RunState::default() },
        ..Default::default()
    };
    let (increase, decrease, decay) =
        ("increase-then-decrease", "decrease-increase-decrease", "oscillatory-decay");
    for (schedule, progress, raises, expected) in [
        (increase, 0.0, false, [0.2, 0.4]),
        (increase, 0.25, true, [0.2, 0.3]),
        (increase, 0.5, false, [0.2, 0.2]),
        (increase, 0.75, false, [0.224, 0.2]),
        (increase, 1.0, false, [0.2, 0.2]),
        (decrease, 0.0, false, [0.2, 0.2]),
        (decrease, 0.25, false, [0.2, 0.3]),
        (decrease, 0.5, true, [0.2, 0.4]),
        (decrease, 0.75, false, [0.224, 0.4]),
        (decay, 0.25, true, [0.2, 0.4]),
        (decay, 0.25, false, [0.248, 0.2]),
    ] {
        let methods = [("flexible_clip".to_owned(), json!({ "schedule": schedule }))];
        let batch = arrays(progress, raises);
        let statistics = objective(&with(Loss::Clip, &methods), &batch.minibatch()).statistics;
        let measured = [statistics.methods[1].1, statistics.methods[2].1];
        let is_near = measured.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(is_near, "{schedule} at {progress}: {measured:?} instead of {expected:?}");
    }
}

/// At half of a run that began with an entropy of 1 nat, the bounds are 0.2 and 0.6.
#[test]
fn the_oscillatory_decay_keeps_its_direction_between_its_bounds() {
    let raises =
        |before, entropy| FlexibleClip::default().raises_entropy(before, entropy, 1.0, 0.5);
    for (before, entropy, expected) in [
        (false, 0.9, false),
        (false, 0.5, false),
        (false, 0.2, true),
        (true, 0.5, true),
        (true, 0.61, false),
        (true, f64::NAN, true),
        (false, f64::NAN, false),
    ] {
        assert_eq!(raises(before, entropy), expected, "{before} {entropy}");
    }
}

/// Tokens 1 to 4 are of worse responses, and above mu deviations but for the last.
#[test]
fn clip_v_drops_the_tokens_whose_fall_would_lower_entropy_most() {
    let arrays = Arrays {
        lengths: vec![1, 4],
        logprobs: vec![-1.0; 5],
        old_logprobs: vec![-1.0; 5],
        entropies: vec![1.0; 5],
        advantages: vec![1.0, -1.0, -1.0, -1.0, -1.0],
        entropy_slopes: vec![0.9, 0.5, 0.7, 0.6, -0.2],
        ..Default::default()
    };
    for (max_fraction, dropped) in
        [(0.0, &[2][..]), (0.39, &[2]), (0.4, &[2, 3]), (1.0, &[1, 2, 3])]
    {
        let settings = json!({ "mu": 1.0, "max_fraction": max_fraction });
        let methods = [("clip_v".to_owned(), settings)];
        let made = objective(&with(Loss::Clip, &methods), &arrays.minibatch());
        let without: Vec<usize> = (0..5).filter(|&t| made.d_logprobs[t] == 0.0).collect();
        assert_eq!(without, dropped, "{max_fraction}");
    }
}

/// By k1 a token's term has a slope of its coefficient over the number of tokens. The 0.8 quantile
/// of these entropies is 0.72.
#[test]
fn archer_weighs_the_kl_term_of_tokens_of_high_entropy() {
    let arrays = Arrays {
        lengths: vec![5],
        logprobs: vec![-1.0; 5],
        old_logprobs: vec![-1.0; 5],
        entropies: vec![0.1, 0.4, 2.0, 0.3, 0.2],
        advantages: vec![0.0; 5],
        reference_logprobs: vec![-1.5; 5],
        ..Default::default()
    };
    let mut settings =
        with(Loss::Clip, &[("archer".to_owned(), json!({ "high_entropy_kl": 0.25 }))]);
    settings.reference_kl = ReferenceKl { coefficient: 0.5, estimator: KlEstimator::K1 };
    let made = objective(&settings, &arrays.minibatch());
    let by_hand = [0.1, 0.1, 0.025, 0.1, 0.1];
    for (slope, expected) in made.d_logprobs.iter().zip(by_hand) {
        assert!((slope - expected).abs() < 1e-15, "{:?}", made.d_logprobs);
    }
}

#[test]
fn the_catalogue_has_every_loss_advantage_and_method_under_its_setting() {
    let settings: Vec<&str> = catalogue().iter().map(|about| about.setting).collect();
    for loss in Loss::ALL {
        let setting = format!("objective.loss = {}", json!(loss));
        assert!(settings.contains(&&*setting), "{setting}");
    }
    for estimator in Estimator::ALL {
        let setting = format!("objective.advantage = {}", json!(estimator));
        assert!(settings.contains(&&*setting), "{setting}");
    }
    for (key, _) in published() {
        assert!(settings.contains(&&*format!("objective.methods.{key}")), "{key}");
    }
    let unique: BTreeSet<_> = settings.iter().collect();
    assert_eq!(unique.len(), settings.len());
    let unsourced: Vec<_> =
        catalogue().into_iter().filter(|about| !about.source.starts_with("arXiv:")).collect();
    assert_eq!(unsourced.len(), 1, "the autopilot alone is our own: {unsourced:?}");
}
