//! REPO-R, entropy-preserving advantages (arXiv:2603.11682).

use super::TokenMethod;
use crate::TargetEntropy;
use crate::catalogue::{About, FREE, Kind};
use crate::error::{Result, require};
use crate::treatment::{Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = About {
    name: "REPO-R",
    kind: Kind::Advantage,
    equation: "A > 0: max(0, A (1 - zeta log pi)); A < 0: min(0, A (1 + zeta log pi)); with \
               target_entropy |zeta| doubles in each step where its sign leads there, else halves, \
               and the sign changes below zeta_min",
    source: "arXiv:2603.11682, appendix D.2; github.com/NovaSky-AI/SkyRL/pull/1896",
    setting: "objective.methods.repo_r",
    cost: FREE,
};
pub(super) const IS_IDLE_ON_POLICY: bool = false;

/// A > 0: max(0, A (1 - zeta log pi)); A < 0: min(0, A (1 + zeta log pi)), log pi held constant.
/// The log-prob stands for its distance from the mean over the vocabulary, as in the paper's
/// practical form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RepoR {
    /// How much log pi rescales advantages. Above 0 it keeps entropy up, below 0 it lowers it. The
    /// default is that of SkyRL's pull request.
    #[schemars(range(min = -1e3, max = 1e3))]
    pub zeta: f64,
    /// Entropy to hold by steering zeta from the value above on. Before a step's updates |zeta|
    /// doubles if its sign moves the rollout's entropy towards the target; else it halves, and
    /// below `zeta_min` changes its sign. Unset: zeta stays as it is. The paper's is the initial
    /// entropy, `{ fraction_of_initial = 1.0 }`.
    pub target_entropy: Option<TargetEntropy>,
    /// With a target, the least |zeta|; this default and the next are the paper's.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub zeta_min: f64,
    /// With a target, the largest |zeta|.
    #[schemars(extend("exclusiveMinimum" = 0.0), range(max = 1e3))]
    pub zeta_max: f64,
}

impl Default for RepoR {
    fn default() -> Self {
        Self { zeta: 0.01, target_entropy: None, zeta_min: 1e-4, zeta_max: 0.05 }
    }
}

impl RepoR {
    /// The zeta of a step behind one with this zeta, by the entropy of the step's rollout and the
    /// target, in nats. An entropy at the target, or one that is not finite, moves nothing. A zeta
    /// outside its bounds, which may have been others before the run went on, comes back to them.
    pub fn moved(&self, zeta: f64, entropy: f64, target: f64) -> f64 {
        let zeta = zeta.abs().clamp(self.zeta_min, self.zeta_max).copysign(zeta);
        let distance = target - entropy;
        if distance == 0.0 || !distance.is_finite() {
            return zeta;
        }
        let sign = distance.signum();
        if zeta * sign > 0.0 {
            sign * (2.0 * zeta.abs()).min(self.zeta_max)
        } else if zeta.abs() / 2.0 < self.zeta_min {
            sign * self.zeta_min
        } else {
            zeta / 2.0
        }
    }
}

impl TokenMethod for RepoR {
    fn check(&self, table: &str) -> Result<()> {
        let Some(target) = &self.target_entropy else { return Ok(()) };
        target.check(&format!("{table}.target_entropy"))?;
        let Self { zeta, zeta_min, zeta_max, .. } = *self;
        let expected = format!("it must not be above {table}.zeta_max ({zeta_max})");
        require(zeta_min <= zeta_max, &format!("{table}.zeta_min"), zeta_min, &expected)?;
        let expected = format!(
            "with a target its size must be from {table}.zeta_min ({zeta_min}) to zeta_max \
             ({zeta_max})"
        );
        let is_within = (zeta_min..=zeta_max).contains(&zeta.abs());
        require(is_within, &format!("{table}.zeta"), zeta, &expected)
    }

    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment) {
        let zeta = tokens.run.repo_zeta.unwrap_or(self.zeta);
        if self.target_entropy.is_some() {
            treatment.measured.push(("method/repo_r/zeta", zeta));
        }
        for (advantage, logprob) in treatment.advantages.iter_mut().zip(tokens.logprobs) {
            let a = *advantage;
            if a > 0.0 {
                *advantage = (a * (1.0 - zeta * logprob)).max(0.0);
            } else if a < 0.0 {
                *advantage = (a * (1.0 + zeta * logprob)).min(0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubled towards the target up to the bound, halved beyond it, and through the least size to
    /// the other sign.
    #[test]
    fn zeta_seeks_the_target_in_powers_of_two_on_either_side_of_0() {
        let repo = RepoR { zeta_min: 0.25, zeta_max: 1.5, ..RepoR::default() };
        let mut zeta = 0.5;
        for (entropy, expected) in [
            (0.2, 1.0),
            (0.2, 1.5),
            (0.3, 1.5),
            (f64::NAN, 1.5),
            (0.4, 0.75),
            (0.4, 0.375),
            (0.4, -0.25),
            (0.4, -0.5),
            (0.2, -0.25),
            (0.2, 0.25),
            (0.2, 0.5),
        ] {
            zeta = repo.moved(zeta, entropy, 0.3);
            assert_eq!(zeta, expected, "{entropy}");
        }
        // Under bounds that have been narrowed since.
        for (zeta, expected) in [(-4.0, -1.5), (0.125, 0.25)] {
            assert_eq!(repo.moved(zeta, f64::NAN, 0.3), expected);
        }
        assert_eq!(repo.moved(4.0, 0.4, 0.3), 0.75);
    }
}
