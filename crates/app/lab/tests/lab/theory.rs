//! The theory of covariance: what holds must be found to hold, and nothing else.

use isentrope_lab::log::RunLog;
use isentrope_lab::theory::{
    Agreement, CLAIMS, Case, Claim, Policy, TheoryOfRun, check, of_checks, of_run,
};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// Policies of one state and of several.
fn cases() -> Vec<Case> {
    (0..12).map(|number| Case::random([1, 5][number as usize % 2], 20, 7, number)).collect()
}

#[test]
fn all_claims_hold_to_first_order() {
    for seed in 0..5 {
        for (states, actions) in [(1, 2), (1, 50), (8, 50), (3, 7), (1, 3000)] {
            let cases: Vec<Case> = (0..8).map(|i| Case::random(states, actions, seed, i)).collect();
            for claim in &CLAIMS {
                let found = check(claim, &cases);
                assert!(
                    found.holds && (found.slope - 2.0).abs() < 0.05,
                    "{states} x {actions}: {found:?}"
                );
                for step in &found.steps {
                    let error = (step.actual - step.predicted).abs();
                    assert!(error < 100.0 * step.size * step.size, "{found:?}");
                }
            }
        }
    }
}

type Prediction = fn(&Case) -> f64;

/// Wrong by a sign, as a whole or within; by a factor that is easily overlooked; by what the other
/// theorem says.
#[test]
fn claims_with_a_mistake_do_not_hold() {
    fn pi(case: &Case) -> Vec<f64> {
        case.policy.probabilities()
    }
    let planted: [(usize, Prediction); 9] = [
        (0, |case| -(CLAIMS[0].prediction)(case)),
        (1, |case| -(CLAIMS[1].prediction)(case)),
        (2, |case| -(CLAIMS[2].prediction)(case)),
        (3, |case| -(CLAIMS[3].prediction)(case)),
        (0, |case| 1.01 * (CLAIMS[0].prediction)(case)),
        (1, |case| (CLAIMS[2].prediction)(case)),
        // The covariance without log pi's part: that of pi A with pi.
        (2, |case| -case.policy.covariance(&pi(case), &case.advantages)),
        // The bracket with a plus, and without the ratio.
        (3, |case| {
            let Case { policy, advantages, sampled, ratios, .. } = case;
            policy.mean_over_states(|state, p, range| {
                let entropy: f64 = -p.iter().map(|p| p * p.ln()).sum::<f64>();
                let of = |p: &f64| p * (p.ln() + entropy);
                let expected: f64 = p.iter().map(|p| p * of(p)).sum();
                let weight = advantages[range.start + sampled[state]] * ratios[state];
                -weight * (of(&p[sampled[state]]) + expected)
            })
        }),
        (3, |case| {
            let ones = Case { ratios: vec![1.0; case.ratios.len()], ..case.clone() };
            (CLAIMS[3].prediction)(&ones)
        }),
    ];
    for (i, (number, prediction)) in planted.into_iter().enumerate() {
        let found = check(&Claim { prediction, ..CLAIMS[number] }, &cases());
        assert!(!found.holds, "mistake {i}: {found:?}");
        let text = of_checks(&[found], 80, false);
        assert!(text.contains("NOT right to first order"), "{text}");
    }
}

#[test]
fn updates_that_are_not_those_of_the_claim_are_found_out() {
    let reversed: fn(&Case) -> Vec<f64> =
        |case| (CLAIMS[1].direction)(case).into_iter().map(|d| -d).collect();
    assert!(!check(&Claim { direction: reversed, ..CLAIMS[1] }, &cases()).holds);
}

#[test]
fn a_change_of_entropy_is_the_difference_of_two() {
    for case in cases() {
        for step in [1e-3, 0.1, 1.0, -2.0] {
            let change = case.policy.entropy_change(step, &case.direction);
            let difference =
                case.policy.moved(step, &case.direction).entropy() - case.policy.entropy();
            assert!(
                (change - difference).abs() < 1e-14 && change != 0.0,
                "{change} instead of {difference}"
            );
        }
    }
}

/// The expected reward of a policy, whose reward in each state is the advantage.
fn reward(case: &Case, policy: &Policy) -> f64 {
    policy.mean(&case.advantages)
}

#[test]
fn the_gradient_is_that_of_the_expected_reward_by_finite_differences() {
    for case in cases() {
        let gradient = (CLAIMS[1].direction)(&case);
        for (i, gradient) in gradient.iter().enumerate() {
            let mut one = vec![0.0; case.advantages.len()];
            one[i] = 1.0;
            let at = |step| reward(&case, &case.policy.moved(step, &one));
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((slope - gradient).abs() < 1e-9, "{i}: {gradient} instead of {slope}");
        }
    }
}

