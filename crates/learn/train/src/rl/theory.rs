//! A step's change of the policy's entropy on the states that it has sampled, beside the prediction
//! of the theory of covariance (docs/concepts/entropy.md).
//!
//! The tokens that are trained on are scored before the step's updates and after them, in their
//! passes and without tapes, a minibatch at a time. Nothing is kept of a token but its part in
//! sums, and nothing here reaches the gradient.

use crate::error::Result;
use crate::group::Group;
use crate::learner::Learner;
use crate::metrics::Metrics;
use crate::minibatch::TrainingBatch;
use isentrope_run::tokens::Advantages;
use std::ops::Range;

/// The states that a step trains on.
#[derive(Clone, Copy)]
pub(super) struct States<'a> {
    pub groups: &'a [Group],
    /// Advantages of the responses that are trained on, of each response of each group.
    pub learnt: &'a [Vec<Option<&'a Advantages>>],
    /// Groups of a minibatch.
    pub prompts: usize,
    pub temperature: f32,
}

impl States<'_> {
    /// The minibatches that hold anything.
    fn each(&self) -> impl Iterator<Item = TrainingBatch> {
        let minibatches = TrainingBatch::minibatches(self.groups, self.learnt, self.prompts);
        minibatches.filter(|batch| !batch.is_empty())
    }
}

/// The policy before a step's updates, on the tokens that they will train on.
#[derive(Default)]
pub(super) struct PolicyBefore {
    /// In order, group after group.
    responses: Vec<ResponseBefore>,
    tokens: TokenSums,
}

/// A response before the updates.
struct ResponseBefore {
    /// The correct share of the group's responses, on the first response of a group.
    opens: Option<f64>,
    tokens: usize,
    /// Mean log-prob of the response's tokens, in nats: the log of its length-normalised
    /// probability.
    logprob: f64,
    /// Mean over its tokens, in nats.
    entropy: f64,
    /// Mean over its tokens.
    advantage: f64,
}

/// Sums over the tokens of all responses, before the updates.
#[derive(Default)]
struct TokenSums {
    /// The covariance of log pi and A.
    advantage: Covariance,
    /// The covariance of log pi and pi A.
    weighted_advantage: Covariance,
    /// The sum of A rho times the slope of the entropy along the gradient of the token's log-prob.
    exact: f64,
}

impl PolicyBefore {
    /// Scores what will be trained on.
    pub fn measure(states: States<'_>, learner: &Learner) -> Result<Self> {
        let mut before = Self::default();
        for batch in states.each() {
            let (scores, slopes) = batch.entropy_slopes(learner, states.temperature)?;
            let [now, sampled] = [&scores, batch.sampled()].map(|scores| {
                // The log-prob under the distribution that the token was drawn from.
                move |token: usize| {
                    f64::from(scores.logprobs[token]) - f64::from(scores.log_masses[token])
                }
            });
            let mut group = None;
            for ((number, sample), tokens) in batch.responses() {
                let Some(advantages) = states.learnt[number][sample] else { continue };
                let opens = group.replace(number) != Some(number);
                before.responses.push(ResponseBefore {
                    opens: opens.then(|| states.groups[number].accuracy().unwrap_or(0.0)),
                    tokens: tokens.len(),
                    logprob: mean(&scores.logprobs, tokens.clone()),
                    entropy: mean(&scores.entropies, tokens.clone()),
                    advantage: match advantages {
                        Advantages::Same(advantage) => *advantage,
                        Advantages::Each(_) => {
                            Advantages::Each(batch.advantages(tokens.clone()).to_vec()).mean()
                        }
                    },
                });
                for (token, &advantage) in tokens.clone().zip(batch.advantages(tokens)) {
                    let logprob = f64::from(scores.logprobs[token]);
                    let ratio = libm::exp(now(token) - sampled(token));
                    before.tokens.advantage.add(logprob, advantage);
                    before.tokens.weighted_advantage.add(logprob, libm::exp(logprob) * advantage);
                    before.tokens.exact += advantage * ratio * f64::from(slopes[token]);
                }
            }
        }
        Ok(before)
    }

