//! How far a run is, how fast, and whether a process still trains in it.

use super::text::{Look, Paint, duration};
use crate::log::RunLog;
use crate::run_files::{METRICS, RECIPE};
use isentrope_files::is_locked;
use serde_json::Value;
use std::path::Path;
use std::time::SystemTime;

/// Steps whose mean time makes the estimate of the time left.
const RECENT: usize = 20;
/// A run that trains and has written nothing for so many seconds, and so many times the time of a step, is silent.
const SILENCE: (f64, f64) = (60.0, 10.0);

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A process trains in it.
    Training,
    /// It has made all its steps.
    Complete,
    /// It has not, and no process trains in it.
    Stopped,
    /// That cannot be told: a log of another trainer, or a file system without locks.
    Unknown,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Whether it goes on.
    pub condition: Condition,
    /// The last step that is recorded.
    pub step: Option<u64>,
    /// Steps that it is to make, as far as the recipe is known.
    pub steps: Option<u64>,
    /// Mean seconds of the latest steps.
    pub step_seconds: Option<f64>,
    /// Seconds of all steps together.
    pub seconds: f64,
    /// Whether evaluations are among them.
    pub has_evaluation: bool,
    /// Seconds for which it has been silent though it trains, if that is long.
    pub silent: Option<f64>,
}

impl State {
    /// Whether a process trains in a run's directory; none where that cannot be told. It is to be asked before the log is read:
    /// what is read after a run has ended is all of it.
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
        let times: Vec<f64> = log
            .series("time/step_s")
            .map_or(Vec::new(), |times| times.iter().filter(|(step, _)| *step > 0).map(|(_, s)| s).collect());
        let recent = &times[times.len().saturating_sub(RECENT)..];
        let step_seconds = (!recent.is_empty()).then(|| recent.iter().sum::<f64>() / recent.len() as f64);
        let silent = (condition == Condition::Training).then(|| age(&log.path)).flatten();
        let silent = silent.filter(|s| *s > SILENCE.0.max(SILENCE.1 * step_seconds.unwrap_or(0.0)));
        let (seconds, has_evaluation) = log.seconds().unwrap_or((0.0, true));
        Self { condition, step, steps, step_seconds, seconds, has_evaluation, silent }
    }

    /// Seconds that the steps to come will take.
    pub fn seconds_left(&self) -> Option<f64> {
        let left = self.steps?.checked_sub(self.step?)?;
        (left > 0).then_some(left as f64 * self.step_seconds?)
    }

    /// The state in a sentence.
    pub(super) fn sentence(&self, look: &Look) -> String {
        let step = match (self.step, self.steps) {
            (None, _) => "nothing measured yet".to_owned(),
            (Some(step), Some(steps)) if step <= steps => format!("step {step} of {steps}"),
            // A resumed run may be told to end sooner than it already has.
            (Some(step), Some(steps)) => format!("step {step}, past run.steps = {steps}"),
            (Some(step), None) => format!("step {step}"),
        };
        let (word, paint) = match self.condition {
            Condition::Training => ("training", Paint::Good),
            Condition::Complete => ("finished", Paint::Good),
            Condition::Stopped => ("stopped", Paint::Doubtful),
            Condition::Unknown => ("", Paint::Heading),
        };
        let mut text = match word {
            "" => step,
            word => format!("{}, {step}", look.paint(paint, word)),
        };
        if let Some(seconds) = self.step_seconds {
            text += &format!(", {} per step", step_time(seconds));
        }
        match self.condition {
            Condition::Training => {
                if let Some(seconds) = self.seconds_left() {
                    text += &format!(", {} left", duration(seconds));
                }
                if let Some(seconds) = self.silent {
                    text += &format!(", nothing new for {}", duration(seconds));
                }
            }
            _ if self.seconds > 0.0 => {
                let all = if self.has_evaluation { "in all" } else { "of training" };
                text += &format!(", {} {all}", duration(self.seconds));
            }
            _ => {}
        }
        text
    }

    /// How a stopped run goes on.
    pub(super) fn remedy(&self, log: &RunLog, recipe: Option<&Value>) -> Option<String> {
        let command = if recipe?.get("sft").is_some() { "sft" } else { "train" };
        let path = log.path.join(RECIPE);
        (self.condition == Condition::Stopped)
            .then(|| format!("isentrope {command} {} --resume goes on", path.display()))
    }
}

/// Seconds of a step, to a hundredth where it is short.
fn step_time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{seconds:.2} s") } else { duration(seconds) }
}

/// Seconds since a run has written its last step.
fn age(dir: &Path) -> Option<f64> {
    let written = dir.join(METRICS).metadata().ok()?.modified().ok()?;
    Some(SystemTime::now().duration_since(written).ok()?.as_secs_f64())
}
