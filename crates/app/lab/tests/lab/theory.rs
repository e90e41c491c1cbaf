//! The statements of docs/concepts/entropy.md on small softmax policies, where everything can be
//! computed exactly; and how a run's predictions agree with its entropy.

use isentrope_lab::log::RunLog;
use isentrope_lab::theory::{Agreement, TheoryOfRun, of_run};
use isentrope_random::{Draws, Purpose};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// A softmax policy in some states, with a way in which its logits may move. Rows are `[actions]`.
#[derive(Clone, Debug)]
struct Case {
    /// How often each state is met, adding up to 1.
    visits: Vec<f64>,
    logits: Vec<Vec<f64>>,
    /// A(s, a): rewards less their mean in the state.
    advantages: Vec<Vec<f64>>,
    direction: Vec<Vec<f64>>,
    /// The action that was sampled in each state, and its probability over the one it had then.
    sampled: Vec<(usize, f64)>,
}

fn logprobs(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|z| (z - largest).exp()).sum();
    logits.iter().map(|z| z - largest - sum.ln()).collect()
}

fn probabilities(logits: &[f64]) -> Vec<f64> {
    logprobs(logits).into_iter().map(f64::exp).collect()
}

fn mean(p: &[f64], x: &[f64]) -> f64 {
    p.iter().zip(x).map(|(p, x)| p * x).sum()
}

fn covariance(p: &[f64], x: &[f64], y: &[f64]) -> f64 {
    let products: Vec<f64> = x.iter().zip(y).map(|(x, y)| x * y).collect();
    mean(p, &products) - mean(p, x) * mean(p, y)
}

fn entropy(logits: &[f64]) -> f64 {
    -mean(&probabilities(logits), &logprobs(logits))
}

/// How the entropy changes in a state, to as many digits of a small change as of a large one: the
/// mean of `-((p'/p - 1) ln p + (p'/p) ln (p'/p))`, where `ln (p'/p) = dz - ln(1 + mean (e^dz -
/// 1))`.
fn entropy_change(logits: &[f64], step: f64, direction: &[f64]) -> f64 {
    let (logprobs, p) = (logprobs(logits), probabilities(logits));
    let growth: Vec<f64> = direction.iter().map(|d| (step * d).exp_m1()).collect();
    let of_all = mean(&p, &growth).ln_1p();
    let of_action = |(logprob, d): (&f64, &f64)| {
        let change = step * d - of_all;
        change.exp_m1() * logprob + change.exp() * change
    };
    -mean(&p, &logprobs.iter().zip(direction).map(of_action).collect::<Vec<_>>())
}

impl Case {
    fn random(states: usize, actions: usize, number: u64) -> Self {
        let normals = |kind: u64| -> Vec<Vec<f64>> {
            let mut draws = Draws::of(7, Purpose::Theory, number, kind);
            let mut normal = |i: usize| draws.normals(i as u64)[0];
            (0..states).map(|s| (0..actions).map(|a| normal(s * actions + a)).collect()).collect()
        };
        let (logits, mut advantages, others) = (normals(0), normals(1), normals(2));
        for (rewards, logits) in advantages.iter_mut().zip(&logits) {
            let mean = mean(&probabilities(logits), rewards);
            rewards.iter_mut().for_each(|reward| *reward -= mean);
        }
        let weights: Vec<f64> = others.iter().map(|row| 0.25 + row[0].abs()).collect();
        let visits = weights.iter().map(|weight| weight / weights.iter().sum::<f64>()).collect();
        let sampled = others.iter().enumerate().map(|(s, row)| (s % actions, (0.2 * row[1]).exp()));
        Self { visits, sampled: sampled.collect(), direction: normals(3), logits, advantages }
    }

    /// The mean over states of a function of their number and probabilities.
    fn over_states(&self, of: impl Fn(usize, &[f64]) -> f64) -> f64 {
        let each = |(s, logits): (usize, &Vec<f64>)| self.visits[s] * of(s, &probabilities(logits));
        self.logits.iter().enumerate().map(each).sum()
    }

    fn covariance_with_logprob(&self, change: &[Vec<f64>]) -> f64 {
        self.over_states(|s, p| covariance(p, &logprobs(&self.logits[s]), &change[s]))
    }

    /// `d(s) pi A`: the gradient of the expected reward by the logits.
    fn policy_gradient(&self) -> Vec<Vec<f64>> {
        let row = |s: usize| {
            let p = probabilities(&self.logits[s]);
            p.iter().zip(&self.advantages[s]).map(|(p, a)| self.visits[s] * p * a).collect()
        };
        (0..self.logits.len()).map(row).collect()
    }

    /// `A rho (1[a = y] - pi)`: the gradient of the surrogate's part from the sampled actions.
    fn gradient_of_samples(&self) -> Vec<Vec<f64>> {
        let row = |(s, (action, ratio)): (usize, &(usize, f64))| {
            let mut row: Vec<f64> = probabilities(&self.logits[s]).iter().map(|p| -p).collect();
            row[*action] += 1.0;
            row.iter().map(|x| x * self.advantages[s][*action] * ratio).collect()
        };
        self.sampled.iter().enumerate().map(row).collect()
    }

    /// `-A rho [pi_y (log pi_y + H) + sign sum_a pi_a^2 (log pi_a + H)]`, with the sign -1.
    fn contribution_of_samples(&self, sign: f64) -> f64 {
        self.over_states(|s, p| {
            let (action, ratio) = self.sampled[s];
            let h = entropy(&self.logits[s]);
            let pull: Vec<f64> = p.iter().map(|p| p * (p.ln() + h)).collect();
            -self.advantages[s][action] * ratio * (pull[action] + sign * mean(p, &pull))
        })
    }
}

