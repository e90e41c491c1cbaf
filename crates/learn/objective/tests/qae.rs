//! QAE's advantages against the paper's formula in fractions, and its two regimes.

use isentrope_objective::{Estimator, ObjectiveSettings, Outcome, Qae, advantages};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    quantile: String,
    /// The rewards of a group and their advantages.
    groups: Vec<[Vec<f64>; 2]>,
}

fn by(quantile: f64, groups: &[&[f64]]) -> Vec<f64> {
    let advantage = Estimator::Qae;
    let settings = ObjectiveSettings { advantage, qae: Qae { quantile }, ..Default::default() };
    settings.check().unwrap();
    let outcome = |group, &reward: &f64| Outcome { group, reward, tokens: 3, greedy_reward: 0.5 };
    let of_group = |(number, rewards): (usize, &&[f64])| -> Vec<Outcome> {
        rewards.iter().map(|reward| outcome(number, reward)).collect()
    };
    let outcomes: Vec<Outcome> = groups.iter().enumerate().flat_map(of_group).collect();
    advantages(&settings, &outcomes)
}

#[test]
fn advantages_are_those_of_the_formula() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("fixtures/qae/qae.json")).unwrap();
    assert_eq!(cases.len(), 4);
    for Case { quantile, groups } in &cases {
        assert_eq!(groups.len(), 31);
        let rewards: Vec<&[f64]> = groups.iter().map(|[rewards, _]| &rewards[..]).collect();
        let ours = by(quantile.parse().unwrap(), &rewards);
        let theirs = groups.iter().flat_map(|[_, advantages]| advantages);
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert!((ours - theirs).abs() < 1e-12, "{quantile}: {ours} instead of {theirs}");
        }
    }
}

/// With K = 0.4, prompts of which up to 6 of 10 responses are right learn from these alone.
#[test]
fn hard_prompts_learn_from_right_responses_and_easy_ones_from_wrong_ones() {
    for right in 0..=10 {
        let rewards: Vec<f64> = (0..10).map(|i| if i < right { 1.0 } else { 0.0 }).collect();
        let (successes, failures) =
            (&by(0.4, &[&rewards])[..right], &by(0.4, &[&rewards])[right..]);
        let is_hard = right <= 6;
        assert!(successes.iter().all(|&a| (a > 0.0) == is_hard && a >= 0.0), "{right}");
        assert!(failures.iter().all(|&a| (a < 0.0) != is_hard && a <= 0.0), "{right}");
    }
}
