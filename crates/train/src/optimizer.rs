//! AdamW's state, and one update from a finished gradient.

use crate::error::{Error, Result};
use crate::settings::{self, POLICY_OPTIMIZER};
use isentrope_kernels::{AdamW, Backend, Role, Updated};
use isentrope_model::checkpoint::Tensor;
use isentrope_model::{Checkpoint, Model, Parameters};
use serde::{Deserialize, Serialize};

/// Names of the moments' tensors in a checkpoint, as PyTorch's optimizer state calls them.
const FIRST: &str = "exp_avg.";
const SECOND: &str = "exp_avg_sq.";
/// After this many gradients in a row that are not finite, the run has failed.
const HOPELESS: u32 = 5;

/// How far the optimizer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Updates made.
    pub updates: u32,
    /// Updates left out because their gradient was not finite.
    pub skipped: u32,
    /// Of these, how many in a row until now.
    pub skipped_in_a_row: u32,
}

/// Both moments of every parameter, and how many updates made them.
pub struct Optimizer<B: Backend> {
    settings: settings::Optimizer,
    /// The recipe's table of these settings.
    table: &'static str,
    first: Parameters<B>,
    second: Parameters<B>,
    /// How far it has come.
    pub progress: Progress,
}

/// What an update did.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    /// Norm of the gradient over all parameters, before clipping.
    pub norm: f64,
    /// Whether it was made: a gradient that is not finite changes nothing.
    pub applied: bool,
}

impl<B: Backend> Optimizer<B> {
    /// Before the first update.
    ///
    /// # Errors
    /// When there is no memory for the moments.
    pub fn new(model: &Model<B>, settings: settings::Optimizer) -> Result<Self> {
        let zeros = || Parameters::zeros(&*model.backend, &model.layout, Role::Moment);
        let progress = Progress::default();
        Ok(Self { settings, table: POLICY_OPTIMIZER, first: zeros()?, second: zeros()?, progress })
    }

    /// As it was when its moments were written.
    ///
    /// # Errors
    /// Names the file and the tensor that is missing or malformed.
    pub fn read(
        model: &Model<B>,
        settings: settings::Optimizer,
        checkpoint: &Checkpoint,
        progress: Progress,
    ) -> Result<Self> {
        let Model { backend, layout, .. } = model;
        let read = |prefix| Parameters::read(&**backend, layout, Role::Moment, checkpoint, prefix);
        Ok(Self { settings, table: POLICY_OPTIMIZER, first: read(FIRST)?, second: read(SECOND)?, progress })
    }

    /// The same, with its settings in another table of the recipe than `optimizer`.
    pub(crate) fn of_table(self, table: &'static str) -> Self {
        Self { table, ..self }
    }

    /// The recipe's table of its settings.
    pub(crate) fn table(&self) -> &'static str {
        self.table
    }

    /// What is said of the updates that were left out since there were `before`; `whose` comes after the word update.
    pub(crate) fn skipped_since(&self, before: u32, whose: &str) -> Option<String> {
        let what = match self.progress.skipped - before {
            0 => return None,
            1 => format!("1 update {whose}is"),
            several => format!("{several} updates {whose}are"),
        };
        Some(format!("{what} left out of this step: the gradient is not finite"))
    }

    /// The moments, to be written.
    pub fn tensors<'a>(&'a self, model: &'a Model<B>) -> Vec<Tensor<'a>> {
        let mut tensors = self.first.tensors(&model.backend, &model.layout, FIRST);
        tensors.extend(self.second.tensors(&model.backend, &model.layout, SECOND));
        tensors
    }

    /// Updates the weights.
    ///
    /// # Errors
    /// [`Error::Run`] when gradients have not been finite for several updates in a row.
    pub fn update(
        &mut self,
        model: &mut Model<B>,
        gradient: &Parameters<B>,
        learning_rate: f64,
    ) -> Result<Update> {
        let b = &*model.backend;
        let norm = b.norm(&gradient.buffers().iter().collect::<Vec<_>>());
        if !norm.is_finite() {
            self.progress.skipped += 1;
            self.progress.skipped_in_a_row += 1;
            if self.progress.skipped_in_a_row == HOPELESS {
                return Err(Error::Run(format!(
                    "the gradient was not finite {HOPELESS} times in a row: lower {}.learning_rate and go on from an earlier \
                     checkpoint, or look for damaged weights",
                    self.table
                )));
            }
            return Ok(Update { norm, applied: false });
        }
        self.progress.updates += 1;
        self.progress.skipped_in_a_row = 0;
        let settings::Optimizer { beta1, beta2, eps, weight_decay, clip_norm, .. } = self.settings;
        let step = AdamW {
            learning_rate,
            beta1,
            beta2,
            eps,
            weight_decay,
            step: self.progress.updates,
            gradient_scale: (clip_norm / norm).min(1.0) as f32,
        };
        let moments = self.first.buffers_mut().iter_mut().zip(self.second.buffers_mut());
        let weights = model.weights.buffers_mut().iter_mut().zip(gradient.buffers());
        let mut updated: Vec<Updated<'_, B::Buffer>> = weights
            .zip(moments)
            .map(|((weights, gradient), (first, second))| Updated { weights, gradient, first, second })
            .collect();
        b.adamw(step, &mut updated);
        Ok(Update { norm, applied: true })
    }
}
