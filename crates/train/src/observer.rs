//! How a run tells whoever watches it what it is doing, and is told to stop.

use crate::metrics::Metrics;

/// Watches a run.
pub trait Observer {
    /// Whether to end after the step that is being made.
    fn stop_requested(&self) -> bool;
    /// Work is going on. A piece of work begins with nothing done and no tokens.
    fn progress(&mut self, progress: Progress);
    /// A step is complete.
    fn step(&mut self, step: &StepReport<'_>);
    /// Something the user should know.
    fn note(&mut self, text: &str);
}

/// Work within a step.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The kind of work.
    pub phase: Phase,
    /// Units done: responses, updates or checkpoints.
    pub done: usize,
    /// Units in all.
    pub total: usize,
    /// Tokens sampled or trained on until now in this piece of work.
    pub tokens: usize,
}

/// Kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Sampling responses to train on.
    Rollout,
    /// Training on them.
    Update,
    /// Sampling responses to held-out problems.
    Evaluation,
    /// Writing a checkpoint.
    Checkpoint,
}

/// A completed step.
#[derive(Clone, Copy, Debug)]
pub struct StepReport<'a> {
    /// Its number, from 1; 0 is the evaluation before the first.
    pub step: u64,
    /// Steps in all.
    pub steps: u64,
    /// What was measured that depends on the recipe alone.
    pub metrics: &'a Metrics,
    /// How long things took.
    pub timings: &'a Metrics,
}
