//! On-policy distillation: the expected gradient of a teacher's advantages against central
//! differences of the reverse KL itself, over a whole vocabulary.

use crate::common::Arrays;
use isentrope_objective::{
    Aggregation, Covariance, Distillation, Estimator, Loss, Method, ObjectiveSettings,
    TeacherDivergence, objective,
};

const LOGITS: [f64; 6] = [0.4, -1.1, 0.9, 0.0, -0.3, 1.7];
const TEACHER: [f64; 6] = [1.2, 0.3, -0.8, 0.1, -2.0, 0.6];

fn teacher() -> Distillation {
    Distillation { teacher: Some("t".into()), ..Distillation::default() }
}

/// ln of the softmax of the logits of these tokens.
fn log_softmax(logits: &[f64], tokens: &[usize]) -> Vec<f64> {
    let mass: f64 = tokens.iter().map(|&token| logits[token].exp()).sum();
    tokens.iter().map(|&token| logits[token] - mass.ln()).collect()
}

/// KL(pi || pi_teacher), nats, both among these tokens.
fn reverse_kl(logits: &[f64], tokens: &[usize]) -> f64 {
    let (pi, teacher) = (log_softmax(logits, tokens), log_softmax(&TEACHER, tokens));
    pi.iter().zip(teacher).map(|(pi, teacher)| pi.exp() * (pi - teacher)).sum()
}

/// The expected gradient of the loss by the logits, over tokens drawn from the policy among these:
/// each is a response of one token, and counts by its probability.
fn expected_gradient(settings: &ObjectiveSettings, kept: &[usize]) -> Vec<f64> {
    let all: Vec<usize> = (0..LOGITS.len()).collect();
    let (whole, acting) = (log_softmax(&LOGITS, &all), log_softmax(&LOGITS, kept));
    let teacher = log_softmax(&TEACHER, &all);
    let logprobs: Vec<f64> = kept.iter().map(|&token| whole[token]).collect();
    let advantages = kept
        .iter()
        .map(|&token| settings.distillation.advantage(0.3, whole[token], teacher[token]))
        .collect();
    let log_mass = whole[kept[0]] - acting[0];
    let masses =
        (kept.len() < all.len()).then(|| [vec![log_mass; kept.len()], vec![log_mass; kept.len()]]);
    let arrays = Arrays {
        lengths: vec![1; kept.len()],
        old_logprobs: logprobs.clone(),
        logprobs,
        masses,
        entropies: vec![1.0; kept.len()],
        advantages,
        ..Arrays::default()
    };
    let result = objective(settings, &arrays.minibatch());
    let gradient_by = |k: usize| {
        let pi = whole[k].exp();
        let of_mass = if kept.contains(&k) { pi / log_mass.exp() - pi } else { -pi };
        let of_token = |(place, &token): (usize, &usize)| {
            let of_logprob = if token == k { 1.0 - pi } else { -pi };
            let by_mass = result.d_log_masses.get(place).map_or(0.0, |slope| slope * of_mass);
            let count = kept.len() as f64; // the loss divides by it
            acting[place].exp() * count * (result.d_logprobs[place] * of_logprob + by_mass)
        };
        kept.iter().enumerate().map(of_token).sum()
    };
    (0..LOGITS.len()).map(gradient_by).collect()
}

#[test]
fn the_expected_gradient_is_that_of_the_reverse_kl() {
    // The whole vocabulary, and what truncated sampling may have kept of it.
    for kept in [&[0, 1, 2, 3, 4, 5][..], &[0, 2, 5]] {
        for loss in [Loss::Importance, Loss::Clip, Loss::PolicyGradient, Loss::Cispo] {
            for coefficient in [1.0, 0.25] {
                let distillation = Distillation { coefficient, ..teacher() };
                let settings = ObjectiveSettings { loss, distillation, ..Default::default() };
                let gradient = expected_gradient(&settings, kept);
                for (k, ours) in gradient.into_iter().enumerate() {
                    let at = |by: f64| {
                        let mut logits = LOGITS;
                        logits[k] += by;
                        reverse_kl(&logits, kept)
                    };
                    let difference = coefficient * (at(1e-5) - at(-1e-5)) / 2e-5;
                    assert!((ours - difference).abs() < 1e-9, "{loss:?} {k}: {ours} {difference}");
                }
            }
        }
    }
}

/// The exact form: a term of the loss, weighed as the loss weighs tokens, beside which advantages
/// are the outcomes'.
#[test]
fn the_exact_divergence_is_a_term_of_every_token() {
    let (coefficient, divergence) = (0.25, TeacherDivergence::ReverseKl);
    let settings = ObjectiveSettings {
        advantage: Estimator::Distill,
        aggregation: Aggregation::SeqMeanTokenMean,
        distillation: Distillation { coefficient, divergence, ..teacher() },
        ..Default::default()
    };
    settings.check().unwrap();
    assert!(settings.has_reverse_kl());
    let tokens = 4;
    let arrays = Arrays {
        lengths: vec![1, 3],
        logprobs: vec![-1.0; tokens],
        old_logprobs: vec![-1.0; tokens],
        entropies: vec![1.0; tokens],
        advantages: vec![0.0; tokens],
        ..Arrays::default()
    };
    let mut result = objective(&settings, &arrays.minibatch());
    let weights = [1.0 / 2.0, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0];
    for (slope, weight) in result.d_divergences.iter().zip(weights) {
        assert!((slope - 0.25 * weight).abs() < 1e-8); // a length counts 1e-8 more
    }
    assert!(result.d_logprobs.iter().all(|slope| *slope == 0.0));
    let before = result.loss;
    result.add_divergences(&[0.3, 0.6, 0.0, 1.2]);
    let added = 0.25 * (0.5 * 0.3 + (0.6 + 1.2) / 6.0);
    assert!((result.loss - before - added).abs() < 1e-8);
    assert_eq!(result.statistics.loss, result.loss);
    assert!((result.statistics.kl_teacher.unwrap() - 2.1 / 4.0).abs() < 1e-15);
    // A method that reads advantages has none to read.
    let covariance = Covariance { method: Method::ClipCov, ..Covariance::default() };
    let said = ObjectiveSettings { covariance, ..settings.clone() }.warnings(1, false);
    assert!(said.iter().any(|said| said.contains("covariance.method has no effect")), "{said:?}");
    // KL-Cov picks tokens all the same, and its penalty acts from the second update on.
    let covariance = Covariance { method: Method::KlCov, ..Covariance::default() };
    let said = ObjectiveSettings { covariance, ..settings.clone() }.warnings(2, false);
    assert!(!said.iter().any(|said| said.contains("covariance.method")), "{said:?}");
    // The other form, and no teacher, have no such term.
    let sampled = ObjectiveSettings { distillation: teacher(), ..settings };
    assert!(objective(&sampled, &arrays.minibatch()).d_divergences.is_empty());
    let distillation = Distillation { divergence, ..Distillation::default() };
    assert!(!ObjectiveSettings { distillation, ..Default::default() }.has_reverse_kl());
}

#[test]
fn a_teacher_that_agrees_leaves_the_outcome_to_the_last_bit() {
    let distillation = Distillation::default();
    for outcome in [0.0, 0.1, -1.0 / 3.0] {
        assert_eq!(distillation.advantage(outcome, -0.7, -0.7).to_bits(), outcome.to_bits());
    }
    assert_eq!(distillation.advantage(0.5, -2.0, -0.5), 2.0);
}