/// F dz = gradient, with F = d(s) (diag pi - pi pi^T) in each state, the Fisher information of the
/// logits.
#[test]
fn the_natural_gradient_solves_for_the_gradient_through_the_fisher_information() {
    for case in cases() {
        let [gradient, natural] = [1, 2].map(|i: usize| (CLAIMS[i].direction)(&case));
        let probabilities = case.policy.probabilities();
        for (state, visits) in case.policy.visits.iter().enumerate() {
            let of = state * case.policy.actions..(state + 1) * case.policy.actions;
            let (p, dz) = (&probabilities[of.clone()], &natural[of.clone()]);
            let mean: f64 = p.iter().zip(dz).map(|(p, d)| p * d).sum();
            for ((p, d), want) in p.iter().zip(dz).zip(&gradient[of]) {
                assert!((visits * p * (d - mean) - want).abs() < 1e-15);
            }
        }
    }
}

/// The mean contribution of sampled tokens is what theorem 1 says of all.
#[test]
fn contributions_of_tokens_have_the_mean_of_theorem_1() {
    for number in 0..6 {
        let case = Case { ratios: vec![1.0], ..Case::random(1, 12, 3, number) };
        let of = |action| (CLAIMS[3].prediction)(&Case { sampled: vec![action], ..case.clone() });
        let mean: f64 =
            case.policy.probabilities().iter().enumerate().map(|(a, p)| p * of(a)).sum();
        let whole = (CLAIMS[1].prediction)(&case);
        assert!((mean - whole).abs() < 1e-14, "{mean} instead of {whole}");
    }
}

#[test]
fn one_seed_is_one_case_and_policies_are_distributions() {
    assert_eq!(Case::random(3, 9, 1, 2), Case::random(3, 9, 1, 2));
    for (seed, number) in [(1, 3), (2, 2)] {
        assert_ne!(Case::random(3, 9, 1, 2), Case::random(3, 9, seed, number));
    }
    for case in cases() {
        let Case { policy, advantages, sampled, .. } = &case;
        assert!((policy.mean(&vec![1.0; advantages.len()]) - 1.0).abs() < 1e-14);
        assert!(
            policy.mean(advantages).abs() < 1e-14 && sampled.iter().all(|a| *a < policy.actions)
        );
        assert!(policy.entropy() > 0.0 && policy.entropy() < (policy.actions as f64).ln());
    }
}

