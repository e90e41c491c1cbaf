//! The load-balancing loss of mixtures of experts.
//!
//! It is `N sum(f_i P_i)` over N experts (arXiv:2101.03961, equations 4 to 6) as transformers
//! computes it: f_i is the number of times that expert i is chosen over the number of tokens, P_i
//! the mean of its probability, both over the tokens of all blocks together.

use isentrope_kernels::Routing;
use serde::{Deserialize, Serialize};

/// Probabilities are summed in these fractions, as integers: so the sum does not depend on the
/// order of micro-batches, shards and ranks.
const FRACTIONS: f64 = (1_u64 << 32) as f64;

/// Choices and probabilities of each expert over some tokens, in all blocks together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouterBalance {
    /// `[experts]`.
    choices: Vec<u64>,
    /// Sums of the probabilities, in [`FRACTIONS`], `[experts]`.
    probabilities: Vec<u64>,
    /// A token counts once in every block.
    tokens: u64,
}

impl RouterBalance {
    /// Counts the tokens in these rows of a block's batch, a row as often as it is listed.
    /// `probabilities: [rows of the batch, experts]`.
    pub(crate) fn count(&mut self, routing: &Routing, probabilities: &[f32], rows: &[u32]) {
        let router = routing.routes.router;
        self.choices.resize(router.experts, 0);
        self.probabilities.resize(router.experts, 0);
        self.tokens += rows.len() as u64;
        for row in rows.iter().map(|&row| row as usize) {
            for &expert in &routing.routes.experts[row * router.chosen..][..router.chosen] {
                self.choices[expert as usize] += 1;
            }
            let row = &probabilities[row * router.experts..][..router.experts];
            for (sum, &probability) in self.probabilities.iter_mut().zip(row) {
                *sum += (f64::from(probability) * FRACTIONS).round() as u64;
            }
        }
    }

    /// Adds other tokens.
    pub fn add(&mut self, other: &Self) {
        for (sums, more) in
            [(&mut self.choices, &other.choices), (&mut self.probabilities, &other.probabilities)]
        {
            sums.resize(sums.len().max(more.len()), 0);
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        self.tokens += other.tokens;
    }

    /// The loss; 0 without tokens.
    pub fn loss(&self) -> f64 {
        let means = self.probabilities.iter().map(|&sum| sum as f64 / FRACTIONS);
        self.slopes(1.0).iter().zip(means).map(|(&slope, mean)| f64::from(slope) * mean).sum()
    }

    /// The derivative of `coefficient` times the loss by the probability of each expert at any
    /// token in any block, `[experts]`. The choices have no derivative.
    pub fn slopes(&self, coefficient: f64) -> Vec<f32> {
        let tokens = self.tokens.max(1) as f64;
        let factor = coefficient * self.choices.len() as f64 / tokens;
        self.choices.iter().map(|&choices| (factor * (choices as f64 / tokens)) as f32).collect()
    }
}

/// The derivatives by a router's logits, `[rows, experts]`, of a loss with the derivatives `slopes`
/// by the probabilities at each of the listed rows, a row as often as it is listed.
/// `probabilities: [rows, experts]`.
pub(crate) fn logit_gradient(slopes: &[f32], probabilities: &[f32], listed: &[u32]) -> Vec<f32> {
    let experts = slopes.len();
    let mut gradient = vec![0.0; probabilities.len()];
    for row in listed.iter().map(|&row| row as usize * experts) {
        let row = row..row + experts;
        let probabilities = &probabilities[row.clone()];
        let products = slopes.iter().zip(probabilities).map(|(s, p)| f64::from(*s) * f64::from(*p));
        let mean: f64 = products.sum();
        for ((d, s), p) in gradient[row].iter_mut().zip(slopes).zip(probabilities) {
            *d += (f64::from(*p) * (f64::from(*s) - mean)) as f32;
        }
    }
    gradient
}
