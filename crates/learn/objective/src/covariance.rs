//! Settings of Clip-Cov and KL-Cov (arXiv:2505.22617, section 4).

use crate::controller::{ControllerSettings, Steer};
use crate::error::{Result, refuse, require};
use crate::{KlEstimator, TargetEntropy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Treatment of tokens of large covariance
/// Cov_t = (log pi_t - mean log pi) (A_t - mean A), means over the tokens of the minibatch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Covariance {
    /// Treatment of tokens of large covariance; statistics of it are reported in any case.
    pub method: Method,
    /// Tokens picked, as a fraction of all tokens, above 0 and at most 1 (not a percentage);
    /// rounded down, but one token at least. Unset: the paper's, 2e-4 for clip-cov and 2e-3 for
    /// kl-cov (that is for 7B models; for 32B it is 2e-4).
    pub fraction: Option<f64>,
    /// Clip-Cov draws among tokens whose covariance is above this, in nats; the paper's is 1.
    pub low: f64,
    /// Clip-Cov draws among tokens whose covariance is below this, in nats; the paper's is 5.
    pub high: f64,
    /// KL-Cov's penalty, from d = log pi - log pi_old. All but k1 have no gradient while the policy
    /// is the one that sampled, so KL-Cov needs several updates per rollout.
    pub kl: KlEstimator,
    /// Weight of KL-Cov's penalty, above 0; the paper's is 1.
    pub coefficient: f64,
    /// Weighs KL-Cov's penalty of each token with |A|, its advantage, too, so that the penalty is
    /// as large beside the policy term of a rare success as beside that of a usual failure.
    pub by_advantage: bool,
    /// Picks inside each group of this many responses, in the minibatch's order, by the group's own
    /// means; each group gives its fraction, one token at least. The published code does so inside
    /// its micro-batches; set this to reproduce it. Unset: inside the whole minibatch, as the paper
    /// has it. Not with `target_entropy`.
    #[schemars(range(min = 1))]
    pub scope_responses: Option<usize>,
    /// The tokens that KL-Cov picks. (Clip-Cov has a band.) The sides not with `target_entropy`.
    pub pick: Pick,
    /// Entropy to hold, in nats, by steering `fraction` (or `coefficient`) from step to step
    /// (docs/concepts/entropy.md): a number, a fraction of the entropy that the run begins with, or
    /// a schedule. Unset: nothing is steered.
    pub target_entropy: Option<TargetEntropy>,
    /// How `target_entropy` is held: a proportional-integral controller on logarithms.
    pub controller: ControllerSettings,
}

impl Default for Covariance {
    fn default() -> Self {
        Self {
            method: Method::None,
            fraction: None,
            low: 1.0,
            high: 5.0,
            kl: KlEstimator::Abs,
            coefficient: 1.0,
            by_advantage: false,
            scope_responses: None,
            pick: Pick::Largest,
            target_entropy: None,
            controller: ControllerSettings::default(),
        }
    }
}

/// Treatment of tokens of large covariance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Nothing.
    #[default]
    None,
    /// A fraction of the tokens, drawn uniformly from those within a band of covariances that ratio
    /// clipping has left a gradient, loses its policy-gradient term. The published runs widen ratio
    /// clipping to 1 and 1 beside it.
    ClipCov,
    /// The tokens of largest covariance are penalised for moving away from the policy that sampled
    /// them. The published runs have no ratio clipping beside it: loss = "importance".
    KlCov,
}

/// The tokens that KL-Cov picks. All but the first are controls, which tell what the choice adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// The largest covariances, as the paper has it.
    #[default]
    Largest,
    /// The largest covariances among likely tokens of better responses: log pi and A above their
    /// means. Fewer than `fraction` of all tokens, where the side has fewer.
    Better,
    /// The largest covariances among unlikely tokens of worse responses: log pi and A below their
    /// means. Fewer likewise.
    Worse,
    /// As many tokens drawn from all, whatever their covariance.
    Random,
}

