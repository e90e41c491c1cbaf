//! Minibatches that own their arrays, and random ones.

use isentrope_objective::{DrawKey, LossTerms, Minibatch, RunState, Truncation};
use proptest::prelude::*;

/// A minibatch's arrays, each `[tokens]` but the lengths.
#[derive(Clone, Debug, Default)]
pub struct Arrays {
    pub lengths: Vec<usize>,
    pub logprobs: Vec<f64>,
    pub old_logprobs: Vec<f64>,
    /// Log-masses of what truncated sampling has kept, now and when it was sampled.
    pub masses: Option<[Vec<f64>; 2]>,
    pub entropies: Vec<f64>,
    /// Empty for the same as `entropies`.
    pub old_entropies: Vec<f64>,
    pub advantages: Vec<f64>,
    /// Empty for the same as `entropies`: any numbers do.
    pub entropy_slopes: Vec<f64>,
    pub reference_logprobs: Vec<f64>,
    pub entropy_coefficient: f64,
    pub run: RunState,
    pub key: DrawKey,
}

impl Arrays {
    /// These responses in the opposite order.
    pub fn reversed(&self) -> Self {
        Self {
            lengths: self.lengths.iter().rev().copied().collect(),
            logprobs: self.reverse(&self.logprobs),
            old_logprobs: self.reverse(&self.old_logprobs),
            entropies: self.reverse(&self.entropies),
            old_entropies: self.reverse(&self.old_entropies),
            advantages: self.reverse(&self.advantages),
            entropy_slopes: self.reverse(&self.entropy_slopes),
            reference_logprobs: self.reverse(&self.reference_logprobs),
            masses: self.masses.as_ref().map(|masses| masses.each_ref().map(|of| self.reverse(of))),
            ..self.clone()
        }
    }

    /// Numbers of tokens in the order of [`reversed`](Self::reversed).
    pub fn reverse(&self, values: &[f64]) -> Vec<f64> {
        if values.is_empty() {
            return Vec::new();
        }
        let mut end = values.len();
        let of_response = |&length: &usize| {
            end -= length;
            values[end..end + length].to_vec()
        };
        self.lengths.iter().rev().flat_map(of_response).collect()
    }

    pub fn minibatch(&self) -> Minibatch<'_> {
        Minibatch {
            lengths: &self.lengths,
            logprobs: &self.logprobs,
            old_logprobs: &self.old_logprobs,
            truncation: self
                .masses
                .as_ref()
                .map(|[log_masses, old_log_masses]| Truncation { log_masses, old_log_masses }),
            entropies: &self.entropies,
            old_entropies: match &self.old_entropies {
                same if same.is_empty() => &self.entropies,
                old => old,
            },
            advantages: &self.advantages,
            terms: LossTerms {
                reference_logprobs: Some(&self.reference_logprobs),
                entropy_slopes: Some(match &self.entropy_slopes {
                    same if same.is_empty() => &self.entropies,
                    slopes => slopes,
                }),
                entropy_coefficient: self.entropy_coefficient,
                steered: None,
                key: self.key,
                run: self.run,
            },
        }
    }
}

/// A log-ratio of either sign, away from the kink of |d| at 0.
fn log_ratio(largest: f64) -> impl Strategy<Value = f64> {
    (0.001..largest, any::<bool>()).prop_map(|(size, negative)| if negative { -size } else { size })
}

/// Responses of some tokens each, with log-ratios up to `spread` in size and one advantage per
/// response.
pub fn arrays(spread: f64) -> impl Strategy<Value = Arrays> {
    let token = (-4.0f64..-0.01, log_ratio(spread), 0.0f64..3.0, log_ratio(0.8));
    let response = (-2.0f64..2.0, prop::collection::vec(token, 1..12));
    (prop::collection::vec(response, 1..8), 0.0f64..0.1, any::<u64>(), any::<bool>()).prop_map(
        |(responses, entropy_coefficient, seed, is_truncated)| {
            let mut arrays = Arrays {
                entropy_coefficient,
                key: DrawKey { seed, step: 4, update: 2 },
                ..Default::default()
            };
            for (advantage, tokens) in responses {
                arrays.lengths.push(tokens.len());
                for (logprob, log_ratio, entropy, distance) in tokens {
                    arrays.logprobs.push(logprob);
                    arrays.old_logprobs.push(logprob - log_ratio);
                    arrays.entropies.push(entropy);
                    arrays.old_entropies.push(entropy * (1.0 + 0.1 * log_ratio));
                    arrays.reference_logprobs.push(logprob - distance);
                    arrays.advantages.push(advantage);
                    arrays.entropy_slopes.push(0.3 * logprob + 0.2 * entropy);
                }
            }
            // Some mass or other is kept, and it has changed by as much as the entropy says: any
            // number will do.
            arrays.masses = is_truncated.then(|| {
                let now: Vec<f64> = arrays.logprobs.iter().map(|logprob| logprob * 0.2).collect();
                let old = now
                    .iter()
                    .zip(&arrays.entropies)
                    .map(|(mass, by)| mass + 0.1 * (by - 1.5))
                    .collect();
                [now, old]
            });
            arrays
        },
    )
}