#[test]
fn agreement_is_measured_as_it_is_defined() {
    let pairs: Vec<[f64; 2]> = [1.0, -2.0, 3.0, 0.5].map(|p| [p, 0.25 * p]).into();
    let exact = Agreement::of(&pairs);
    assert_eq!(
        (exact.steps, exact.same_sign, exact.slope, exact.explained),
        (4, Some(1.0), Some(0.25), Some(1.0))
    );
    assert!((exact.correlation.unwrap() - 1.0).abs() < 1e-12);
    let opposite: Vec<[f64; 2]> = pairs.iter().map(|[p, c]| [*p, -c]).collect();
    let opposite = Agreement::of(&opposite);
    assert_eq!((opposite.same_sign, opposite.slope), (Some(0.0), Some(-0.25)));
    // An offset is no part of the theory: the line goes through 0, and the correlation does not.
    let offset = Agreement::of(&[[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]);
    assert!((offset.correlation.unwrap() - 1.0).abs() < 1e-12);
    let (slope, explained) = (offset.slope.unwrap(), offset.explained.unwrap());
    assert!((slope - 20.0 / 14.0).abs() < 1e-12 && (explained - 400.0 / 14.0 / 29.0).abs() < 1e-12);
    for pairs in [&[][..], &[[0.0, 0.0]], &[[0.0, 1.0], [0.0, 2.0]]] {
        let Agreement { correlation, same_sign, slope, explained, .. } = Agreement::of(pairs);
        assert_eq!(
            (correlation, same_sign, slope, explained),
            (None, None, None, None),
            "{pairs:?}"
        );
    }
    // A constant has no correlation, though its mean is rounded.
    let constant =
        [0.001, -0.002, 0.003, 0.0007, -0.001, 0.002, 0.0013].map(|change| [0.1, change]);
    assert_eq!(Agreement::of(&constant).correlation, None);
    let one = Agreement::of(&[[2.0, 1.0]]);
    assert_eq!((one.correlation, one.slope, one.explained), (None, Some(0.5), None));
    assert_eq!(Agreement::of(&[[2.0, 1.0], [1.0, 5.0]]).correlation, None, "any two steps agree");
    // Fisher's z of 28 steps: 1.96 / 5 = 0.392 to either side.
    let pairs: Vec<[f64; 2]> =
        (0..7).flat_map(|_| [[1.0, 1.0], [-1.0, -1.0], [1.0, 0.0], [-1.0, 0.0]]).collect();
    let agreement = Agreement::of(&pairs);
    let [low, high] = agreement.correlation_interval.unwrap();
    let r = agreement.correlation.unwrap();
    assert!(
        (libm::atanh(high) - libm::atanh(r) - 0.392).abs() < 1e-9
            && (libm::atanh(r) - libm::atanh(low) - 0.392).abs() < 1e-9
    );
    assert_eq!(offset.correlation_interval, None, "three steps have none");
}

/// A constant has the sign of every step and accounts for most of the squares, and knows nothing.
#[test]
fn the_null_accounts_for_much() {
    let dir = tempfile::tempdir().unwrap();
    let changes = [-1.0, -1.3, -0.6, -1.2, -0.9];
    let steps: Vec<Value> =
        changes.iter().map(|change| json!({ "theory/entropy_change": change })).collect();
    let theory = TheoryOfRun::require(&run(dir.path(), &steps)).unwrap();
    let [(name, null)] = theory.unvarying.as_slice() else { panic!("{:?}", theory.unvarying) };
    assert_eq!(
        (*name, null.correlation, null.same_sign),
        ("the same at each step", None, Some(1.0))
    );
    let squares: f64 = changes.iter().map(|c| c * c).sum();
    assert!(
        (null.explained.unwrap() - 5.0 / squares).abs() < 1e-12 && null.explained > Some(0.9),
        "{null:?}"
    );
}

/// A run directory with these metrics, a step each.
fn run(dir: &Path, steps: &[Value]) -> RunLog {
    let line = |(step, metrics): (usize, &Value)| {
        let mut line = Map::from_iter([("step".to_owned(), json!(step))]);
        line.extend(metrics.as_object().unwrap().clone());
        Value::from(line).to_string() + "\n"
    };
    fs::write(dir.join("metrics.jsonl"), steps.iter().enumerate().map(line).collect::<String>())
        .unwrap();
    RunLog::open(dir).unwrap()
}

#[test]
fn a_run_is_compared_step_by_step() {
    let dir = tempfile::tempdir().unwrap();
    let step = |covariance: f64| {
        json!({
            "theory/entropy_change": -0.1 * covariance,
            "theory/entropy_change_token_mean": -0.2 * covariance,
            "theory/group_covariance": covariance,
            "theory/token_covariance": -covariance,
            "theory/token_covariance_pi": covariance * covariance,
            "theory/exact": -covariance,
            "theory/accuracy_0/groups": covariance.abs(),
            "theory/accuracy_0/entropy_change": covariance,
        })
    };
    let log = run(
        dir.path(),
        &[json!({}), step(1.0), step(2.0), json!({"theory/entropy_change": null}), step(-1.0)],
    );
    let theory = TheoryOfRun::require(&log).unwrap();
    assert_eq!(theory.steps, 3);
    assert!((theory.entropy_change + 0.2).abs() < 1e-12);
    let of = |metric: &str| theory.predictions.iter().find(|(p, _)| p.metric == metric).unwrap().1;
    let near = |got: Option<f64>, want: f64| (got.unwrap() - want).abs() < 1e-12;
    let group = of("theory/group_covariance");
    assert!(
        near(group.correlation, 1.0) && near(group.slope, 0.1) && near(group.same_sign, 1.0),
        "{group:?}"
    );
    let token = of("theory/token_covariance");
    assert!(
        near(token.correlation, -1.0) && near(token.slope, -0.2) && near(token.same_sign, 0.0),
        "{token:?}"
    );
    let exact = of("theory/exact");
    assert!(near(exact.slope, 0.2) && near(exact.explained, 1.0), "{exact:?}");
    let [bucket] = &theory.buckets[..] else { panic!("{:?}", theory.buckets) };
    assert_eq!((bucket.accuracy, bucket.groups, bucket.group_covariance), ("0", 4.0, None));
    assert!(near(bucket.entropy_change, (1.0 + 4.0 - 1.0) / 4.0));
    let text = of_run(&theory);
    for part in [
        "3 steps",
        "-0.2000 nats",
        "in groups",
        "+1.00 ",
        "-1.00 ",
        "100 %",
        "+1.00e-1",
        "n/a",
        "the same at each step",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_run_that_has_not_tracked_says_how_one_does() {
    let dir = tempfile::tempdir().unwrap();
    let log = run(dir.path(), &[json!({}), json!({"policy/entropy": 1.0})]);
    assert_eq!(TheoryOfRun::of(&log), None);
    let error = TheoryOfRun::require(&log).unwrap_err().to_string();
    assert!(
        error.contains("lab.track_theory=true") && error.contains(dir.path().to_str().unwrap()),
        "{error}"
    );
}
