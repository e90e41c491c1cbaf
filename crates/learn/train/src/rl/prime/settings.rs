//! The recipe's `[prime]` table.

use crate::error::{Error, Result};
use crate::model_kind::ModelKind;
use crate::settings::{OptimizerSettings, PROCESS_OPTIMIZER};
use isentrope_objective::{Prime, ProcessScale};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// PRIME, for `objective.advantage = "prime"`: a second model, the process model phi, which begins
/// as the policy does, gives each token of a response a reward (docs/concepts/entropy.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PrimeSettings {
    /// The reward of a token is beta (log pi_phi - log pi_ref), pi_ref being the model that
    /// training started from; the sigmoid of a response's sum is the probability of a correct
    /// verdict that phi learns by.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub beta: f64,
    /// A model directory that phi begins as: of the configuration and the tokenizer of
    /// `model.path`, such as `trainer/process_model` of another run's checkpoint. Unset: it begins
    /// as the policy does.
    pub model: Option<PathBuf>,
    /// Whether phi learns from a rollout before it scores it, or after.
    pub order: Order,
    /// Weight of the reward of the whole response, which enters as in `"rloo"`.
    #[schemars(range(min = 0.0))]
    pub outcome_weight: f64,
    /// Weight of the rewards of tokens; above 0.
    #[schemars(range(min = 0.0))]
    pub process_weight: f64,
    /// The divisor of the rewards of tokens, before they are weighed.
    pub process_scale: ProcessScale,
    /// Prompts of one minibatch of phi, with all their responses: one update of phi. Unset: as
    /// `update.prompts`. Phi goes through a rollout once.
    #[schemars(range(min = 1))]
    pub prompts: Option<usize>,
    /// Phi's AdamW, its schedule and gradient clipping.
    pub optimizer: OptimizerSettings,
}

/// When the process model learns from a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Before it scores it: rewards follow the policy at once, and phi has seen the verdicts that
    /// it scores by. The published code's default.
    #[default]
    Before,
    /// After it has scored it: phi has not seen the verdicts of what it scores.
    After,
}

impl Default for PrimeSettings {
    fn default() -> Self {
        Self {
            beta: 0.05,
            model: None,
            order: Order::default(),
            outcome_weight: 5.0,
            process_weight: 5.0,
            process_scale: ProcessScale::default(),
            prompts: None,
            optimizer: OptimizerSettings::default(),
        }
    }
}

impl PrimeSettings {
    /// How the parts of the advantage are put together.
    pub(super) fn parts(&self) -> Prime {
        let Self { beta, outcome_weight, process_weight, process_scale, .. } = *self;
        Prime { beta, outcome_weight, process_weight, process_scale }
    }

    /// Checks what the types' ranges do not say, for rollouts of `prompts` prompts.
    pub(crate) fn check(&self, prompts: usize) -> Result<()> {
        if self.process_weight == 0.0 {
            let what = "is 0, and phi would be trained for nothing: raise it, or set \
                        objective.advantage to \"rloo\", which is what is left";
            return Err(Error::setting("prime.process_weight", what));
        }
        if let Some(of_update) = self.prompts
            && of_update > prompts
        {
            let what = format!("is {of_update}: it must be from 1 to rollout.prompts ({prompts})");
            return Err(Error::setting("prime.prompts", what));
        }
        self.optimizer.check(PROCESS_OPTIMIZER)
    }

    /// Checks that phi's starting model is of the same kind as the policy's, whose directory is
    /// `policy`.
    ///
    /// # Errors
    /// [`Setting`](isentrope_evaluation::Error::Setting) when it cannot be read or is another
    /// model's; what is wrong with the policy's configuration.
    pub(crate) fn check_model(&self, policy: &Path) -> Result<()> {
        let Some(dir) = &self.model else { return Ok(()) };
        let own = ModelKind::of(dir).map_err(|e| {
            let what = format!(
                "cannot be read: {e}; a run that has begun does not need it any more, and --set \
                 prime.model= takes the key out"
            );
            Error::setting("prime.model", what)
        })?;
        let Some(other) = own.differs_in(&ModelKind::of(policy)?) else { return Ok(()) };
        let what = format!(
            "is {}, whose {other} is another than the policy's: it must be a model like \
             model.path, which it is held against",
            dir.display()
        );
        Err(Error::setting("prime.model", what))
    }
}
