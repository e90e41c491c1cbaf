//! Which tokens the covariance methods pick (arXiv:2505.22617, section 4), inside a minibatch or a part of it.

use super::update::{Token, Update};
use serde::Serialize;

/// A covariance method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Draws uniformly among the tokens whose covariance lies within a band.
    ClipCov,
    /// Takes the tokens of largest covariance.
    KlCov,
}

impl Method {
    /// What texts call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClipCov => "Clip-Cov",
            Self::KlCov => "KL-Cov",
        }
    }
}

/// What is picked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// How.
    pub method: Method,
    /// Of so many tokens this fraction, rounded down, at least one, is picked.
    pub fraction: f64,
    /// Covariances between which Clip-Cov draws, in nats.
    pub band: [f64; 2],
}

/// What is picked of an update.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Picked {
    /// Tokens with the probability of each, ascending: KL-Cov's are certain, those that Clip-Cov draws from are not.
    pub tokens: Vec<(usize, f64)>,
    /// Tokens that were picked from.
    pub eligible: usize,
    /// Micro-batches.
    pub batches: usize,
    /// Those among them in which all covariances are 0, as where all tokens have one advantage: any token is as good as another.
    pub arbitrary: usize,
}

impl Rule {
    /// How many of so many tokens are picked, as far as there are some to pick.
    fn count(&self, tokens: usize) -> usize {
        ((self.fraction * tokens as f64) as usize).max(1).min(tokens)
    }
}

/// Picks inside each micro-batch of so many responses, which are dealt in this order; without a number, inside the whole
/// minibatch.
pub(super) fn pick(update: &Update, responses: Option<usize>, order: &[usize], rule: &Rule) -> Picked {
    let mut picked = Picked::default();
    for batch in update.micro_batches(responses, order) {
        let tokens: Vec<Token> = batch.iter().map(|place| update.tokens[*place]).collect();
        let covariances = match responses {
            None => tokens.iter().map(|token| token.covariance).collect(),
            Some(_) => centred(&tokens),
        };
        let count = rule.count(covariances.len());
        let is_arbitrary = covariances.iter().all(|covariance| *covariance == 0.0);
        picked.batches += 1;
        picked.arbitrary += usize::from(is_arbitrary);
        let chosen: Vec<usize> = match rule.method {
            Method::KlCov => {
                picked.eligible += covariances.len();
                if is_arbitrary { (0..covariances.len()).collect() } else { largest(&covariances, count) }
            }
            Method::ClipCov => {
                let [low, high] = rule.band;
                let is_within = |i: &usize| low < covariances[*i] && covariances[*i] < high;
                let mut within: Vec<usize> = (0..covariances.len()).filter(is_within).collect();
                within.retain(|i| !tokens[*i].is_clipped);
                picked.eligible += within.len();
                within
            }
        };
        let chance = count.min(chosen.len()) as f64 / chosen.len().max(1) as f64;
        picked.tokens.extend(chosen.into_iter().map(|i| (batch[i], chance)));
    }
    picked.tokens.sort_unstable_by_key(|(place, _)| *place);
    picked
}

/// Covariances by the means of these tokens alone; 0 where nothing varies, whatever rounding makes of the means.
fn centred(tokens: &[Token]) -> Vec<f64> {
    let n = tokens.len() as f64;
    let varies = |of: fn(&Token) -> f64| tokens.iter().any(|token| of(token) != of(&tokens[0]));
    if !varies(|token| token.advantage) || !varies(|token| token.logprob) {
        return vec![0.0; tokens.len()];
    }
    let logprob = tokens.iter().map(|token| token.logprob).sum::<f64>() / n;
    let advantage = tokens.iter().map(|token| token.advantage).sum::<f64>() / n;
    tokens.iter().map(|token| (token.logprob - logprob) * (token.advantage - advantage)).collect()
}

/// Places of the largest numbers; among equal ones those that come first.
fn largest(numbers: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    let by_size = |a: &usize, b: &usize| numbers[*b].total_cmp(&numbers[*a]).then(a.cmp(b));
    if count < order.len() {
        order.select_nth_unstable_by(count, by_size);
    }
    order.truncate(count);
    order
}
