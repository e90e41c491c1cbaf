//! The observer of a run: it hears of steps and progress, and may ask the run to stop.

use crate::metrics::Metrics;
pub use isentrope_rollout::{Phase, Progress, ProgressObserver};

/// Watches a run: its work, and its steps. Where the run is asked to stop, it ends after the step
/// that is being made.
pub trait Observer: ProgressObserver {
    /// A step begins: its number, from 1, and how many there are in all.
    fn begins(&mut self, _step: u64, _steps: u64) {}
    /// The numbers of a step are there.
    fn step(&mut self, step: &StepReport<'_>);
    /// The step that has begun is over, its checkpoint written where one was due. A step that has
    /// failed never is.
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