impl Pick {
    /// The sign of the centred advantages of a side, if it is one.
    pub(crate) fn side(self) -> Option<f64> {
        match self {
            Self::Better => Some(1.0),
            Self::Worse => Some(-1.0),
            Self::Largest | Self::Random => None,
        }
    }

    pub(crate) fn is_side(self) -> bool {
        self.side().is_some()
    }
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 3] = [Self::None, Self::ClipCov, Self::KlCov];
}

impl Covariance {
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(fraction) = self.fraction {
            require(
                fraction > 0.0 && fraction <= 1.0,
                "objective.covariance.fraction",
                fraction,
                "it must be a fraction of the tokens above 0 and at most 1 (0.2 % is 0.002); to \
                 switch the term off set objective.covariance.method to \"none\"",
            )?;
        }
        let finite =
            |key, value: f64| require(value.is_finite(), key, value, "it must be a finite number");
        finite("objective.covariance.low", self.low)?;
        finite("objective.covariance.high", self.high)?;
        require(
            self.low < self.high,
            "objective.covariance.low",
            self.low,
            "it must be below objective.covariance.high",
        )?;
        require(
            self.coefficient.is_finite() && self.coefficient > 0.0,
            "objective.covariance.coefficient",
            self.coefficient,
            "it must be above 0; to switch the term off set objective.covariance.method to \
             \"none\"",
        )?;
        self.check_target()
    }

    fn check_target(&self) -> Result<()> {
        let key = "objective.covariance.target_entropy";
        let Some(target) = &self.target_entropy else { return Ok(()) };
        target.check(key)?;
        if self.method == Method::None {
            return refuse(
                key,
                target,
                "it is held through a covariance method, and objective.covariance.method is \
                 \"none\"; set it to \"clip-cov\" or \"kl-cov\", or set \
                 objective.entropy_bonus.target instead",
            );
        }
        if self.scope_responses.is_some() {
            return refuse(
                key,
                target,
                "the controller counts the tokens of whole minibatches, and \
                 objective.covariance.scope_responses picks inside parts of them; leave one of the \
                 two out",
            );
        }
        if self.pick.is_side() {
            return refuse(
                key,
                target,
                "the side that objective.covariance.pick names may have too few tokens to hold it; \
                 leave one of the two out",
            );
        }
        if self.method == Method::KlCov && self.kl == KlEstimator::K1 {
            return refuse(
                "objective.covariance.kl",
                "\"k1\"",
                "objective.covariance.target_entropy is held by this penalty, and that of k1 holds \
                 no token where it was; take \"abs\", \"k2\" or \"k3\"",
            );
        }
        self.controller.check(self)
    }

    /// How strongly the method acts as the settings say.
    pub fn strength(&self) -> Strength {
        Strength {
            fraction: self.resolved_fraction().unwrap_or(0.0),
            coefficient: self.coefficient,
        }
    }

    /// The fraction, or the method's default where none is set; nothing without a method.
    pub fn resolved_fraction(&self) -> Option<f64> {
        match self.method {
            Method::None => None,
            Method::ClipCov => Some(self.fraction.unwrap_or(2e-4)),
            Method::KlCov => Some(self.fraction.unwrap_or(2e-3)),
        }
    }
}

/// How strongly a covariance method acts in an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strength {
    /// Tokens picked, as a fraction of all tokens; without a method, none are.
    pub fraction: f64,
    /// Weight of KL-Cov's penalty.
    pub coefficient: f64,
}

impl Strength {
    /// The strength that a controller steers.
    pub fn steered(&self, steer: Steer) -> f64 {
        match steer {
            Steer::Fraction => self.fraction,
            Steer::Coefficient => self.coefficient,
        }
    }

    /// As [`steered`](Self::steered), to be moved.
    pub fn steered_mut(&mut self, steer: Steer) -> &mut f64 {
        match steer {
            Steer::Fraction => &mut self.fraction,
            Steer::Coefficient => &mut self.coefficient,
        }
    }
}
