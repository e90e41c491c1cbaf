//! The rollout of a step: groups of judged responses to learn from.
//!
//! With the filter on, groups whose responses all have the same score are dropped, since they teach
//! nothing, or those that are too hard or too easy (PRIME, arXiv:2502.01456), and more prompts are
//! sampled until there are enough (dynamic sampling, DAPO, arXiv:2503.14476). What is left over is
//! kept for the next step.

mod batch;
mod exchange;
mod share_out;

use crate::error::{Error, Result};
use crate::group::Group;
use crate::rl::Recipe;
use crate::rollout_statistics::RolloutStatistics;
use crate::run::Journal;
use crate::token_records::{DroppedRecords, RecordBudget};
use crate::trainer::CollectContext;
use isentrope_data::Source;
use isentrope_rollout::Sampling;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Responses that are sampled to learn from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RolloutSettings {
    /// Prompts of a rollout. With `filter`, prompts that are left after it.
    #[schemars(range(min = 1))]
    pub prompts: usize,
    /// Responses to each prompt, which make a group.
    #[schemars(range(min = 1))]
    pub responses: usize,
    /// Divisor of the logits, in sampling and in training alike.
    #[schemars(range(min = 0.01, max = 100.0))]
    pub temperature: f32,
    /// Keeps this many most likely tokens at each draw; 0 keeps all. Top-k, top-p and min-p apply
    /// in this order, after the temperature. The tokens that were kept are remembered, and the loss
    /// is that of the policy among them, see docs/guides/train.md.
    pub top_k: usize,
    /// Keeps the most likely tokens that together have this probability; 1 keeps all.
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0))]
    pub top_p: f32,
    /// Keeps tokens at least this many times as likely as the likeliest; 0 keeps all.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_p: f32,
    /// Longest response, in tokens. With an environment, of all turns together, with the tokens
    /// that the model is given: the opening, and the answers between turns.
    #[schemars(range(min = 1))]
    pub max_tokens: usize,
    /// Texts that end a response and are cut off it. One that is a special token, such as
    /// `"<|im_end|>"`, ends the response where that token is sampled; the token stays among those
    /// that are learnt, as end tokens do, so that ending is learnt too.
    pub stop: Vec<String>,
    /// Dynamic sampling (DAPO): prompts whose responses all have the same score are dropped and
    /// replaced, and what is sampled beyond `prompts` is kept for the next step.
    pub filter: bool,
    /// With `filter`, a prompt passes if the correct share of its judged responses lies between
    /// these two numbers, both included; [0.2, 0.8] in PRIME (arXiv:2502.01456). Unset: a prompt
    /// passes if its responses have different scores.
    pub accuracy_band: Option<[f64; 2]>,
    /// With `filter`, how many times a step may sample prompts before it gives up.
    #[schemars(range(min = 1))]
    pub max_batches: usize,
    /// Reaction when prompts are still missing after `max_batches`.
    pub when_short: WhenShort,
}

impl Default for RolloutSettings {
    fn default() -> Self {
        Self {
            prompts: 64,
            responses: 8,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            max_tokens: 1024,
            stop: Vec::new(),
            filter: false,
            accuracy_band: None,
            max_batches: 10,
            when_short: WhenShort::Error,
        }
    }
}

/// Reaction when the filter leaves too few prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenShort {
    /// The run ends with an error.
    Error,
    /// The step trains on the prompts there are.
    Train,
}

/// One step's rollout in the making.
pub(crate) struct Collector<'a, 'c> {
    pub recipe: &'a Recipe,
    /// How responses are drawn.
    pub sampling: Arc<Sampling>,
    pub context: &'a mut CollectContext<'c>,
    /// The first problem that no step has taken.
    pub position: u64,
    /// Groups left over from the step before.
    pub carried: usize,
    /// Keeps responses in case the step is broken off.
    pub journal: Journal,
    /// The source of problems.
    pub source: &'a mut Source,
}

/// The result of a rollout.
pub struct CollectedRollout {
    /// The groups that were sampled and passed the filter, in order. May be more than the step
    /// needs.
    pub groups: Vec<Group>,
    /// All groups sampled in this step, in order, before the filter.
    pub statistics: RolloutStatistics,
    /// Responses of groups that the filter has dropped, for token records.
    pub(crate) dropped: DroppedRecords,
    /// The number of problems taken from the source.
    pub taken: u64,
    /// Time for which the step only waited for verdicts.
    pub waited: Duration,
    /// Time of all verdicts, summed over the verifier's workers.
    pub verdicts: Duration,
    /// The number of responses that have gone from one rank to another.
    pub moved: usize,
    /// Tokens of responses that were sampled before the step was broken off.
    pub journalled: usize,
}

