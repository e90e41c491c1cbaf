//! AdamW's state, and one update from a finished gradient.

use crate::error::{Error, Result};
use crate::moments::Moments;
use crate::ranks::TrainingRanks;
use crate::settings::OptimizerSettings;
use crate::weight_slice::WeightSlice;
use isentrope_kernels::{AdamW, Backend, Buffer, Role, norm};
use isentrope_model::{Checkpoint, Model, ParameterList};
use isentrope_trace::span;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// After this many gradients in a row that are not finite, the run has failed.
const HOPELESS: u32 = 5;

/// The number of updates that an optimizer has made and left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateCounts {
    /// Updates made.
    pub updates: u32,
    /// Updates left out because their gradient was not finite.
    pub skipped: u32,
    /// Updates left out in a row until now.
    pub skipped_in_a_row: u32,
}

/// The moments of this rank's slice of all weights, and the number of updates behind them.
pub struct Optimizer {
    /// Its settings; the learning rate comes with each update.
    pub settings: OptimizerSettings,
    /// The recipe's table of these settings.
    pub(crate) table: &'static str,
    pub(crate) moments: Moments,
    /// The updates it has made.
    pub progress: UpdateCounts,
}

impl Optimizer {
    /// Checks the moments of a checkpoint for these parameters. It reads all of them and keeps
    /// none.
    pub fn check_moments(list: &ParameterList, checkpoint: &Checkpoint) -> Result<()> {
        Moments::check(list, checkpoint)
    }

    /// An optimizer before its first update. `table` is the recipe's table of the settings. `role`
    /// gives the role of a moment by its number of elements: [`Role::Moment`] or, in the host's
    /// memory, [`Role::OffloadedMoment`]. No bit depends on it.
    pub fn new(
        model: &Model,
        table: &'static str,
        settings: OptimizerSettings,
        ranks: &TrainingRanks,
        role: impl Fn(usize) -> Role,
    ) -> Result<Self> {
        let moments = Moments::zeros(model, ranks, role)?;
        Ok(Self { settings, table, moments, progress: UpdateCounts::default() })
    }

    /// A note on the updates left out since their number was `before`; `whose` follows the word
    /// update.
    pub(crate) fn skipped_since(&self, before: u32, whose: &str) -> Option<String> {
        let what = match self.progress.skipped - before {
            0 => return None,
            1 => format!("1 update {whose}is"),
            several => format!("{several} updates {whose}are"),
        };
        Some(format!("{what} left out of this step: the gradient is not finite"))
    }

    /// Updates this rank's slice of the weights from its slice of the gradient over all ranks, and
    /// gives it to the others if the model has all weights. `gradient` has the elements of each
    /// parameter that has any in the slice.
    ///
    /// Returns the norm of the gradient over all parameters, before clipping. One that is not
    /// finite changes nothing.
    ///
    /// # Errors
    /// [`Error::Run`] when gradients have not been finite for several updates in a row; when
    /// another rank has failed.
    pub fn update(
        &mut self,
        model: &mut Model,
        weights: &mut WeightSlice,
        gradient: &[(&Buffer, Range<usize>)],
        ranks: &TrainingRanks,
        learning_rate: f64,
    ) -> Result<f64> {
        let b = model.backend.clone();
        let summing = span("norm of the gradient");
        let norm = self.norm(&*b, gradient, ranks)?;
        drop(summing);
        if !norm.is_finite() {
            self.progress.skipped += 1;
            self.progress.skipped_in_a_row += 1;
            if self.progress.skipped_in_a_row == HOPELESS {
                return Err(Error::Run(format!(
                    "the gradient was not finite {HOPELESS} times in a row: lower {}.learning_rate \
                     and go on from an earlier checkpoint, or look for damaged weights",
                    self.table
                )));
            }
            return Ok(norm);
        }
        self.progress.updates += 1;
        self.progress.skipped_in_a_row = 0;
        let OptimizerSettings { beta1, beta2, eps, weight_decay, clip_norm, .. } = self.settings;
        let step = AdamW {
            learning_rate,
            beta1,
            beta2,
            eps,
            weight_decay,
            step: self.progress.updates,
            gradient_scale: (clip_norm / norm).min(1.0) as f32,
        };
        let updating = span("AdamW");
        b.adamw(step, &mut self.moments.updated(weights.own_mut(model), gradient));
        drop(updating);
        if weights.is_whole() {
            ranks.share_weights(model, &self.moments.slices)?;
        }
        Ok(norm)
    }

    /// The Euclidean norm of all weights, or of a gradient: each rank has its slice.
    pub(crate) fn norm(
        &self,
        backend: &dyn Backend,
        own: &[(&Buffer, Range<usize>)],
        ranks: &TrainingRanks,
    ) -> Result<f64> {
        let slices = &self.moments.slices;
        let own = backend.square_sums(own);
        let sums = ranks.gather_slices(own, |rank| slices.blocks_of_rank(rank))?;
        Ok(norm(slices.blocks_of_parameters().map(|blocks| &sums[blocks])))
    }
}
