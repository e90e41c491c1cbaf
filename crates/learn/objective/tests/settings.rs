//! Settings: defaults, spelling, limits and warnings.

use isentrope_objective::{
    Aggregation, Covariance, Divergence, Estimator, KlEstimator, Loss, Method, ObjectiveSettings,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

fn parse(value: Value) -> Result<ObjectiveSettings, serde_json::Error> {
    serde_json::from_value(value)
}

/// The rows of a text, each an `[objective]` table as JSON, a bar, and what is to be found in a
/// message.
fn rows(text: &str) -> impl Iterator<Item = (&str, ObjectiveSettings, &str)> {
    text.trim().lines().map(|line| {
        let (table, part) = line.split_once(" | ").unwrap();
        (table, serde_json::from_str(table).unwrap(), part)
    })
}

#[test]
fn an_empty_table_is_plain_grpo_and_draws_no_warning() {
    let settings = parse(json!({})).unwrap();
    assert_eq!(settings, ObjectiveSettings::default());
    settings.check().unwrap();
    assert!(settings.warnings(1, false).is_empty());
    assert!(!settings.needs_reference() && !settings.needs_greedy_baseline());
    assert!(parse(json!({ "advantage": "remax" })).unwrap().needs_greedy_baseline());
    let fraction = |method| Covariance { method, ..Default::default() }.resolved_fraction();
    assert_eq!(Method::ALL.map(fraction), [None, Some(2e-4), Some(2e-3)], "the paper's");
}

#[test]
fn every_key_is_spelled_as_documented_and_comes_back() {
    let full = json!({
        "advantage": "reinforce++-baseline",
        "qae": { "quantile": 0.6 },
        "loss": "policy-gradient",
        "clip_low": 0.1,
        "clip_high": 0.28,
        "dual_clip": 3.0,
        "sapo": { "tau_pos": 1.0, "tau_neg": 1.05 },
        "dppo": { "divergence": "binary-kl", "delta_low": 0.05, "delta_high": 0.06 },
        "ce_gppo": { "beta1": 0.5, "beta2": 1.0 },
        "vespo": { "k_pos": 2.5, "lambda_pos": 3.5, "k_neg": 1.0, "lambda_neg": 2.5 },
        "aggregation": "seq-mean-token-sum",
        "covariance": {
            "method": "kl-cov", "fraction": 0.0002, "low": 0.5, "high": 4.0, "kl": "k2", "coefficient": 2.0,
            "scope_responses": 16,
            "by_advantage": true, "pick": "random",
            "target_entropy": { "schedule": [[0.0, 0.6], [100.0, 0.3]] },
            "controller": { "steer": "coefficient", "gain": 10.0, "integral_steps": 20.0, "min": 0.1, "max": 9.0 }
        },
        "entropy_bonus": { "coefficient": 0.005, "target": null, "rate": null, "delta": null, "max": 0.1 },
        "reference_kl": { "coefficient": 0.04, "estimator": "k3" },
        "distillation": {
            "teacher": "runs/teacher/checkpoints/best", "self_teacher": null,
            "teacher_prompt": "{prompt} {hint}", "coefficient": 0.5, "divergence": "reverse-kl"
        },
        "router_aux_coefficient": 0.01,
        "entropy_mask_fraction": 0.2,
        "methods": {
            "w_reinforce": { "lambda": 0.1 },
            "repo_r": {
                "zeta": 0.01, "target_entropy": null, "zeta_min": 0.0001, "zeta_max": 0.05
            },
            "entropy_advantage": { "alpha": 0.4, "kappa": 2.0 },
            "steer": { "weight_min": 0.8 },
            "clip_b": { "mu": 2.0 },
            "clip_v": { "mu": 2.0, "max_fraction": 0.5 },
            "erc": { "low": 0.95, "high": 1.05 },
            "flexible_clip": {
                "schedule": "oscillatory-decay", "upper_slope": -0.25, "upper_intercept": 0.5,
                "lower_slope": -0.13, "lower_intercept": 0.3
            },
            "bapo": {
                "target": 1.0, "lower_start": 0.6, "lower_max": 0.8, "lower_step": 0.05,
                "upper_start": 1.2, "upper_max": 2.0, "upper_step": 0.05
            },
            "archer": {
                "quantile": 0.8, "high_entropy_clip_low": 0.5, "high_entropy_clip_high": 0.5,
                "high_entropy_kl": 0.0
            },
            "entropic": { "target": 0.1, "k_p": 1.0, "k_i": 0.01, "high_prob": 0.95 }
        }
    });
    let mut settings = parse(full.clone()).unwrap();
    assert_eq!(serde_json::to_value(&settings).unwrap(), full);
    // Not with a target.
    (settings.covariance.scope_responses, settings.methods.entropic) = (None, None);
    settings.check().unwrap();
    assert!(settings.needs_reference());
    for table in [
        json!({ "clip": 0.2 }),
        json!({ "covariance": { "k_percent": 0.2 } }),
        json!({ "entropy_bonus": { "weight": 1 } }),
        json!({ "reference_kl": { "beta": 1 } }),
        json!({ "loss": "ppo" }),
    ] {
        parse(table).unwrap_err();
    }
}

/// Checks that a list has every value of its type, and that their names are these. The recipe's
/// schema and docs/reference/recipe.md are made from the type.
fn check_list<T: Copy + Serialize + DeserializeOwned + PartialEq + Debug + JsonSchema>(
    all: &[T],
    names: &[&str],
) {
    let listed: Vec<Value> = all.iter().map(|value| serde_json::to_value(value).unwrap()).collect();
    assert_eq!(listed, names);
    let of_type = schemars::schema_for!(T).to_value();
    let of_type: Vec<Value> =
        of_type["oneOf"].as_array().unwrap().iter().map(|value| value["const"].clone()).collect();
    assert_eq!(listed, of_type, "the list has not every value");
    let back: Vec<T> =
        listed.into_iter().map(|name| serde_json::from_value(name).unwrap()).collect();
    assert_eq!(back, all);
}

#[test]
fn each_list_has_every_value_under_its_name() {
    let names = [
        "grpo",
        "dr-grpo",
        "rloo",
        "reinforce++",
        "reinforce++-baseline",
        "remax",
        "opo",
        "maxrl",
        "qae",
        "prime",
        "distill",
    ];
    check_list(&Estimator::ALL, &names);
    let names = [
        "clip",
        "importance",
        "gspo",
        "cispo",
        "policy-gradient",
        "sapo",
        "gmpo",
        "dppo",
        "ce-gppo",
        "vespo",
    ];
    check_list(&Loss::ALL, &names);
    check_list(&[Divergence::BinaryTv, Divergence::BinaryKl], &["binary-tv", "binary-kl"]);
    check_list(&Aggregation::ALL, &["token-mean", "seq-mean-token-sum", "seq-mean-token-mean"]);
    check_list(&Method::ALL, &["none", "clip-cov", "kl-cov"]);
    check_list(&KlEstimator::ALL, &["abs", "k1", "k2", "k3"]);
}

const REFUSED: &str = r#"
{"clip_low": -0.1} | objective.clip_low is -0.1: it must be
{"clip_high": -1} | objective.clip_high is -1: it must be
{"dual_clip": 1.0} | objective.dual_clip is 1: it must be
{"methods": {"flexible_clip": {"lower_slope": -1}}} | objective.methods.flexible_clip.lower_slope is
{"qae": {"quantile": 0}} | objective.qae.quantile is 0: it must be
{"qae": {"quantile": 1}} | objective.qae.quantile is 1: it must be
{"entropy_mask_fraction": 20} | objective.entropy_mask_fraction is 20: it must be
{"entropy_mask_fraction": 0} | objective.entropy_mask_fraction is 0: it must be
{"covariance": {"fraction": 0.0}} | objective.covariance.fraction is 0: it must be
{"covariance": {"fraction": 2}} | objective.covariance.fraction is 2: it must be
{"covariance": {"low": 6}} | objective.covariance.low is 6: it must be
{"covariance": {"scope_responses": 0}} | objective.covariance.scope_responses is 0: it must be
{"covariance": {"coefficient": 0}} | objective.covariance.coefficient is 0: it must be
{"entropy_bonus": {"coefficient": -1}} | objective.entropy_bonus.coefficient is -1: it must be
{"entropy_bonus": {"target": 0}} | objective.entropy_bonus.target is 0: it must be
{"entropy_bonus": {"target": 1, "rate": 0}} | objective.entropy_bonus.rate is 0: it must be
{"entropy_bonus": {"target": 1, "coefficient": 1}} | objective.entropy_bonus.max is 0.02: it must be
{"advantage": "distill"} | objective.advantage is "distill": it learns from a teacher
{"distillation": {"teacher": "t", "self_teacher": "base"}} | objective.distillation.teacher is
{"distillation": {"self_teacher": "live"}} | objective.distillation.self_teacher is
{"distillation": {"teacher": "t", "teacher_prompt": "{answer}"}} | objective.distillation
{"distillation": {"teacher": "t", "teacher_prompt": "{prompt} {anwser}"}} | objective.d
{"distillation": {"teacher": "t", "coefficient": 0}} | objective.distillation.coefficient is 0: it must be
{"reference_kl": {"coefficient": -1}} | objective.reference_kl.coefficient is -1: it must be
{"sapo": {"tau_pos": 0}} | objective.sapo.tau_pos is 0: it must be
{"vespo": {"lambda_neg": 0}} | objective.vespo.lambda_neg is 0: it must be
{"methods": {"clip_b": {"mu": -1}}} | objective.methods.clip_b.mu is -1: it must be
{"dppo": {"delta_low": -1}} | objective.dppo.delta_low is -1: it must be
{"ce_gppo": {"beta1": -1}} | objective.ce_gppo.beta1 is -1: it must be
{"methods": {"w_reinforce": {"lambda": -1}}} | objective.methods.w_reinforce.lambda is -1: it
{"methods": {"entropy_advantage": {"alpha": 1, "kappa": 1}}} | objective.methods.entropy_adv
{"methods": {"steer": {"weight_min": 1}}} | objective.methods.steer.weight_min is 1: it must be
{"methods": {"erc": {"low": 1}}} | objective.methods.erc.low is 1: it must be
{"methods": {"bapo": {"lower_start": 0.9}}} | objective.methods.bapo.lower_start is 0.9: it must n
{"methods": {"bapo": {"upper_step": 0}}} | objective.methods.bapo.upper_step is 0: it must be
{"methods": {"entropic": {"target": -1}}} | objective.methods.entropic.target is -1: it must be
{"methods": {"repo_r": {"target_entropy": 1}}, "entropy_bonus": {"target": 1}} | objective.
{"methods": {"repo_r": {"target_entropy": 1}, "entropic": {}}} | objective.methods.
{"methods": {"repo_r": {"target_entropy": 1, "zeta": 0}}} | objective.methods.repo_r.zeta is
{"methods": {"repo_r": {"target_entropy": 1, "zeta_min": 0.1}}} | objective.methods.repo_r.zeta_m
{"methods": {"repo_r": {"target_entropy": 0}}} | objective.methods.repo_r.target
{"methods": {"entropic": {}}, "entropy_bonus": {"target": 1}} | objective.entropy_bonus.target is 1
{"methods": {"archer": {"quantile": 80}}} | objective.methods.archer.quantile is 80: it must
{"covariance": {"method": "clip-cov", "target_entropy": 0.5, "scope_responses": 16}} | objective.covariance.target_entropy is 0.5: the controller
{"covariance": {"method": "kl-cov", "target_entropy": 1, "pick": "worse"}} | objective.cov
{"covariance": {"method": "kl-cov", "kl": "k1", "target_entropy": 0.5}} | objective.covariance.kl is "k1": objective.covariance.target_entropy
"#;

#[test]
fn settings_that_cannot_be_meant_are_refused_by_key() {
    for (table, settings, part) in rows(REFUSED) {
        let error = settings.check().unwrap_err().to_string();
        assert!(error.starts_with(part), "{table}: {error}");
    }
    for (kl, method) in [("abs", "kl-cov"), ("k2", "kl-cov"), ("k3", "kl-cov"), ("k1", "clip-cov")]
    {
        let held = json!({ "method": method, "kl": kl, "target_entropy": 0.5 });
        parse(json!({ "covariance": held })).unwrap().check().unwrap();
    }
    let infinite = ObjectiveSettings { clip_high: f64::INFINITY, ..Default::default() };
    assert_eq!(infinite.check().unwrap_err().key, "objective.clip_high");
    let nan = Covariance { high: f64::NAN, ..Default::default() };
    let nan = ObjectiveSettings { covariance: nan, ..Default::default() };
    assert_eq!(nan.check().unwrap_err().key, "objective.covariance.high");
}

/// With eight updates per rollout.
const WARNED: &str = r#"
{"covariance": {"method": "kl-cov", "fraction": 0.2}} | objective.covariance.fraction = 0.2
{"covariance": {"fraction": 0.002}} | objective.covariance.fraction = 0.002 has no effect
{"covariance": {"scope_responses": 8}} | objective.covariance.scope_responses = 8 has no effect
{"covariance": {"low": 0.3}} | objective.covariance.low = 0.3 has no effect
{"covariance": {"method": "kl-cov", "high": 9}} | only objective.covariance.method = "clip-cov"
{"covariance": {"method": "clip-cov", "coefficient": 2}} | objective.covariance.coefficient = 2 has no effect: only objective.covariance.method = "kl-cov" uses it
{"covariance": {"method": "clip-cov", "kl": "k2"}} | objective.covariance.kl has no effect
{"covariance": {"method": "clip-cov", "pick": "random"}} | objective.covariance.pick has no effect
{"covariance": {"method": "clip-cov", "by_advantage": true}} | by_advantage has no effect
{"covariance": {"method": "kl-cov", "scope_responses": 1, "pick": "worse"}} | = 1: all
{"covariance": {"method": "clip-cov", "controller": {"gain": 10}}} | objective.covariance.controller has no effect: objective.covariance.target_entropy is not set
{"entropy_bonus": {"coefficient": 0.001, "max": 0.1}} | objective.entropy_bonus.max = 0.1 has no
{"methods": {"repo_r": {"zeta_max": 0.1}}} | target_entropy is not set
{"methods": {"archer": {"high_entropy_kl": 0.5}}} | high_entropy_kl = 0.5 has no effect
{"distillation": {"coefficient": 0.5}} | objective.distillation.coefficient = 0.5 has no effect: objective.distillation.teacher is not set
{"distillation": {"teacher_prompt": "{prompt} {answer}"}} | teacher is not set
{"distillation": {"divergence": "reverse-kl"}} | distillation.divergence has no effect
{"reference_kl": {"estimator": "k1"}} | objective.reference_kl.estimator has no effect
{"reference_kl": {"coefficient": 0.01, "estimator": "k1"}} | objective.reference_kl.estimator = "k1" penalises nothing
{"covariance": {"method": "kl-cov", "kl": "k1"}} | objective.covariance.kl = "k1" does not hold the picked tokens
{"covariance": {"method": "kl-cov", "scope_responses": 1}} | objective.covariance.scope_responses = 1: all tokens of a response have one advantage
{"clip_low": 0, "clip_high": 0} | clip_high = 0 take the gradient of every token that has moved
{"loss": "importance", "clip_high": 0.28} | objective.clip_high = 0.28 has no effect
{"loss": "cispo", "dual_clip": 3} | objective.dual_clip = 3 has no effect
{"loss": "policy-gradient"} | policy-gradient
{"loss": "gspo", "aggregation": "seq-mean-token-mean"} | 0.0003 and 0.0004
{"loss": "gspo", "clip_low": 3e-4, "clip_high": 4e-4} | seq-mean-token-mean
{"loss": "gmpo"} | objective.loss = "gmpo" is defined with objective.aggregation = "seq-mean
{"qae": {"quantile": 0.6}} | objective.qae has no effect: only objective.advantage = "qae" uses it
{"sapo": {"tau_neg": 2}} | objective.sapo has no effect: only objective.loss = "sapo" uses it
{"vespo": {"k_neg": 2}} | objective.vespo has no effect: only objective.loss = "vespo" uses it
{"methods": {"bapo": {}, "flexible_clip": {}}} | flexible_clip has no effect: objective.
{"loss": "importance", "methods": {"flexible_clip": {}}} | clip moves clip bounds that
{"loss": "importance", "methods": {"bapo": {}}} | objective.methods.bapo moves clip bounds that
{"clip_high": 0.28, "methods": {"bapo": {}}} | has no effect: objective.methods.bapo sets the bo
"#;
/// With one update per rollout, and no responses carried over.
const WARNED_ON_POLICY: &str = r#"
{"covariance": {"method": "kl-cov"}} | with one update per rollout: its
{"covariance": {"method": "kl-cov", "kl": "k1"}} | does not hold the picked tokens
{"methods": {"flexible_clip": {}}} | clip has no effect with one update per
{"methods": {"erc": {}}} | objective.methods.erc has no effect with one update per rollout
"#;
/// With one update per rollout, and responses carried over.
const WARNED_OF_CARRIED: &str = r#"
{"loss": "importance", "covariance": {"method": "kl-cov"}} | one update per rollout, but for responses carried over from an earlier one: its
{"loss": "policy-gradient"} | growing old, and the filter carries samples over
"#;
/// Published settings, with eight updates per rollout, and what is sound with one.
const SOUND: &str = r#"
{"clip_high": 0.28} | 8
{"advantage": "distill", "distillation": {"teacher": "t"}} | 8
{"distillation": {"teacher": "t"}, "covariance": {"method": "kl-cov", "scope_responses": 1}} | 8
{"clip_low": 1, "clip_high": 1, "covariance": {"method": "clip-cov"}} | 8
{"loss": "importance", "covariance": {"method": "kl-cov"}} | 8
{"loss": "gspo", "clip_low": 3e-4, "clip_high": 4e-4, "aggregation": "seq-mean-token-mean"} | 8
{"loss": "policy-gradient"} | 1
{"clip_low": 0, "clip_high": 0} | 1
{"loss": "sapo", "aggregation": "seq-mean-token-mean"} | 8
{"loss": "gmpo", "clip_low": 0.4, "clip_high": 0.4, "aggregation": "seq-mean-token-mean"} | 8
{"loss": "dppo", "dppo": {"divergence": "binary-kl"}} | 8
{"loss": "ce-gppo", "clip_high": 0.28} | 8
{"loss": "vespo", "advantage": "maxrl"} | 8
{"advantage": "qae", "qae": {"quantile": 0.6}} | 8
{"methods": {"repo_r": {}, "w_reinforce": {}, "steer": {}, "clip_b": {}, "clip_v": {}}} | 1
{"methods": {"erc": {}, "bapo": {}, "archer": {}}} | 8
{"clip_high": 0.28, "methods": {"flexible_clip": {}, "archer": {}}} | 8
"#;

#[test]
fn mistaken_settings_are_warned_of_by_key_and_sound_ones_are_not() {
    for (text, updates, carries_over) in
        [(WARNED, 8, false), (WARNED_ON_POLICY, 1, false), (WARNED_OF_CARRIED, 1, true)]
    {
        for (table, settings, part) in rows(text) {
            let warnings = settings.warnings(updates, carries_over);
            assert_eq!(warnings.len(), 1, "{table}: {warnings:?}");
            assert!(warnings[0].contains(part), "{}", warnings[0]);
        }
    }
    for (table, settings, updates) in rows(SOUND) {
        settings.check().unwrap();
        assert_eq!(settings.warnings(updates.parse().unwrap(), false), [""; 0], "{table}");
    }
    let taught = parse(json!({
        "advantage": "distill",
        "distillation": { "teacher": "t", "divergence": "reverse-kl" },
        "covariance": { "method": "kl-cov", "pick": "worse", "by_advantage": true },
    }));
    let warnings = taught.unwrap().warnings(8, false);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for (warning, key) in warnings.iter().zip(["pick", "by_advantage"]) {
        assert!(warning.contains(&format!("{key} leaves kl-cov without effect")), "{warning}");
    }
}
