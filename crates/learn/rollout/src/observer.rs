//! The observer of long work: it receives progress, and may ask the work to stop.

/// Watches a piece of work.
pub trait ProgressObserver {
    /// Whether the work should stop as soon as it can.
    fn stop_requested(&self) -> bool {
        false
    }
    /// Reports progress. Work begins with a report of nothing done and no tokens.
    fn progress(&mut self, _progress: Progress) {}
    /// Something the user should know.
    fn note(&mut self, text: &str);
}

/// The progress of a piece of work.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The kind of work.
    pub phase: Phase,
    /// Units done: responses, updates, passes or checkpoints.
    pub done: usize,
    /// Units in all.
    pub total: usize,
    /// Tokens sampled or trained on so far in this piece of work.
    pub tokens: usize,
}

/// Kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Sampling responses to train on.
    Rollout,
    /// Scoring them by the reference model.
    Reference,
    /// Scoring them by the teacher.
    Teacher,
    /// Training on them.
    Update,
    /// Scoring responses by a process model, and training it.
    ProcessModel,
    /// Scoring responses again, to measure the effect of training on the policy.
    Measurement,
    /// Sampling responses to held-out problems.
    Evaluation,
    /// Writing a checkpoint.
    Checkpoint,
}