    /// Scores the rollout again under the updated weights, and records the changes. Records nothing
    /// if no response was trained on.
    pub fn compare(
        self,
        states: States<'_>,
        learner: &Learner,
        metrics: &mut Metrics,
    ) -> Result<()> {
        let mut after = Vec::with_capacity(self.responses.len());
        for batch in states.each() {
            let entropies = batch.entropies(learner, states.temperature)?;
            after.extend(batch.responses().map(|(_, tokens)| mean(&entropies, tokens)));
        }
        self.record(&after, metrics);
        Ok(())
    }

    /// Records the changes; `after` has the mean entropy of each response.
    fn record(&self, after: &[f64], metrics: &mut Metrics) {
        let Self { responses, tokens: TokenSums { advantage, weighted_advantage, exact } } = self;
        if responses.is_empty() {
            return;
        }
        let changes: Vec<f64> =
            responses.iter().zip(after).map(|(r, after)| after - r.entropy).collect();
        let tokens = responses.iter().map(|r| r.tokens).sum::<usize>().max(1) as f64;
        let of_tokens: f64 =
            responses.iter().zip(&changes).map(|(r, change)| r.tokens as f64 * change).sum();
        metrics.set("theory/entropy_change", changes.iter().sum::<f64>() / changes.len() as f64);
        metrics.set("theory/entropy_change_token_mean", of_tokens / tokens);
        let groups = self.groups(&changes);
        let covariances = groups.iter().filter_map(|group| group.covariance);
        record_mean("theory/group_covariance", covariances, metrics);
        metrics.set("theory/token_covariance", advantage.value());
        metrics.set("theory/token_covariance_pi", weighted_advantage.value());
        metrics.set("theory/exact", exact / tokens);
        for name in BUCKETS {
            let of_bucket = || groups.iter().filter(|group| bucket(group.accuracy) == name);
            let changes = of_bucket().flat_map(|group| group.changes).copied();
            record_mean(&format!("theory/{name}/entropy_change"), changes, metrics);
            let covariances = of_bucket().filter_map(|group| group.covariance);
            record_mean(&format!("theory/{name}/group_covariance"), covariances, metrics);
            if of_bucket().next().is_some() {
                metrics.set(format!("theory/{name}/groups"), of_bucket().count() as f64);
            }
        }
    }

    /// The responses by group.
    fn groups<'a>(&self, changes: &'a [f64]) -> Vec<GroupChange<'a>> {
        let mut first = 0;
        let of_group = |responses: &[ResponseBefore]| {
            let mut covariance = Covariance::default();
            for ResponseBefore { logprob, advantage, .. } in responses {
                covariance.add(*logprob, libm::exp(*logprob) * advantage);
            }
            let range = first..first + responses.len();
            first = range.end;
            GroupChange {
                accuracy: responses[0].opens.unwrap_or(0.0),
                changes: &changes[range],
                covariance: (responses.len() > 1).then(|| covariance.value()),
            }
        };
        self.responses.chunk_by(|_, next| next.opens.is_none()).map(of_group).collect()
    }
}

/// The responses to a prompt.
struct GroupChange<'a> {
    accuracy: f64,
    /// The change of each response's mean entropy.
    changes: &'a [f64],
    /// The covariance of log pi(y) and pi(y) A(y) over the responses y, if there are several;
    /// log pi(y) is the mean over the tokens of y.
    covariance: Option<f64>,
}

/// The buckets of prompts by their share of correct responses, from none to all.
const BUCKETS: [&str; 6] = [
    "accuracy_0",
    "accuracy_0_25",
    "accuracy_25_50",
    "accuracy_50_75",
    "accuracy_75_100",
    "accuracy_100",
];

/// The bucket of a prompt with this correct share of responses.
fn bucket(accuracy: f64) -> &'static str {
    BUCKETS[match accuracy {
        a if a <= 0.0 => 0,
        a if a <= 0.25 => 1,
        a if a <= 0.5 => 2,
        a if a <= 0.75 => 3,
        a if a < 1.0 => 4,
        _ => 5,
    }]
}

