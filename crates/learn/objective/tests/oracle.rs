//! Values, gradients and metrics against the reference trainer's own functions.

use crate::common::Arrays;
use isentrope_objective::{
    Aggregation, Covariance, Estimator, KlEstimator, Loss, Method, Objective, ObjectiveSettings,
    Outcome, ReferenceKl, advantages, objective,
};
use serde::Deserialize;
use std::collections::BTreeMap;

type Rows = Vec<Vec<f64>>;

#[derive(Deserialize)]
struct Oracle {
    losses: Vec<LossCase>,
    advantages: Vec<AdvantageCase>,
    kl: Vec<KlCase>,
}

#[derive(Deserialize)]
struct LossCase {
    seed: u64,
    old_logprob: Rows,
    logprob: Rows,
    advantage: Rows,
    mask: Rows,
    results: Vec<LossResult>,
}

#[derive(Deserialize)]
struct LossResult {
    loss: String,
    params: BTreeMap<String, f64>,
    aggregation: Aggregation,
    value: f64,
    grad: Rows,
    metrics: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct AdvantageCase {
    reward: Vec<f64>,
    length: Vec<usize>,
    group: Vec<usize>,
    results: Vec<AdvantageResult>,
}

#[derive(Deserialize)]
struct AdvantageResult {
    estimator: String,
    advantage: Rows,
}

#[derive(Deserialize)]
struct KlCase {
    seed: u64,
    estimator: String,
    value: Rows,
}

fn oracle() -> Oracle {
    serde_json::from_str(include_str!("fixtures/objective.json")).unwrap()
}

/// The entries whose mask is 1, row by row.
fn counted(rows: &Rows, mask: &Rows) -> Vec<f64> {
    rows.iter()
        .flatten()
        .zip(mask.iter().flatten())
        .filter(|&(_, &mask)| mask == 1.0)
        .map(|(&value, _)| value)
        .collect()
}

impl LossCase {
    fn arrays(&self) -> Arrays {
        let logprobs = counted(&self.logprob, &self.mask);
        Arrays {
            lengths: self.mask.iter().map(|row| row.iter().sum::<f64>() as usize).collect(),
            old_logprobs: counted(&self.old_logprob, &self.mask),
            entropies: vec![0.0; logprobs.len()],
            advantages: counted(&self.advantage, &self.mask),
            logprobs,
            ..Default::default()
        }
    }
}

impl LossResult {
    fn settings(&self) -> ObjectiveSettings {
        let param = |name: &str, default: f64| self.params.get(name).copied().unwrap_or(default);
        let mut settings =
            ObjectiveSettings { aggregation: self.aggregation, ..Default::default() };
        settings.clip_low = param("clip_low", 0.2);
        settings.clip_high = param("clip_high", 0.2);
        settings.dual_clip = self.params.get("dual_clip").copied();
        let covariance = Covariance {
            fraction: self.params.get("fraction").copied(),
            low: param("cov_low", 1.0),
            high: param("cov_high", 5.0),
            coefficient: param("kl_coef", 1.0),
            ..Default::default()
        };
        match self.loss.as_str() {
            "clip" => {}
            "kl-cov" => {
                settings.loss = Loss::Importance;
                settings.covariance = Covariance { method: Method::KlCov, ..covariance };
            }
            "clip-cov" => {
                settings.covariance = Covariance { method: Method::ClipCov, ..covariance }
            }
            "gspo" => settings.loss = Loss::Gspo,
            "cispo" => settings.loss = Loss::Cispo,
            "gpg" => settings.loss = Loss::PolicyGradient,
            other => panic!("unknown loss {other}"),
        }
        settings
    }

