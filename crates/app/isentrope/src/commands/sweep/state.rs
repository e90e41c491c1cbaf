//! Reads a run's progress from its directory.

use super::runs::{PlannedRun, Problems, changes};
use anyhow::{Context, Result, bail};
use isentrope_files::{names, open_regular};
use isentrope_lab::run_files::{RunFiles, TIMINGS};
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// How far a run has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No step has been made.
    ToDo,
    /// This many steps have been made.
    Begun(u64),
    /// All have.
    Done,
}

/// The states of all runs.
///
/// # Errors
/// The faults of all: see [`state`].
pub fn states(runs: &[PlannedRun]) -> Result<Vec<State>> {
    let mut problems = Problems::default();
    let mut states = Vec::new();
    for run in runs {
        match state(run) {
            Ok(state) => states.push(state),
            Err(error) => problems.add(&run.name, &error),
        }
    }
    if problems.is_empty() { Ok(states) } else { Err(problems.into_error()) }
}

/// How far a run has got.
///
/// # Errors
/// When its steps were made with other settings, which are named; when its checkpoints are gone
/// before it was done.
fn state(run: &PlannedRun) -> Result<State> {
    let recorded = run.place.recorded()?;
    let checkpoints = names(&run.dir().join("checkpoints"))?;
    if recorded == 0 && checkpoints.is_empty() {
        return Ok(State::ToDo);
    }
    let before =
        RunFiles::new(run.dir()).recipe().with_context(|| run.dir().display().to_string())?;
    let changes = changes(&before.unwrap_or_default(), recorded, run);
    if !changes.is_empty() {
        bail!(
            "was begun with other settings: {}; name another directory with --out, \
             or remove that of each such run to make it anew",
            changes.join(", ")
        );
    }
    // A kill may have come after the last step's numbers and before its checkpoint. Checkpoints
    // that were all removed to save space are no loss.
    let is_saved = run.last_checkpoint().exists() || checkpoints.is_empty();
    if recorded >= run.steps && is_saved {
        return Ok(State::Done);
    }
    run.place.check_saved()?;
    Ok(State::Begun(recorded))
}

/// The pace of a run, from its timings.
#[derive(Clone, Copy, Default)]
pub struct Pace {
    /// The last step that is there.
    pub step: u64,
    /// The seconds of all recorded steps, their evaluations included.
    pub seconds: f64,
}

impl Pace {
    /// Reads a run directory. An unreadable file counts as empty, because the pace is only shown.
    pub fn read(dir: &Path) -> Self {
        let mut text = String::new();
        let mut pace = Self::default();
        let Ok(mut file) = open_regular(&dir.join(TIMINGS)) else { return pace };
        let _ = file.read_to_string(&mut text);
        for row in text.lines().map_while(|line| serde_json::from_str::<Value>(line).ok()) {
            pace.step = row["step"].as_u64().unwrap_or(pace.step);
            pace.seconds += row["time/step_s"].as_f64().unwrap_or(0.0);
        }
        pace
    }

    /// Seconds per step; None before the first step.
    pub fn of_step(&self) -> Option<f64> {
        (self.step > 0 && self.seconds > 0.0).then(|| self.seconds / self.step as f64)
    }
}
