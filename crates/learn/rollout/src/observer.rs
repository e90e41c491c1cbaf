//! The observer of a long piece of work: it hears of progress, and may ask the work to stop.

/// Watches a piece of work.
pub trait ProgressObserver {
    /// Whether the work should be broken off where it can be.
    fn stop_requested(&self) -> bool;
    /// Work is going on. A piece of work begins with nothing done and no tokens.
    fn progress(&mut self, progress: Progress);
    /// Something the user should know.
    fn note(&mut self, text: &str);
}

/// How far a piece of work has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The kind of work.
    pub phase: Phase,
    /// Units done: responses, updates, passes or checkpoints.
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
    /// Scoring them by the reference model.
    Reference,
    /// Training on them.
    Update,
    /// Scoring them by a process model, and training that.
    ProcessModel,
    /// Scoring them once more, to measure what training does to the policy.
    Measurement,
    /// Sampling responses to held-out problems.
    Evaluation,
    /// Writing a checkpoint.
    Checkpoint,
}
