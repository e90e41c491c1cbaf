//! Random policies, rewards and samples that claims are checked on.

use super::policy::Policy;
use isentrope_random::{Draws, Purpose};

/// How far rewards, logits and directions spread: standard deviations.
const SPREAD: f64 = 1.0;
/// How far the policy has moved from the one that sampled: standard deviation of the logarithm of
/// the ratio.
const RATIO_SPREAD: f64 = 0.2;

/// A policy, with rewards, directions and samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// It.
    pub policy: Policy,
    /// A(s, a): the reward less the mean reward of the state, `[states, actions]`.
    pub advantages: Vec<f64>,
    /// Any direction in which the logits might move, `[states, actions]`.
    pub direction: Vec<f64>,
    /// The action that was sampled in each state, `[states]`.
    pub sampled: Vec<usize>,
    /// Its probability over the one it was sampled with, `[states]`.
    pub ratios: Vec<f64>,
}

impl Case {
    /// Case `number` of a seed: logits, rewards and directions are normally distributed, actions
    /// are drawn from the policy.
    ///
    /// # Panics
    /// Without a state or an action.
    pub fn random(states: usize, actions: usize, seed: u64, number: u64) -> Self {
        assert!(states > 0 && actions > 0, "a policy has states and actions");
        // Each kind of numbers has a stream of its own.
        let stream = |kind: u64| Draws::of(seed, Purpose::Theory, number, kind);
        let normals = |kind, count: usize| -> Vec<f64> {
            let mut draws = stream(kind);
            (0..count as u64).map(|position| SPREAD * draws.normals(position)[0]).collect()
        };
        let visits = visits(states, &mut stream(0));
        let policy = Policy { actions, visits, logits: normals(1, states * actions) };
        let mut advantages = normals(2, states * actions);
        let probabilities = policy.probabilities();
        for (rewards, p) in advantages.chunks_mut(actions).zip(probabilities.chunks(actions)) {
            let mean: f64 = rewards.iter().zip(p).map(|(r, p)| r * p).sum();
            rewards.iter_mut().for_each(|reward| *reward -= mean);
        }
        let mut uniforms = stream(3);
        let sampled = probabilities.chunks(actions).enumerate();
        let sampled = sampled.map(|(state, p)| drawn(p, uniforms.uniform(state as u64))).collect();
        let ratios =
            normals(4, states).iter().map(|x| libm::exp(RATIO_SPREAD / SPREAD * x)).collect();
        Self { policy, advantages, direction: normals(5, states * actions), sampled, ratios }
    }
}

/// How often states are met: none more than a few times as often as another.
fn visits(states: usize, draws: &mut Draws) -> Vec<f64> {
    let weights: Vec<f64> = (0..states as u64).map(|state| 0.25 + draws.uniform(state)).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// The place of a uniform number in the cumulative distribution.
fn drawn(probabilities: &[f64], uniform: f64) -> usize {
    let mut below = 0.0;
    let at = probabilities.iter().position(|p| {
        below += p;
        uniform < below
    });
    at.unwrap_or(probabilities.len() - 1)
}
