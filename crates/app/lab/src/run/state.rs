//! A run's progress and pace, and whether a process is training it.

use crate::log::RunLog;
use crate::run_files::METRICS;
use isentrope_files::is_locked;
use serde_json::Value;
use std::path::Path;
use std::time::SystemTime;

/// Number of last steps whose mean time estimates the time left.
const RECENT: usize = 20;
/// A run in training is silent if it wrote nothing for this many seconds and for this many times
/// the time of a step.
const SILENCE: (f64, f64) = (60.0, 10.0);

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A process trains in it.
    Training,
    /// The run has made all its steps.
    Complete,
    /// The run has steps left, and no process is training it.
    Stopped,
    /// Not known: the log is another trainer's, or the file system has no locks.
    Unknown,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Whether it goes on.
    pub condition: Condition,
    /// The last step that is recorded.
    pub step: Option<u64>,
    /// The steps of its recipe, if that is known.
    pub steps: Option<u64>,
    /// Mean seconds of the latest steps.
    pub step_seconds: Option<f64>,
    /// Seconds of all steps together.
    pub seconds: f64,
    /// Whether evaluations are among these seconds.
    pub has_evaluation: bool,
    /// Seconds since the run's last write, if it is in training and that is long.
    pub silent: Option<f64>,
}

impl State {
    /// Whether a process trains in a run's directory; none if not known.
    pub(super) fn is_training(dir: &Path, recipe: Option<&Value>) -> Option<bool> {
        recipe.and_then(|_| is_locked(dir))
    }

    pub(super) fn of(log: &RunLog, recipe: Option<&Value>, is_training: Option<bool>) -> Self {
        let step = log.last_step();
        let steps = recipe.and_then(|recipe| recipe["run"]["steps"].as_u64());
        let condition = match (is_training, step, steps) {
            (Some(true), ..) => Condition::Training,
            (_, Some(step), Some(steps)) if step >= steps => Condition::Complete,
            (Some(false), ..) => Condition::Stopped,
            (None, ..) => Condition::Unknown,
        };
        let times = log.series("time/step_s").into_iter().flat_map(crate::log::Series::iter);
        let times: Vec<f64> = times.filter(|(step, _)| *step > 0).map(|(_, s)| s).collect();
        let recent = &times[times.len().saturating_sub(RECENT)..];
        let step_seconds =
            (!recent.is_empty()).then(|| recent.iter().sum::<f64>() / recent.len() as f64);
        let silent = (condition == Condition::Training).then(|| age(&log.path)).flatten();
        let silent = silent.filter(|s| *s > SILENCE.0.max(SILENCE.1 * step_seconds.unwrap_or(0.0)));
        let (seconds, has_evaluation) = log.seconds().unwrap_or((0.0, true));
        Self { condition, step, steps, step_seconds, seconds, has_evaluation, silent }
    }

    /// Seconds that the remaining steps will take.
    pub fn seconds_left(&self) -> Option<f64> {
        let left = self.steps?.checked_sub(self.step?)?;
        (left > 0).then_some(left as f64 * self.step_seconds?)
    }
}

/// Seconds since a run wrote its last step.
fn age(dir: &Path) -> Option<f64> {
    let written = dir.join(METRICS).metadata().ok()?.modified().ok()?;
    Some(SystemTime::now().duration_since(written).ok()?.as_secs_f64())
}
