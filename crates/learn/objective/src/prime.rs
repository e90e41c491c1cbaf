//! PRIME's advantages (arXiv:2502.01456): for each token, from the rewards of responses and from an
//! implicit process reward model's rewards of tokens. docs/concepts/entropy.md has the equations,
//! and where the published code differs from the paper.

use crate::advantage::{Outcome, rloo, whiten};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Added to the largest return, as in the reference.
const SCALE_EPSILON: f64 = 1e-6;

/// How the two parts of the advantage are combined.
#[derive(Clone, Copy, Debug)]
pub struct Prime {
    /// Factor of the log-ratios in the process rewards.
    pub beta: f64,
    /// Weight of the responses' rewards.
    pub outcome_weight: f64,
    /// Weight of the process rewards.
    pub process_weight: f64,
    /// The divisor of process rewards.
    pub process_scale: ProcessScale,
}

/// The divisor of PRIME's process rewards, before they are weighed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessScale {
    /// The largest return of process rewards in the rollout, in size, + 1e-6, so that `beta` has no
    /// effect on the advantage: as the published code has it (`prime_norm = batch_norm`).
    #[default]
    LargestReturn,
    /// Nothing, as in the paper.
    None,
}

/// Advantages of a rollout's tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct PrimeAdvantages {
    /// The advantage of each token, `[responses][tokens]`.
    pub advantages: Vec<Vec<f64>>,
    /// The share of the process part before whitening: sum |process| / (sum |process| + sum
    /// |outcome|) over the tokens, with their weights. 0 where both are 0.
    pub process_share: f64,
}

/// PRIME's advantages. `log_ratios` has log pi_phi - log pi_ref of each token of each response, in
/// nats, `[responses][tokens]`; phi is the process model, ref the frozen one that it began as.
///
/// The reward of token t of response i is r_t = beta log_ratio_t, and 0 at the last token, whose
/// reward is the outcome. With the mean m_j of r over the tokens of response j, and n responses in
/// a group, its baseline leaves one out as the published code does, r_t n / (n - 1) - sum_j m_j /
/// (n - 1), which is r_t less the mean of the others' m plus (r_t - m_i) / (n - 1); the paper has
/// not the last term. The process part of token t is the sum of that from t on, the outcome part
/// RLOO's advantage of the reward. Their weighted sum gets mean 0 and variance 1 over all tokens.
///
/// A response without others in its group has no baseline. Tokens whose sums are all equal have the
/// advantage 0.
///
/// # Panics
/// When there are not as many rows as outcomes, or a row has another length than its response.
pub fn prime_advantages(
    prime: &Prime,
    outcomes: &[Outcome],
    log_ratios: &[&[f64]],
) -> PrimeAdvantages {
    assert_eq!(outcomes.len(), log_ratios.len(), "one row per response");
    for (outcome, row) in outcomes.iter().zip(log_ratios) {
        assert_eq!(outcome.tokens, row.len(), "one log-ratio per token");
    }
    let mut rewards: Vec<Vec<f64>> =
        log_ratios.iter().map(|row| process_rewards(prime.beta, row)).collect();
    if prime.process_scale == ProcessScale::LargestReturn {
        let largest = rewards.iter().flat_map(|row| returns(row)).map(f64::abs).fold(0.0, f64::max);
        rewards.iter_mut().flatten().for_each(|reward| *reward /= largest + SCALE_EPSILON);
    }
    leave_one_out(outcomes, &mut rewards);
    let of_outcomes = rloo(outcomes);
    let (mut process_sum, mut outcome_sum) = (0.0, 0.0);
    let mut values: Vec<Vec<f64>> = Vec::with_capacity(outcomes.len());
    for (row, outcome) in rewards.iter().zip(of_outcomes) {
        let outcome = prime.outcome_weight * outcome;
        let add = |process: f64| {
            let process = prime.process_weight * process;
            process_sum += process.abs();
            outcome_sum += outcome.abs();
            process + outcome
        };
        values.push(returns(row).into_iter().map(add).collect());
    }
    let flat = values.concat();
    let white = whiten(&flat, &vec![1.0; flat.len()]);
    values.iter_mut().flatten().zip(white).for_each(|(value, white)| *value = white);
    let all = process_sum + outcome_sum;
    let process_share = if all > 0.0 { process_sum / all } else { 0.0 };
    PrimeAdvantages { advantages: values, process_share }
}

/// Rewards of a response's tokens by the process model.
fn process_rewards(beta: f64, log_ratios: &[f64]) -> Vec<f64> {
    let mut rewards: Vec<f64> = log_ratios.iter().map(|ratio| beta * ratio).collect();
    if let Some(last) = rewards.last_mut() {
        *last = 0.0;
    }
    rewards
}

/// Returns: for each token, the sum of its reward and all later ones.
fn returns(rewards: &[f64]) -> Vec<f64> {
    let mut returns = rewards.to_vec();
    for t in (1..returns.len()).rev() {
        returns[t - 1] += returns[t];
    }
    returns
}

/// Subtracts each group's baseline from its rewards.
fn leave_one_out(outcomes: &[Outcome], rewards: &mut [Vec<f64>]) {
    // The number of responses of each group, and the sum of their means.
    let mut groups: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (outcome, row) in outcomes.iter().zip(&*rewards) {
        let (count, means) = groups.entry(outcome.group).or_default();
        *count += 1.0;
        *means += row.iter().sum::<f64>() / row.len().max(1) as f64;
    }
    for (outcome, row) in outcomes.iter().zip(rewards) {
        let (n, means) = groups[&outcome.group];
        if n > 1.0 {
            row.iter_mut()
                .for_each(|reward| *reward = *reward * (n / (n - 1.0)) - means / (n - 1.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISHED: Prime = Prime {
        beta: 0.05,
        outcome_weight: 5.0,
        process_weight: 5.0,
        process_scale: ProcessScale::LargestReturn,
    };

    fn outcome(group: usize, reward: f64, tokens: usize) -> Outcome {
        Outcome { group, reward, tokens, greedy_reward: 0.0 }
    }

    #[test]
    fn what_does_not_differ_has_no_advantage() {
        let outcomes = [outcome(0, 0.7, 2), outcome(0, 0.7, 3), outcome(3, 0.1, 1)];
        let zeros = [0.0; 3];
        let none = prime_advantages(&PUBLISHED, &outcomes[..2], &[&zeros[..2], &zeros]);
        assert!(none.advantages.iter().flatten().all(|&a| a == 0.0));
        let alone = prime_advantages(&PUBLISHED, &outcomes[2..], &[&[0.3]]);
        assert_eq!(alone.advantages, [[0.0]], "one token has no variance");
        assert_eq!(prime_advantages(&PUBLISHED, &[], &[]).advantages, [[0.0; 0]; 0]);
    }
}
