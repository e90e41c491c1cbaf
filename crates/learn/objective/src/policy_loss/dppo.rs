//! DPPO, divergence proximal policy optimization (arXiv:2602.04879).

use super::{Clipped, Ratio, Term, unclipped};
use crate::catalogue::{About, FREE, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "DPPO",
    kind: Kind::Loss,
    equation: "-rho A, and 0 where A > 0, pi > pi_old, D > delta_high or A < 0, pi < pi_old, \
               D > delta_low; D = |pi - pi_old|, or KL of (pi_old, 1 - pi_old) from (pi, 1 - pi)",
    source: "arXiv:2602.04879, equations 13 and 14",
    setting: "objective.loss = \"dppo\"",
    cost: FREE,
};

/// The loss `dppo`: -rho A, but nothing for a token whose probability has gone farther from
/// pi_old than `delta_high` upwards with A > 0, or than `delta_low` downwards with A < 0. Unlike a
/// ratio, the divergence lets unlikely tokens move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Dppo {
    /// The measure of the distance.
    pub divergence: Divergence,
    /// Largest divergence of a token with A < 0 that has become less likely: 0.2 for "binary-tv"
    /// (SkyRL's; verl's example has 0.15), 0.05 for "binary-kl".
    #[schemars(range(min = 0.0))]
    pub delta_low: f64,
    /// Largest divergence of a token with A > 0 that has become likelier, likewise.
    #[schemars(range(min = 0.0))]
    pub delta_high: f64,
}

impl Default for Dppo {
    fn default() -> Self {
        Self { divergence: Divergence::BinaryTv, delta_low: 0.2, delta_high: 0.2 }
    }
}

/// A divergence of two distributions that know only the sampled token and the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Divergence {
    /// Total variation, |pi - pi_old| (equation 13).
    #[default]
    BinaryTv,
    /// pi_old log(pi_old / pi) + (1 - pi_old) log((1 - pi_old) / (1 - pi)), in nats (equation 14).
    BinaryKl,
}

/// Added to the probability of the rest, as in published code.
const EPSILON: f64 = 1e-8;

impl Divergence {
    fn of(self, [old, new]: [f64; 2]) -> f64 {
        match self {
            Self::BinaryTv => (new - old).abs(),
            Self::BinaryKl => {
                // Both have a probability that exp may have rounded to 0.
                let least = f64::MIN_POSITIVE;
                let token = old * libm::log(old.max(least) / new.max(least));
                token + (1.0 - old) * libm::log((1.0 - old + EPSILON) / (1.0 - new + EPSILON))
            }
        }
    }
}

impl Dppo {
    /// The term of a token that had the first probability and has the second.
    pub(super) fn term(&self, ratio: Ratio, probabilities: [f64; 2], advantage: f64) -> Term {
        let [old, new] = probabilities;
        let divergence = self.divergence.of(probabilities);
        let clipped = if advantage > 0.0 && new > old && divergence > self.delta_high {
            Some(Clipped::High)
        } else if advantage < 0.0 && new < old && divergence > self.delta_low {
            Some(Clipped::Low)
        } else {
            return unclipped(ratio, advantage);
        };
        Term { value: 0.0, slope: 0.0, clipped }
    }
}