type Direction = fn(&Case) -> Vec<Vec<f64>>;
type Prediction = fn(&Case) -> f64;

/// Lemma 1, theorems 1 (policy gradient) and 2 (natural gradient), and the contribution of one
/// sampled token: how the logits move, and what that does to the entropy to first order.
const CLAIMS: [(Direction, Prediction); 4] = [
    (|case| case.direction.clone(), |case| -case.covariance_with_logprob(&case.direction)),
    (Case::policy_gradient, |case| -case.covariance_with_logprob(&case.policy_gradient())),
    (|case| case.advantages.clone(), |case| -case.covariance_with_logprob(&case.advantages)),
    (Case::gradient_of_samples, |case| case.contribution_of_samples(-1.0)),
];

/// Whether the mean error of a prediction falls with the square of the step.
fn holds(cases: &[Case], (direction, prediction): (Direction, Prediction)) -> bool {
    let error = |step: f64| {
        let of = |case: &Case| {
            let rows = direction(case);
            let change = case.over_states(|s, _| entropy_change(&case.logits[s], step, &rows[s]));
            (change - step * prediction(case)).abs()
        };
        cases.iter().map(of).sum::<f64>()
    };
    let errors: Vec<f64> = [1e-5, 1e-4, 1e-3, 1e-2].map(error).into();
    errors.windows(2).all(|pair| ((pair[1] / pair[0]).log10() - 2.0).abs() < 0.1)
}

fn cases() -> Vec<Case> {
    (0..12).map(|number| Case::random([1, 5][number as usize % 2], 20, number)).collect()
}

#[test]
fn all_claims_hold_to_first_order() {
    for (states, actions) in [(1, 2), (1, 50), (8, 50), (3, 7), (1, 3000)] {
        let cases: Vec<Case> = (0..8).map(|i| Case::random(states, actions, i)).collect();
        for (number, claim) in CLAIMS.into_iter().enumerate() {
            assert!(holds(&cases, claim), "{number} of {states} x {actions}");
        }
    }
}

/// Wrong by a sign, as a whole or within; by a factor that is easily overlooked; by what the other
/// theorem says; without the ratio.
#[test]
fn claims_with_a_mistake_do_not_hold() {
    let planted: [(usize, Prediction); 8] = [
        (0, |case| -(CLAIMS[0].1)(case)),
        (1, |case| -(CLAIMS[1].1)(case)),
        (2, |case| -(CLAIMS[2].1)(case)),
        (3, |case| -(CLAIMS[3].1)(case)),
        (0, |case| 1.01 * (CLAIMS[0].1)(case)),
        (1, |case| (CLAIMS[2].1)(case)),
        (3, |case| case.contribution_of_samples(1.0)),
        (3, |case| {
            let sampled = case.sampled.iter().map(|(action, _)| (*action, 1.0)).collect();
            Case { sampled, ..case.clone() }.contribution_of_samples(-1.0)
        }),
    ];
    for (i, (number, prediction)) in planted.into_iter().enumerate() {
        assert!(!holds(&cases(), (CLAIMS[number].0, prediction)), "mistake {i}");
    }
}

#[test]
fn a_change_of_entropy_is_the_difference_of_two() {
    for case in cases() {
        for step in [1e-3, 0.1, 1.0, -2.0] {
            let (logits, direction) = (&case.logits[0], &case.direction[0]);
            let moved: Vec<f64> = logits.iter().zip(direction).map(|(z, d)| z + step * d).collect();
            let change = entropy_change(logits, step, direction);
            assert!((change - (entropy(&moved) - entropy(logits))).abs() < 1e-14 && change != 0.0);
        }
    }
}

/// The policy gradient is that of the expected reward by finite differences. The natural gradient
/// dz solves F dz = gradient, with the Fisher information F = d(s) (diag pi - pi pi^T).
#[test]
fn gradients_are_those_of_the_expected_reward() {
    for case in cases() {
        let gradient = case.policy_gradient();
        for (s, row) in gradient.iter().enumerate() {
            let (p, natural) = (probabilities(&case.logits[s]), &case.advantages[s]);
            for (a, of_action) in row.iter().enumerate() {
                let at = |step: f64| {
                    let mut logits = case.logits[s].clone();
                    logits[a] += step;
                    case.visits[s] * mean(&probabilities(&logits), &case.advantages[s])
                };
                assert!(((at(1e-5) - at(-1e-5)) / 2e-5 - of_action).abs() < 1e-9);
                let through = case.visits[s] * p[a] * (natural[a] - mean(&p, natural));
                assert!((through - of_action).abs() < 1e-15);
            }
        }
    }
}

/// The mean contribution of sampled tokens is what theorem 1 says of all.
#[test]
fn contributions_of_tokens_have_the_mean_of_theorem_1() {
    for number in 0..6 {
        let case = Case::random(1, 12, number);
        let of = |action| {
            Case { sampled: vec![(action, 1.0)], ..case.clone() }.contribution_of_samples(-1.0)
        };
        let contributions: Vec<f64> = (0..12).map(of).collect();
        let mean = mean(&probabilities(&case.logits[0]), &contributions);
        assert!((mean - (CLAIMS[1].1)(&case)).abs() < 1e-14);
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
