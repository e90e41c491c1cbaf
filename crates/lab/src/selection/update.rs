//! The tokens of one optimizer update, from the records of its responses.

use crate::tokens::TokenRecord;
use std::collections::BTreeMap;

/// How far means over the recorded tokens may be from those that the records tell of all tokens, which have seven digits.
const ROUNDING: f64 = 1e-4;

/// A response token at the time of the update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token {
    /// Its log-prob then.
    pub logprob: f64,
    /// Its advantage.
    pub advantage: f64,
    /// Its covariance, by the means of the whole minibatch.
    pub covariance: f64,
    /// Whether ratio clipping has left it no gradient, so that Clip-Cov does not pick it.
    pub is_clipped: bool,
}

/// The minibatch of an update, as far as it is recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct Update {
    /// Response after response, in the order of the records: by step of sampling, problem and number.
    pub tokens: Vec<Token>,
    /// Tokens of each response.
    lengths: Vec<usize>,
    /// Means over all tokens of the minibatch, as the records tell them: log-prob, advantage.
    pub means: [f64; 2],
    /// Whether every token's log-prob at the time of the update is known.
    is_known: bool,
}

impl Update {
    /// The updates of a step. Where a rollout is passed over several times, an update is one of the first pass, which is what
    /// records are of.
    pub fn of_step(records: &[TokenRecord]) -> Vec<Self> {
        let mut updates: BTreeMap<usize, Self> = BTreeMap::new();
        for record in records {
            let (Some(number), Some(advantages)) = (record.update, &record.advantages) else { continue };
            let means = [record.mean_logprob.unwrap_or(f64::NAN), record.mean_advantage.unwrap_or(f64::NAN)];
            let update =
                updates.entry(number).or_insert_with(|| Self { means, is_known: true, ..Self::default() });
            // In the first update the policy is still the one that has sampled.
            let is_sampled = number == 1 && record.sampled_step == record.step;
            for i in 0..record.len() {
                let (advantage, covariance) = (advantages.at(i), f64::from(record.covariances[i]));
                let away = advantage - means[1];
                // The covariance is (log-prob - mean) (advantage - mean): it has the log-prob at the time of the update.
                let logprob = match () {
                    () if is_sampled => Some(f64::from(record.logprobs[i])),
                    () => (away != 0.0).then(|| means[0] + covariance / away),
                };
                update.is_known &= logprob.is_some();
                update.tokens.push(Token {
                    logprob: logprob.unwrap_or(f64::from(record.logprobs[i])),
                    advantage,
                    covariance,
                    is_clipped: record.clipped.binary_search(&i).is_ok(),
                });
            }
            update.lengths.push(record.len());
        }
        updates.into_values().collect()
    }

    /// Responses.
    pub fn responses(&self) -> usize {
        self.lengths.len()
    }

    /// Whether all responses of the minibatch are here: the means over them are then those over all of its tokens.
    pub fn is_complete(&self) -> bool {
        let n = self.tokens.len() as f64;
        let is_mean = |of: fn(&Token) -> f64, told: f64| {
            let mean = self.tokens.iter().map(of).sum::<f64>() / n;
            (mean - told).abs() <= ROUNDING * (1.0 + told.abs())
        };
        let is_advantage = is_mean(|token| token.advantage, self.means[1]);
        is_advantage && (!self.is_known || is_mean(|token| token.logprob, self.means[0]))
    }

    /// Whether advantages differ: where they do not, every covariance is 0, there is nothing to pick by, and any sample of the
    /// responses has the means of all.
    pub fn has_signal(&self) -> bool {
        self.tokens.iter().any(|token| token.advantage != self.tokens[0].advantage)
    }

    /// Places of the tokens of each micro-batch of so many responses, which are dealt in this order; without a number, of the
    /// whole minibatch.
    pub fn micro_batches(&self, responses: Option<usize>, order: &[usize]) -> Vec<Vec<usize>> {
        let responses = responses.unwrap_or(self.lengths.len()).max(1);
        let begins: Vec<usize> = self
            .lengths
            .iter()
            .scan(0, |end, tokens| {
                *end += tokens;
                Some(*end - tokens)
            })
            .collect();
        let tokens = |response: &usize| begins[*response]..begins[*response] + self.lengths[*response];
        let batch = |responses: &[usize]| {
            // Of equal covariances the first is picked, wherever its response was dealt to.
            let mut responses = responses.to_vec();
            responses.sort_unstable();
            responses.iter().flat_map(tokens).collect::<Vec<_>>()
        };
        order.chunks(responses).map(batch).filter(|tokens| !tokens.is_empty()).collect()
    }
}