impl Collector<'_, '_> {
    /// Samples and judges until there are enough groups, the carried ones included. `seen` is given
    /// each group that is sampled.
    ///
    /// # Errors
    /// [`Error::Run`] when the filter leaves too few groups, or no response could be judged.
    pub fn collect(
        mut self,
        seen: &mut dyn FnMut(&Group) -> Result<()>,
    ) -> Result<CollectedRollout> {
        let RolloutSettings { prompts: wanted, filter, max_batches, .. } = self.recipe.rollout;
        if let Some(cache) = &mut self.context.activation_cache {
            cache.clear(); // what it has is of other weights
        }
        let statistics = match self.context.turns {
            Some(_) => RolloutStatistics::default().with_turns(),
            None => RolloutStatistics::default(),
        };
        let mut collected = CollectedRollout {
            groups: Vec::new(),
            statistics,
            dropped: DroppedRecords::new(RecordBudget {
                tokens: self.recipe.lab.record_tokens,
                seed: self.recipe.run.seed,
                step: self.context.step,
            }),
            taken: 0,
            waited: Duration::ZERO,
            verdicts: Duration::ZERO,
            moved: 0,
            journalled: 0,
        };
        let mut batches = 0;
        while self.carried + collected.groups.len() < wanted {
            let there = self.carried + collected.groups.len();
            if batches == max_batches.max(1) {
                self.fell_short(&collected, there, batches)?;
                break;
            }
            // Samples as many problems as will probably yield the missing groups, at this step's
            // pass rate.
            let missing = wanted - there;
            let sampled = collected.taken as usize;
            let count = if sampled == 0 {
                missing
            } else {
                (missing * sampled).div_ceil(collected.groups.len().max(1)).clamp(missing, wanted)
            };
            // The first update is on-policy: it can use the activations of sampling.
            let first_update = self.recipe.prompts_per_update().saturating_sub(there);
            // Which groups will pass the filter is not known yet.
            let cached = if filter && first_update > 0 { count } else { first_update };
            let batch = self.sample(collected.taken, count, cached)?;
            collected.taken += count as u64;
            collected.waited += batch.waited;
            collected.verdicts += batch.verdicts;
            collected.moved += batch.moved;
            collected.journalled += batch.journalled;
            batches += 1;
            for group in batch.groups {
                seen(&group)?;
                collected.statistics.add(&group);
                if !filter || self.teaches(&group) {
                    collected.groups.push(group);
                } else {
                    collected.dropped.add(&group);
                }
            }
            collected.statistics.check_faults()?;
            if !filter {
                break;
            }
        }
        Ok(collected)
    }

    /// Whether the group passes the filter.
    fn teaches(&self, group: &Group) -> bool {
        let teaches = match self.recipe.rollout.accuracy_band {
            // A single judged response of several has nothing to be compared with.
            Some([low, high]) => {
                group.judged().nth(1).is_some()
                    && group.accuracy().is_some_and(|share| low <= share && share <= high)
            }
            None => group.informative(),
        };
        let is_compared = !self.recipe.objective.needs_greedy_baseline();
        teaches && (is_compared || group.greedy_reward().is_some())
    }

    fn fell_short(
        &mut self,
        collected: &CollectedRollout,
        there: usize,
        batches: usize,
    ) -> Result<()> {
        let (statistics, settings) = (&collected.statistics, &self.recipe.rollout);
        let summary = format!(
            "{there} of {} prompts after {batches} batches: of the {} sampled, {} were solved by \
             all responses and {} by none",
            settings.prompts, collected.taken, statistics.solved_all, statistics.solved_none
        );
        if settings.when_short == WhenShort::Train && there > 0 {
            self.context.observer.note(&format!("training on {summary}"));
            return Ok(());
        }
        let mut remedies = vec![
            "use data of another difficulty",
            "raise rollout.max_batches or rollout.responses",
        ];
        remedies.extend(settings.accuracy_band.map(|_| "widen rollout.accuracy_band"));
        remedies.extend((there > 0).then_some("set rollout.when_short = \"train\""));
        Err(Error::Run(format!("the filter left {summary}; {}", remedies.join(", or "))))
    }
}
