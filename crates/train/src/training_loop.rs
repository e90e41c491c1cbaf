//! The loop of every run, whatever it trains: step, evaluate, log, save.

use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::metrics::Metrics;
use crate::observer::Observer;
use crate::plan::Plan;
use crate::run::{Ending, Run, RunSummary, StepRecord};
use isentrope_evaluation::{EvaluationSet, EvaluationSettings, Evaluator};
use isentrope_kernels::Backend;
use serde::Serialize;
use std::path::Path;

/// What one kind of training does in the loop.
pub(crate) trait Trainer<B: Backend> {
    /// Its part of a checkpoint.
    type State: Serialize;

    /// The step that the run is at.
    fn step(
        &mut self,
        training: &mut TrainingLoop<'_, B, Self::State>,
        record: &mut StepRecord,
    ) -> Result<()>;

    /// Where an evaluation is due, what it measures beside the responses to the evaluation sets.
    fn evaluate(&self, _learner: &Learner<B>, _record: &mut StepRecord) {}
}

/// A run with what is trained in it.
pub(crate) struct TrainingLoop<'a, B: Backend, S> {
    // What the run was given.
    pub eval: &'a EvaluationSettings,
    pub evaluator: Evaluator<'a>,
    pub sets: &'a [EvaluationSet],
    pub plan: &'a Plan,
    /// The directory that tokenizer and chat template come from.
    pub model_dir: &'a Path,
    // What changes from step to step.
    pub run: Run,
    pub learner: Learner<B>,
    /// The trainer's part of a checkpoint.
    pub state: S,
    pub observer: &'a mut dyn Observer,
}

impl<B: Backend, S: Serialize> TrainingLoop<'_, B, S> {
    /// Goes on from where the run is, to its last step or until the observer asks to stop.
    pub fn run(mut self, trainer: &mut impl Trainer<B, State = S>) -> Result<RunSummary> {
        if self.run.step == 0 {
            let mut record = StepRecord::default();
            self.evaluate(trainer, &mut record)?;
            self.run.record(record, self.observer)?;
            if self.observer.stop_requested() {
                return Ok(self.run.summary(Ending::Interrupted, self.sets)); // there is nothing to save
            }
        }
        let mut made = self.run.take_unrecorded();
        while made.is_some() || self.run.step < self.run.steps {
            let record = match made.take() {
                Some(record) => record,
                None => self.step(trainer)?,
            };
            if self.finish_step(trainer, record)? {
                return Ok(self.run.summary(Ending::Interrupted, self.sets));
            }
        }
        Ok(self.run.summary(Ending::Complete, self.sets))
    }

    fn step(&mut self, trainer: &mut impl Trainer<B, State = S>) -> Result<StepRecord> {
        self.run.begin_step();
        let mut record = StepRecord::default();
        let left_out = self.learner.optimizer.progress.skipped;
        trainer.step(self, &mut record)?;
        let left_out = self.learner.optimizer.progress.skipped - left_out;
        if left_out > 0 {
            let what = if left_out == 1 { "1 update is" } else { &format!("{left_out} updates are") };
            self.observer.note(&format!("{what} left out of this step: the gradient is not finite"));
        }
        self.trim_if_tight();
        Ok(record)
    }

    /// Evaluates, records and saves. Returns whether to stop before the last step.
    fn finish_step(&mut self, trainer: &impl Trainer<B, State = S>, mut record: StepRecord) -> Result<bool> {
        let measured = record.metrics.clone();
        if let Err(error) = self.evaluate(trainer, &mut record) {
            self.save_before_failing(&error, Some(measured));
            return Err(error);
        }
        self.run.record(record, self.observer)?;
        self.run.save_if_due(&self.learner, self.model_dir, &self.state, self.observer)
    }

    /// Saves what the steps before this one have come to, since this one ends with an error before it has changed weights
    /// or state. Returns the error.
    pub fn abandon_step(&mut self, error: Error) -> Error {
        self.run.undo_step();
        self.save_before_failing(&error, None);
        error
    }

    /// Weights that the error leaves in doubt are not worth a checkpoint.
    fn save_before_failing(&mut self, error: &Error, unrecorded: Option<Metrics>) {
        if !error.doubts_weights() {
            let (learner, state) = (&self.learner, &self.state);
            self.run.save_before_failing(learner, self.model_dir, state, unrecorded, self.observer);
        }
    }

    /// Gives what a phase has freed back to the system, where the next would not fit beside it.
    pub fn trim_if_tight(&self) {
        if self.plan.is_tight() {
            self.learner.model.backend.trim();
        }
    }

    /// Measures the model on held-out data, where due.
    fn evaluate(&mut self, trainer: &impl Trainer<B, State = S>, record: &mut StepRecord) -> Result<()> {
        if !self.eval.due(self.run.step, self.run.steps) {
            return Ok(());
        }
        trainer.evaluate(&self.learner, record);
        self.trim_if_tight();
        if self.sets.is_empty() {
            return Ok(()); // a mean over nothing would pass for a score
        }
        let model = &self.learner.model;
        self.run.evaluate(&self.evaluator, model, self.sets, record, self.observer)?;
        self.trim_if_tight();
        Ok(())
    }
}
