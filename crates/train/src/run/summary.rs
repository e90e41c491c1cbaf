//! What to tell the user when a run ends.

use crate::metrics::Metrics;
use isentrope_evaluation::Evaluation;
use std::path::PathBuf;
use std::time::Duration;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// At its last step.
    Complete,
    /// Before, because it was asked to.
    Interrupted,
}

/// What to tell the user at the end.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// How it ended.
    pub ending: Ending,
    /// Steps made.
    pub step: u64,
    /// Evaluations before the first step and after the last evaluated one.
    pub first: Vec<Evaluation>,
    /// After the last evaluated step.
    pub last: Vec<Evaluation>,
    /// The last evaluated step.
    pub last_step: u64,
    /// The best evaluated checkpoint, if it is still there: step and mean accuracy.
    pub best: Option<(u64, f64)>,
    /// The run's last checkpoint, if it has one: saved by this process, or the one that it went on from.
    pub checkpoint: Option<PathBuf>,
    /// The run's directory.
    pub directory: PathBuf,
    /// A held-out prompt to try the model on.
    pub example: Option<String>,
    /// Time of this process.
    pub elapsed: Duration,
    /// What it was spent on, and speeds.
    pub timings: Metrics,
}
