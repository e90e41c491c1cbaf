//! Settings: defaults, spelling, limits and warnings.

use isentrope_objective::{
    Aggregation, ControllerSettings, Covariance, EntropyBonus, Estimator, KlEstimator, Loss,
    Method, ObjectiveSettings, ReferenceKl, Schedule, Steer, TargetEntropy,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

fn parse(value: Value) -> Result<ObjectiveSettings, serde_json::Error> {
    serde_json::from_value(value)
}

#[test]
fn an_empty_table_is_plain_grpo_and_draws_no_warning() {
    let settings = parse(json!({})).unwrap();
    assert_eq!(settings, ObjectiveSettings::default());
    settings.check().unwrap();
    assert!(settings.warnings(1, false).is_empty());
    assert!(!settings.needs_reference() && !settings.needs_greedy_baseline());
    assert_eq!(settings.covariance.resolved_fraction(), None);
}

#[test]
fn every_name_is_spelled_as_documented_and_comes_back() {
    let full = json!({
        "advantage": "reinforce++-baseline",
        "loss": "policy-gradient",
        "clip_low": 0.1,
        "clip_high": 0.28,
        "dual_clip": 3.0,
        "aggregation": "seq-mean-token-sum",
        "covariance": {
            "method": "kl-cov", "fraction": 0.0002, "low": 0.5, "high": 4.0, "kl": "k2", "coefficient": 2.0,
            "scope_responses": 16,
            "target_entropy": { "schedule": [[0.0, 0.6], [100.0, 0.3]] },
            "controller": { "steer": "coefficient", "gain": 10.0, "integral_steps": 20.0, "min": 0.1, "max": 9.0 }
        },
        "entropy_bonus": { "coefficient": 0.005, "target": null, "rate": null, "delta": null, "max": 0.1 },
        "reference_kl": { "coefficient": 0.04, "estimator": "k3" },
        "entropy_mask_fraction": 0.2
    });
    let settings = parse(full.clone()).unwrap();
    let expected = ObjectiveSettings {
        advantage: Estimator::ReinforcePlusPlusBaseline,
        loss: Loss::PolicyGradient,
        clip_low: 0.1,
        clip_high: 0.28,
        dual_clip: Some(3.0),
        aggregation: Aggregation::SeqMeanTokenSum,
        covariance: Covariance {
            method: Method::KlCov,
            fraction: Some(0.0002),
            low: 0.5,
            high: 4.0,
            kl: KlEstimator::K2,
            coefficient: 2.0,
            scope_responses: Some(16),
            target_entropy: Some(TargetEntropy::Scheduled(Schedule {
                schedule: vec![[0.0, 0.6], [100.0, 0.3]],
            })),
            controller: ControllerSettings {
                steer: Steer::Coefficient,
                gain: 10.0,
                integral_steps: 20.0,
                min: Some(0.1),
                max: Some(9.0),
            },
        },
        entropy_bonus: EntropyBonus {
            coefficient: 0.005,
            target: None,
            rate: None,
            delta: None,
            max: 0.1,
        },
        reference_kl: ReferenceKl { coefficient: 0.04, estimator: KlEstimator::K3 },
        entropy_mask_fraction: Some(0.2),
    };
    assert_eq!(settings, expected);
    assert_eq!(serde_json::to_value(&settings).unwrap(), full);
    let mut settings = settings;
    settings.covariance.scope_responses = None; // not with a target
    settings.check().unwrap();
    assert!(settings.needs_reference());
    assert!(parse(json!({ "advantage": "remax" })).unwrap().needs_greedy_baseline());
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
    let names =
        ["grpo", "dr-grpo", "rloo", "reinforce++", "reinforce++-baseline", "remax", "opo", "prime"];
    check_list(&Estimator::ALL, &names);
    check_list(&Loss::ALL, &["clip", "importance", "gspo", "cispo", "policy-gradient"]);
    check_list(&Aggregation::ALL, &["token-mean", "seq-mean-token-sum", "seq-mean-token-mean"]);
    check_list(&Method::ALL, &["none", "clip-cov", "kl-cov"]);
    check_list(&KlEstimator::ALL, &["abs", "k1", "k2", "k3"]);
}

#[test]
fn unknown_keys_are_refused_at_every_depth() {
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

#[test]
fn values_out_of_range_are_named_with_their_key() {
    let cases = [
        (json!({ "clip_low": -0.1 }), "objective.clip_low is -0.1"),
        (json!({ "clip_high": -1 }), "objective.clip_high is -1"),
        (json!({ "dual_clip": 1.0 }), "objective.dual_clip is 1"),
        (json!({ "entropy_mask_fraction": 20 }), "objective.entropy_mask_fraction is 20"),
        (json!({ "entropy_mask_fraction": 0 }), "objective.entropy_mask_fraction is 0"),
        (json!({ "covariance": { "fraction": 0.0 } }), "objective.covariance.fraction is 0"),
        (json!({ "covariance": { "fraction": 2 } }), "objective.covariance.fraction is 2"),
        (json!({ "covariance": { "low": 6 } }), "objective.covariance.low is 6"),
        (
            json!({ "covariance": { "scope_responses": 0 } }),
            "objective.covariance.scope_responses is 0",
        ),
        (json!({ "covariance": { "coefficient": 0 } }), "objective.covariance.coefficient is 0"),
        (
            json!({ "entropy_bonus": { "coefficient": -1 } }),
            "objective.entropy_bonus.coefficient is -1",
        ),
        (json!({ "entropy_bonus": { "target": 0 } }), "objective.entropy_bonus.target is 0"),
        (
            json!({ "entropy_bonus": { "target": 1, "rate": 0 } }),
            "objective.entropy_bonus.rate is 0",
        ),
        (
            json!({ "entropy_bonus": { "target": 1, "coefficient": 1 } }),
            "objective.entropy_bonus.max is 0.02",
        ),
        (
            json!({ "reference_kl": { "coefficient": -1 } }),
            "objective.reference_kl.coefficient is -1",
        ),
    ];
    for (table, expected) in cases {
        let error = parse(table).unwrap().check().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{expected}: it must be")), "{error}");
    }
    let infinite = ObjectiveSettings { clip_high: f64::INFINITY, ..Default::default() };
    assert_eq!(infinite.check().unwrap_err().key, "objective.clip_high");
    let nan = Covariance { high: f64::NAN, ..Default::default() };
    let nan = ObjectiveSettings { covariance: nan, ..Default::default() };
    assert_eq!(nan.check().unwrap_err().key, "objective.covariance.high");
}

#[test]
fn mistaken_settings_are_warned_of_by_key() {
    let cases = [
        (
            json!({ "covariance": { "method": "kl-cov", "fraction": 0.2 } }),
            8,
            "objective.covariance.fraction = 0.2",
        ),
        (
            json!({ "covariance": { "fraction": 0.002 } }),
            8,
            "objective.covariance.fraction = 0.002 has no effect",
        ),
        (json!({ "covariance": { "method": "kl-cov" } }), 1, "one update per rollout"),
        (
            json!({ "covariance": { "scope_responses": 8 } }),
            8,
            "objective.covariance.scope_responses = 8 has no effect",
        ),
        (
            json!({ "covariance": { "low": 0.3 } }),
            8,
            "objective.covariance.low = 0.3 has no effect",
        ),
        (
            json!({ "covariance": { "method": "kl-cov", "high": 9 } }),
            8,
            "only objective.covariance.method = \"clip-cov\"",
        ),
        (
            json!({ "covariance": { "method": "clip-cov", "coefficient": 2 } }),
            8,
            "objective.covariance.coefficient = 2 has no effect: only objective.covariance.method = \"kl-cov\" uses it",
        ),
        (
            json!({ "covariance": { "method": "clip-cov", "kl": "k2" } }),
            8,
            "objective.covariance.kl has no effect",
        ),
        (
            json!({ "covariance": { "method": "clip-cov", "controller": { "gain": 10 } } }),
            8,
            "objective.covariance.controller has no effect: objective.covariance.target_entropy is not set",
        ),
        (
            json!({ "entropy_bonus": { "coefficient": 0.001, "max": 0.1 } }),
            8,
            "objective.entropy_bonus.max = 0.1 has no",
        ),
        (
            json!({ "reference_kl": { "estimator": "k1" } }),
            8,
            "objective.reference_kl.estimator has no effect",
        ),
        (
            json!({ "reference_kl": { "coefficient": 0.01, "estimator": "k1" } }),
            8,
            "objective.reference_kl.estimator = \"k1\" penalises nothing",
        ),
        (
            json!({ "covariance": { "method": "kl-cov", "kl": "k1" } }),
            8,
            "objective.covariance.kl = \"k1\" does not hold the picked tokens",
        ),
        (
            json!({ "covariance": { "method": "kl-cov", "scope_responses": 1 } }),
            8,
            "objective.covariance.scope_responses = 1: all tokens of a response have one advantage",
        ),
        (
            json!({ "clip_low": 0, "clip_high": 0 }),
            8,
            "clip_high = 0 take the gradient of every token that has moved",
        ),
        (
            json!({ "loss": "importance", "clip_high": 0.28 }),
            8,
            "objective.clip_high = 0.28 has no effect",
        ),
        (json!({ "loss": "cispo", "dual_clip": 3 }), 8, "objective.dual_clip = 3 has no effect"),
        (json!({ "loss": "policy-gradient" }), 2, "policy-gradient"),
        (json!({ "loss": "gspo", "aggregation": "seq-mean-token-mean" }), 8, "0.0003 and 0.0004"),
        (json!({ "loss": "gspo", "clip_low": 3e-4, "clip_high": 4e-4 }), 8, "seq-mean-token-mean"),
    ];
    for (table, updates, expected) in cases {
        let warnings = parse(table.clone()).unwrap().warnings(updates, false);
        assert_eq!(warnings.len(), 1, "{table}: {warnings:?}");
        assert!(warnings[0].contains(expected), "{}", warnings[0]);
    }
}

#[test]
fn one_update_per_rollout_is_off_policy_where_responses_are_carried_over() {
    let kl_cov =
        parse(json!({ "loss": "importance", "covariance": { "method": "kl-cov" } })).unwrap();
    let [said] = &kl_cov.warnings(1, true)[..] else { panic!("one warning is due") };
    assert!(
        said.contains(
            "one update per rollout, but for responses carried over from an earlier one: its"
        ),
        "{said}"
    );
    let policy_gradient = parse(json!({ "loss": "policy-gradient" })).unwrap();
    let [said] = &policy_gradient.warnings(1, true)[..] else { panic!("one warning is due") };
    assert!(
        said.contains("growing old") && said.contains("the filter carries samples over"),
        "{said}"
    );
    assert_eq!(policy_gradient.warnings(1, false), [""; 0]);
    let unclipped = parse(json!({ "clip_low": 0, "clip_high": 0 })).unwrap();
    assert_eq!(unclipped.warnings(1, false), [""; 0]);
}

#[test]
fn published_settings_draw_no_warning() {
    for table in [
        json!({ "clip_high": 0.28 }),
        json!({ "clip_low": 1, "clip_high": 1, "covariance": { "method": "clip-cov" } }),
        json!({ "loss": "importance", "covariance": { "method": "kl-cov" } }),
        json!({ "loss": "gspo", "clip_low": 3e-4, "clip_high": 4e-4, "aggregation": "seq-mean-token-mean" }),
    ] {
        let settings = parse(table).unwrap();
        settings.check().unwrap();
        assert!(settings.warnings(8, false).is_empty(), "{:?}", settings.warnings(8, false));
    }
}

#[test]
fn an_entropy_is_not_held_inside_parts_of_a_minibatch() {
    let check = |scope: Option<usize>| {
        let covariance =
            json!({ "method": "clip-cov", "target_entropy": 0.5, "scope_responses": scope });
        parse(json!({ "covariance": covariance })).unwrap().check().map_err(|e| e.to_string())
    };
    check(None).unwrap();
    let refused = check(Some(16)).unwrap_err();
    assert!(
        refused.contains("target_entropy is 0.5") && refused.contains("scope_responses"),
        "{refused}"
    );
}

#[test]
fn k1_has_a_gradient_on_policy_and_holds_no_entropy() {
    let k1 = json!({ "loss": "importance", "covariance": { "method": "kl-cov", "kl": "k1" } });
    let [said] = &parse(k1).unwrap().warnings(1, false)[..] else { panic!("one warning is due") };
    assert!(!said.contains("one update per rollout"), "{said}");
    let error = |kl: &str, method: &str| {
        let covariance = json!({ "method": method, "kl": kl, "target_entropy": 0.5 });
        parse(json!({ "covariance": covariance })).unwrap().check().map_err(|e| e.to_string())
    };
    let refused = error("k1", "kl-cov").unwrap_err();
    assert!(refused.starts_with("objective.covariance.kl is \"k1\": "), "{refused}");
    for (kl, method) in [("abs", "kl-cov"), ("k2", "kl-cov"), ("k3", "kl-cov"), ("k1", "clip-cov")]
    {
        error(kl, method).unwrap();
    }
}

#[test]
fn defaults_of_the_fraction_are_the_papers() {
    let fraction = |method| Covariance { method, ..Default::default() }.resolved_fraction();
    assert_eq!(fraction(Method::ClipCov), Some(2e-4));
    assert_eq!(fraction(Method::KlCov), Some(2e-3));
}

#[test]
fn the_schema_documents_every_key() {
    let schema = serde_json::to_value(schemars::schema_for!(ObjectiveSettings)).unwrap();
    let tables = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    let mut keys = 0;
    for (key, property) in tables.filter_map(|t| t["properties"].as_object()).flatten() {
        assert!(property["description"].is_string(), "{key} has no description");
        keys += 1;
    }
    assert_eq!(
        keys,
        10 + 9 + 5 + 2 + 5 + 1 + 1,
        "of the tables, the controller and two forms of a target"
    );
}
