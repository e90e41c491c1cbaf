//! Entropy methods that change how tokens are treated: each is a file here, and an entry in the
//! list below. The recipe's tables, its checks, the metrics, the catalogue and the tests come from
//! the list.

mod archer;
mod bapo;
mod clip_b;
mod clip_v;
mod entropic;
mod entropy_advantage;
mod erc;
mod flexible_clip;
mod repo_r;
mod steer;
mod w_reinforce;

pub use flexible_clip::ClipSchedule;

use crate::catalogue::{About, Kind};
use crate::error::Result;
use crate::treatment::{Tokens, Treatment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A method with its settings.
pub(crate) trait TokenMethod {
    /// Changes the treatment of a minibatch's tokens. The loss holds constant what the method makes
    /// of log-probs and entropies: no derivative goes through it.
    ///
    /// An advantage of 0 must stay 0, since responses without advantage may be skipped.
    fn apply(&self, tokens: &Tokens, treatment: &mut Treatment);

    /// Checks what no range of a key says. `table` is the recipe's key of the method.
    fn check(&self, _table: &str) -> Result<()> {
        Ok(())
    }
}

/// A method that is on.
#[derive(Clone, Copy)]
pub(crate) struct ActiveMethod<'a> {
    pub about: About,
    /// Its key in `objective.methods`.
    pub key: &'static str,
    /// The metric that says which share of the tokens it touched.
    pub metric: &'static str,
    /// Whether it changes nothing while the policy is the one that sampled.
    pub is_idle_on_policy: bool,
    pub method: &'a dyn TokenMethod,
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $key:ident: $module:ident::$Method:ident,)+) => {
        $(pub use $module::$Method;)+

        /// Methods that change the treatment of tokens, each off unless its table is there. Several
        /// act one after the other, in this order.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct Methods {
            $($(#[doc = $doc])+ pub $key: Option<$Method>,)+
        }

        impl Methods {
            /// The methods as the catalogue lists them.
            pub(crate) fn abouts() -> impl Iterator<Item = About> {
                [$($module::ABOUT),+].into_iter()
            }

            /// The methods that are on, in the order in which they act.
            pub(crate) fn active(&self) -> Vec<ActiveMethod<'_>> {
                let all = [$(self.$key.as_ref().map(|method| ActiveMethod {
                    about: $module::ABOUT,
                    key: stringify!($key),
                    metric: concat!("method/", stringify!($key)),
                    is_idle_on_policy: $module::IS_IDLE_ON_POLICY,
                    method: method as &dyn TokenMethod,
                })),+];
                all.into_iter().flatten().collect()
            }
        }
    };
}

methods! {
    /// W-REINFORCE, and NSR (arXiv:2506.01347): better responses weigh less than worse ones.
    w_reinforce: w_reinforce::WReinforce,
    /// REPO-R (arXiv:2603.11682): advantages are rescaled by log pi, so that unlikely tokens of
    /// better responses gain and unlikely tokens of worse ones lose less.
    repo_r: repo_r::RepoR,
    /// Entropy-based advantage (arXiv:2506.14758): uncertain tokens gain a part of their entropy.
    entropy_advantage: entropy_advantage::EntropyAdvantage,
    /// STEER (arXiv:2510.10150): tokens weigh less the more they would change entropy.
    steer: steer::SteerWeights,
    /// Entropy ratio clipping (arXiv:2512.05591): drops tokens whose place has changed its entropy
    /// since they were sampled.
    erc: erc::Erc,
    /// Clip_B (arXiv:2602.03392): drops tokens of worse responses that would lower entropy most.
    clip_b: clip_b::ClipB,
    /// Clip_V (arXiv:2602.03392): as Clip_B, by the exact slope of the entropy over the vocabulary.
    clip_v: clip_v::ClipV,
    /// Flexible entropy control (arXiv:2602.09782): clip thresholds depend on a token's probability
    /// p and on the run's progress. h = `upper_slope` p + `upper_intercept` is a threshold that
    /// raises entropy, l = `lower_slope` p + `lower_intercept` one that lowers it.
    flexible_clip: flexible_clip::FlexibleClip,
    /// BAPO (arXiv:2510.18927): clip bounds move until better responses bear a share of the loss.
    bapo: bapo::Bapo,
    /// Archer (arXiv:2507.15778): clip range and KL term differ by a token's entropy.
    archer: archer::Archer,
    /// EntroPIC (arXiv:2511.15248): a controller holds an entropy by the weights of likely tokens
    /// in better and in worse responses.
    entropic: entropic::Entropic,
}

impl Methods {
    pub(crate) fn check(&self) -> Result<()> {
        let table = |key| format!("objective.methods.{key}");
        self.active().iter().try_for_each(|active| active.method.check(&table(active.key)))
    }

    /// Applies the methods that are on, and returns the metric of each with the share of the tokens
    /// that it touched.
    pub(crate) fn apply(
        &self,
        tokens: &Tokens,
        treatment: &mut Treatment,
    ) -> Vec<(&'static str, f64)> {
        let count = tokens.logprobs.len().max(1) as f64;
        let apply = |active: ActiveMethod<'_>| {
            let before = treatment.clone();
            active.method.apply(tokens, treatment);
            (active.metric, treatment.differences(&before) as f64 / count)
        };
        self.active().into_iter().map(apply).collect()
    }

    /// Sentences about methods that are on and cannot act, given whether the loss clips ratios and
    /// whether every update is made on the policy that sampled.
    pub(crate) fn warnings(&self, loss_clips: bool, on_policy: bool) -> Vec<String> {
        let why = |active: &ActiveMethod<'_>| match active.about.kind {
            Kind::ClipRange if !loss_clips => {
                Some("moves clip bounds that nothing reads: objective.loss is one without clipping")
            }
            _ if on_policy && active.is_idle_on_policy => Some(
                "has no effect with one update per rollout: the policy is the one that sampled. \
                 Use several updates per rollout",
            ),
            _ => None,
        };
        let active = self.active();
        let idle = active.iter().filter_map(|active| Some((active.key, why(active)?)));
        idle.map(|(key, why)| format!("objective.methods.{key} {why}.")).collect()
    }
}

#[cfg(test)]
mod tests;
