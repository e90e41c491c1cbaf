//! PRIME against PyTorch: advantages, the process model's loss and gradient, and its measurements
//! (fixtures/prime).

use isentrope_objective::{
    Discernment, Outcome, Prime, ProcessScale, ScoredResponse, prime_advantages, process_loss,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Oracle {
    beta: f64,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    group: Vec<usize>,
    correct: Vec<bool>,
    reward: Vec<f64>,
    log_ratios: Vec<Vec<f64>>,
    loss: f64,
    gradient: Vec<Vec<f64>>,
    accuracy: f64,
    calibration_error: f64,
    auc: Option<f64>,
    auc_within_prompts: Option<f64>,
    auc_first: [Option<f64>; 3],
    advantages: Vec<Advantages>,
}

#[derive(Deserialize)]
struct Advantages {
    normalised: bool,
    outcome_weight: f64,
    process_weight: f64,
    advantages: Vec<Vec<f64>>,
    process_share: f64,
}

fn oracle() -> Oracle {
    serde_json::from_str(include_str!("fixtures/prime/prime.json")).unwrap()
}

fn assert_near(what: &str, ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 1e-10 * theirs.abs().max(1.0), "{what}: {ours} and {theirs}");
}

fn flat(rows: &[Vec<f64>]) -> Vec<f64> {
    rows.iter().flatten().copied().collect()
}

#[test]
fn advantages_are_those_of_pytorch() {
    let Oracle { beta, cases } = oracle();
    for case in &cases {
        let outcomes: Vec<Outcome> = (case.group.iter().zip(&case.reward).zip(&case.log_ratios))
            .map(|((&group, &reward), row)| Outcome {
                group,
                reward,
                tokens: row.len(),
                greedy_reward: 0.0,
            })
            .collect();
        let rows: Vec<&[f64]> = case.log_ratios.iter().map(Vec::as_slice).collect();
        for expected in &case.advantages {
            let scale =
                if expected.normalised { ProcessScale::LargestReturn } else { ProcessScale::None };
            let Advantages { outcome_weight, process_weight, .. } = *expected;
            let prime = Prime { beta, outcome_weight, process_weight, process_scale: scale };
            let ours = prime_advantages(&prime, &outcomes, &rows);
            assert_near("process share", ours.process_share, expected.process_share);
            let (ours, theirs) = (flat(&ours.advantages), flat(&expected.advantages));
            assert_eq!(ours.len(), theirs.len());
            ours.iter().zip(&theirs).for_each(|(&a, &b)| assert_near("advantage", a, b));
        }
    }
}

#[test]
fn the_loss_its_gradient_and_what_is_measured_are_those_of_pytorch() {
    let Oracle { beta, cases } = oracle();
    for case in &cases {
        let lengths: Vec<usize> = case.log_ratios.iter().map(Vec::len).collect();
        let ours = process_loss(beta, &lengths, &flat(&case.log_ratios), &case.correct);
        assert_near("loss", ours.loss, case.loss);
        for (&a, &b) in ours.d_logprobs.iter().zip(&flat(&case.gradient)) {
            assert_near("gradient", a, b);
        }
        let responses: Vec<ScoredResponse<'_>> = (case
            .group
            .iter()
            .zip(&case.correct)
            .zip(&case.log_ratios))
        .map(|((&group, &correct), log_ratios)| ScoredResponse { group, correct, log_ratios })
        .collect();
        let ours = Discernment::of(beta, &responses).unwrap();
        assert_near("loss", ours.loss, case.loss);
        assert_near("accuracy", ours.accuracy, case.accuracy);
        assert_near("calibration error", ours.calibration_error, case.calibration_error);
        assert_eq!(ours.auc, case.auc);
        assert_eq!(ours.auc_within_prompts, case.auc_within_prompts);
        assert_eq!(ours.auc_first, case.auc_first);
    }
}