/// The running covariance of pairs, divided by their number (Welford 1962).
#[derive(Clone, Copy, Default)]
struct Covariance {
    count: f64,
    means: [f64; 2],
    sum: f64,
}

impl Covariance {
    fn add(&mut self, x: f64, y: f64) {
        self.count += 1.0;
        let from_mean = x - self.means[0];
        self.means[0] += from_mean / self.count;
        self.means[1] += (y - self.means[1]) / self.count;
        self.sum += from_mean * (y - self.means[1]);
    }

    fn value(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }
}

/// Records the mean of values, if there are any.
fn record_mean(name: &str, values: impl Iterator<Item = f64>, metrics: &mut Metrics) {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    metrics.set_mean(name, sum, count);
}

fn mean(values: &[f32], range: Range<usize>) -> f64 {
    let count = range.len().max(1) as f64;
    values[range].iter().map(|&value| f64::from(value)).sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(opens: Option<f64>, tokens: usize, logprob: f64, advantage: f64) -> ResponseBefore {
        ResponseBefore { opens, tokens, logprob, entropy: 1.0, advantage }
    }

    #[test]
    fn covariances_are_those_of_their_definition() {
        let pairs = [(-3.0, 0.5), (-1.0, -2.0), (0.25, 4.0), (7.0, 1.5)];
        let mut covariance = Covariance::default();
        assert_eq!(covariance.value(), 0.0);
        pairs.iter().for_each(|&(x, y)| covariance.add(x, y));
        let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / 4.0;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let want = pairs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / 4.0;
        assert!((covariance.value() - want).abs() < 1e-12);
    }

    #[test]
    fn buckets_end_with_their_upper_bounds() {
        let of_eighths: Vec<usize> = (0..=8)
            .map(|eighths| {
                BUCKETS.iter().position(|name| bucket(f64::from(eighths) / 8.0) == *name).unwrap()
            })
            .collect();
        assert_eq!(of_eighths, [0, 1, 1, 2, 2, 3, 3, 4, 5]);
    }

    #[test]
    fn changes_and_covariances_are_averaged_over_responses_tokens_and_groups() {
        let ln = f64::ln;
        let responses = vec![
            response(Some(0.5), 1, ln(0.5), 1.0),
            response(None, 3, ln(0.25), -1.0),
            response(Some(1.0), 4, ln(0.5), 0.0),
        ];
        let tokens = TokenSums { exact: -4.0, ..TokenSums::default() };
        let mut metrics = Metrics::default();
        PolicyBefore { responses, tokens }.record(&[1.5, 0.5, 0.75], &mut metrics);
        let get = |name: &str| metrics.get(&format!("theory/{name}"));
        assert_eq!(get("entropy_change"), Some(-0.25 / 3.0));
        assert_eq!(get("entropy_change_token_mean"), Some((0.5 - 1.5 - 1.0) / 8.0));
        assert_eq!(get("exact"), Some(-0.5));
        // The covariance of ln 0.5, ln 0.25 and 0.5, -0.25 is a quarter of the product of the
        // differences. One response has none.
        let covariance = ln(2.0) * 0.75 / 4.0;
        assert!((get("group_covariance").unwrap() - covariance).abs() < 1e-12);
        assert_eq!(get("accuracy_25_50/group_covariance"), get("group_covariance"));
        assert_eq!(get("accuracy_25_50/entropy_change"), Some(0.0));
        assert_eq!(get("accuracy_25_50/groups"), Some(1.0));
        assert_eq!(get("accuracy_100/entropy_change"), Some(-0.25));
        assert_eq!((get("accuracy_100/group_covariance"), get("accuracy_0/groups")), (None, None));

        let mut none = Metrics::default();
        PolicyBefore::default().record(&[], &mut none);
        assert_eq!(none, Metrics::default());
    }
}
