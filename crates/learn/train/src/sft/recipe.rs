//! The recipe of supervised fine-tuning.

use crate::error::Result;
use crate::settings::{
    self, CheckpointSettings, LoraSettings, ModelSource, OptimizerSettings, RanksSettings,
    RunSettings,
};
use crate::trainer::TrainingRecipe;
use isentrope_budget::memory::MemorySettings;
use isentrope_evaluation::EvaluationSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A recipe for supervised fine-tuning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// The run as a whole.
    pub run: RunSettings,
    /// The model that is trained.
    pub model: ModelSource,
    /// Low-rank adapters (LoRA), trained in place of the model's weights. Unset: all weights are
    /// trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraSettings>,
    /// The data to train on: problems for `train`, examples for `sft`.
    pub data: isentrope_data::DataSettings,
    /// The examples of one update.
    pub sft: SftSettings,
    /// Rewards of responses; for `sft`, in evaluations.
    pub reward: isentrope_reward::RewardSettings,
    /// AdamW, its schedule and gradient clipping.
    pub optimizer: OptimizerSettings,
    /// Evaluation on held-out problems during the run.
    pub eval: EvaluationSettings,
    /// Checkpoints, and how often they are saved.
    pub checkpoint: CheckpointSettings,
    /// Where the run computes, and what it keeps numbers as (docs/guides/gpus.md).
    pub device: settings::DeviceSettings,
    /// Memory that the run may use. Nothing here changes a result.
    pub memory: MemorySettings,
    /// Several processes that train together (docs/guides/several-machines.md). Nothing here
    /// changes a result.
    pub ranks: RanksSettings,
}

/// The examples of one update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SftSettings {
    /// Examples of one update.
    #[schemars(range(min = 1, max = 1048576))]
    pub batch: usize,
    /// Examples with more tokens than this are passed over. Also the longest response in
    /// evaluations, unless `eval.max_tokens` is set.
    #[schemars(range(min = 1))]
    pub max_tokens: usize,
    /// Parts of a batch whose gradients are computed apart and then added, as `update.shards` of
    /// reinforcement learning.
    #[schemars(range(min = 1, max = 65536))]
    pub shards: Option<usize>,
    /// Weight of the load-balancing loss of a mixture of experts, as
    /// `objective.router_aux_coefficient` of reinforcement learning, over all tokens behind a
    /// prompt. 0: off.
    #[schemars(range(min = 0.0))]
    pub router_aux_coefficient: f64,
    /// Files of held-out examples, whose loss is measured at every evaluation, on at most
    /// `eval.problems` of them. Without any, the built-in task gives worked examples of test
    /// problems, which are never trained on.
    pub eval_files: Vec<PathBuf>,
}

impl Default for SftSettings {
    fn default() -> Self {
        let (batch, max_tokens, router_aux_coefficient) = (64, 2048, 0.0);
        Self { batch, max_tokens, shards: None, router_aux_coefficient, eval_files: Vec::new() }
    }
}

impl Recipe {
    /// Checks every key and combinations of keys.
    pub fn check(&self) -> Result<()> {
        self.model.check()?;
        isentrope_settings::check("", self)?;
        self.tables().check(self.longest_response())
    }

    /// Longest response sampled in evaluations, in tokens.
    pub(super) fn longest_response(&self) -> usize {
        self.eval.max_tokens.unwrap_or(self.sft.max_tokens)
    }
}
