//! The observer of a run: it receives steps and progress, and may ask the run to stop.

use crate::metrics::Metrics;
pub use isentrope_rollout::{Phase, Progress, ProgressObserver};

/// Watches a run's work and steps. If the observer asks the run to stop, it ends after the current
/// step.
pub trait Observer: ProgressObserver {
    /// A step begins: its number, from 1, and how many there are in all.
    fn begins(&mut self, _step: u64, _steps: u64) {}
    /// A step has been recorded; these are its numbers.
    fn step(&mut self, step: &StepReport<'_>);
    /// The current step is over, and its checkpoint written if one was due. Not called for a step
    /// that fails.
    fn is_over(&mut self) {}
}

/// A completed step.
#[derive(Clone, Copy, Debug)]
pub struct StepReport<'a> {
    /// The step's number, from 1; 0 is the evaluation before the first step.
    pub step: u64,
    /// Steps in all.
    pub steps: u64,
    /// The measurements that depend on the recipe alone.
    pub metrics: &'a Metrics,
    /// How long things took.
    pub timings: &'a Metrics,
    /// Sentences on the run so far that follow from its evaluation.
    pub remarks: &'a [String],
}