    /// The measurement that the reference reports under a name.
    fn metric(&self, name: &str, objective: &Objective) -> f64 {
        let statistics = &objective.statistics;
        match name {
            "actor/ppo_kl" if self.loss == "kl-cov" => statistics.log_ratio_abs,
            "actor/ppo_kl" => statistics.kl_old,
            "actor/pg_clipfrac" if self.loss == "clip-cov" => {
                statistics.cov_selected as f64 / statistics.tokens as f64
            }
            "actor/pg_clipfrac" => statistics.clip_fraction(),
            "actor/pg_clipfrac_lower" => statistics.dual_clip_fraction,
            other => panic!("unknown metric {other}"),
        }
    }
}

fn assert_near(ours: f64, theirs: f64, what: &str) {
    assert!((ours - theirs).abs() < 1e-9, "{what}: {ours} instead of {theirs}");
}

#[test]
fn losses_gradients_and_metrics_are_those_of_the_reference() {
    let mut results = 0;
    let mut missing = Loss::ALL.to_vec();
    for case in oracle().losses {
        let arrays = case.arrays();
        for result in &case.results {
            let what = format!(
                "case {} {} {:?} {:?}",
                case.seed, result.loss, result.params, result.aggregation
            );
            let settings = result.settings();
            settings.check().unwrap();
            missing.retain(|&loss| loss != settings.loss);
            let ours = objective(&settings, &arrays.minibatch());
            assert_near(ours.loss, result.value, &what);
            assert_eq!(ours.statistics.loss, ours.loss);
            let gradient = counted(&result.grad, &case.mask);
            assert_eq!(ours.d_logprobs.len(), gradient.len());
            for (t, (&ours, theirs)) in ours.d_logprobs.iter().zip(gradient).enumerate() {
                assert_near(ours, theirs, &format!("{what}, token {t}"));
            }
            assert!(ours.d_entropies.iter().all(|&d| d == 0.0));
            for (name, &theirs) in &result.metrics {
                assert_near(result.metric(name, &ours), theirs, &format!("{what}, {name}"));
            }
            results += 1;
        }
    }
    assert_eq!(results, 75);
    // methods.rs has the values of these.
    let elsewhere = [Loss::Sapo, Loss::Gmpo, Loss::Dppo, Loss::CeGppo, Loss::Vespo];
    missing.retain(|loss| !elsewhere.contains(loss));
    assert_eq!(missing, [], "losses without a reference");
}

#[test]
fn advantages_are_those_of_the_reference() {
    for case in oracle().advantages {
        let outcomes: Vec<Outcome> = (0..case.reward.len())
            .map(|i| Outcome {
                group: case.group[i],
                reward: case.reward[i],
                tokens: case.length[i],
                greedy_reward: 0.5,
            })
            .collect();
        let mut missing = Estimator::ALL.to_vec();
        // These have tests of their own.
        let known_elsewhere =
            [Estimator::Prime, Estimator::Distill, Estimator::MaxRl, Estimator::Qae];
        missing.retain(|estimator| !known_elsewhere.contains(estimator));
        for result in &case.results {
            let name =
                if result.estimator == "grpo-no-std" { "dr-grpo" } else { &result.estimator };
            let advantage: Estimator = serde_json::from_value(name.into()).unwrap();
            missing.retain(|&other| other != advantage);
            let settings = ObjectiveSettings { advantage, ..Default::default() };
            let ours = advantages(&settings, &outcomes);
            for (i, row) in result.advantage.iter().enumerate() {
                for &theirs in &row[..case.length[i]] {
                    assert_near(ours[i], theirs, &format!("{name}, response {i}"));
                }
            }
        }
        assert_eq!(missing, [], "estimators without a reference");
    }
}

/// The KL estimates, one token at a time through the loss: without advantages nothing else is left
/// in it.
#[test]
fn kl_estimates_are_those_of_the_reference() {
    let oracle = oracle();
    assert_eq!(oracle.kl.len(), 12);
    for kl in &oracle.kl {
        let estimator = match kl.estimator.as_str() {
            "kl" => KlEstimator::K1,
            "abs" => KlEstimator::Abs,
            "mse" => KlEstimator::K2,
            "low_var_kl" => KlEstimator::K3,
            other => panic!("unknown estimator {other}"),
        };
        let case = oracle.losses.iter().find(|case| case.seed == kl.seed).unwrap();
        let settings = ObjectiveSettings {
            reference_kl: ReferenceKl { coefficient: 1.0, estimator },
            ..Default::default()
        };
        for ((logprobs, references), values) in
            case.logprob.iter().zip(&case.old_logprob).zip(&kl.value)
        {
            for ((&logprob, &reference), &theirs) in logprobs.iter().zip(references).zip(values) {
                let token = Arrays {
                    lengths: vec![1],
                    logprobs: vec![logprob],
                    old_logprobs: vec![logprob],
                    entropies: vec![0.0],
                    advantages: vec![0.0],
                    reference_logprobs: vec![reference],
                    ..Default::default()
                };
                let ours = objective(&settings, &token.minibatch());
                assert_near(ours.loss, theirs, &kl.estimator);
                assert_eq!(ours.statistics.kl_reference, Some(ours.loss));
            }
        }
    }
}
