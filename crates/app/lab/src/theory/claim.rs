//! Claims of the theory: how the logits move, and what that does to the entropy, to first order in
//! the step.

use super::case::Case;

/// A statement that can be checked.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Its name in the paper.
    pub name: &'static str,
    /// The change of the policy.
    pub update: &'static str,
    /// The claimed change of its entropy.
    pub formula: &'static str,
    /// How the logits move for a step of 1, `[states, actions]`.
    pub direction: fn(&Case) -> Vec<f64>,
    /// How the entropy is said to change for a step of 1.
    pub prediction: fn(&Case) -> f64,
}

/// Lemma 1, theorems 1 and 2, and what a single sampled token contributes.
pub const CLAIMS: [Claim; 4] = [
    Claim {
        name: "Lemma 1",
        update: "any small change dz of the logits",
        formula: "dH = -E_s Cov_a(log pi, dz)",
        direction: |case| case.direction.clone(),
        prediction: |case| -covariance_with_logprob(case, &case.direction),
    },
    Claim {
        name: "Theorem 1",
        update: "a step along the policy gradient: dz = eta d(s) pi A",
        formula: "dH = -eta E_s d(s) Cov_a(log pi, pi A)",
        direction: policy_gradient,
        prediction: |case| -covariance_with_logprob(case, &policy_gradient(case)),
    },
    Claim {
        name: "Theorem 2",
        update: "a step along the natural gradient: dz = eta A",
        formula: "dH = -eta E_s Cov_a(log pi, A)",
        direction: |case| case.advantages.clone(),
        prediction: |case| -covariance_with_logprob(case, &case.advantages),
    },
    Claim {
        name: "one token",
        update: "a step along A rho grad log pi(y), y sampled in each state",
        formula: "dH = -eta E_s A rho [pi_y (log pi_y + H) - sum_a pi_a^2 (log pi_a + H)]",
        direction: gradient_of_samples,
        prediction: contribution_of_samples,
    },
];

fn covariance_with_logprob(case: &Case, change: &[f64]) -> f64 {
    case.policy.covariance(&case.policy.logprobs(), change)
}

/// The gradient of the expected reward by the logits, exactly: `d(s) pi(a|s) A(s, a)`.
fn policy_gradient(case: &Case) -> Vec<f64> {
    let Case { policy, advantages, .. } = case;
    let visits =
        policy.visits.iter().flat_map(|visits| std::iter::repeat_n(visits, policy.actions));
    let gradient = policy.probabilities().into_iter().zip(advantages).zip(visits);
    gradient.map(|((p, advantage), visits)| visits * p * advantage).collect()
}

/// `A rho (1[a = y] - pi_a)`: the gradient of the surrogate objective's part from one sampled
/// action of each state.
fn gradient_of_samples(case: &Case) -> Vec<f64> {
    let Case { policy, advantages, sampled, ratios, .. } = case;
    let mut gradient: Vec<f64> = policy.probabilities().into_iter().map(|p| -p).collect();
    for (state, (&action, ratio)) in sampled.iter().zip(ratios).enumerate() {
        let first = state * policy.actions;
        gradient[first + action] += 1.0;
        let weight = advantages[first + action] * ratio;
        gradient[first..first + policy.actions].iter_mut().for_each(|g| *g *= weight);
    }
    gradient
}

fn contribution_of_samples(case: &Case) -> f64 {
    let Case { policy, advantages, sampled, ratios, .. } = case;
    policy.mean_over_states(|state, probabilities, range| {
        let pull = |p: f64, entropy: f64| p * (libm::log(p) + entropy);
        let entropy: f64 = -probabilities.iter().map(|p| p * libm::log(*p)).sum::<f64>();
        let expected: f64 = probabilities.iter().map(|p| p * pull(*p, entropy)).sum();
        let action = sampled[state];
        let weight = advantages[range.start + action] * ratios[state];
        -weight * (pull(probabilities[action], entropy) - expected)
    })
}
