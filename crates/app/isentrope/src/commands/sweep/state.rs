//! How far a run is, from its directory.

use super::runs::{PlannedRun, Problems, changes};
use crate::loaded_model::file_hashes;
use anyhow::{Context, Result, anyhow, bail};
use isentrope_files::{names, open_regular};
use isentrope_lab::run_files::{RunFiles, TIMINGS};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// How far a run has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No step has been made.
    ToDo,
    /// So many steps have been made.
    Begun(u64),
    /// All have.
    Done,
}

/// The states of all runs.
///
/// # Errors
/// The faults of all: see [`state`]; and runs that have begun with other weights than those of the
/// model that is there, which would be other samples.
pub fn states(runs: &[PlannedRun]) -> Result<Vec<State>> {
    let mut problems = Problems::default();
    let mut states = Vec::new();
    let mut models = BTreeMap::new();
    for run in runs {
        let state = state(run).and_then(|state| {
            match run.needs {
                Some(model) if state != State::ToDo => check_model(run, &runs[model], &mut models)?,
                _ => {}
            }
            Ok(state)
        });
        match state {
            Ok(state) => states.push(state),
            Err(error) => problems.add(&run.name, &error),
        }
    }
    if problems.is_empty() { Ok(states) } else { Err(problems.into_error()) }
}

/// How far a run has got.
///
/// # Errors
/// When what is there was made with other settings than the recipe has now, which are named; when
/// its checkpoints are gone before it was done.
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
    // that were all removed to save space are no loss, unless others begin with them.
    let is_saved = run.last_checkpoint().exists() || checkpoints.is_empty() && !run.is_model;
    if recorded >= run.steps && is_saved {
        return Ok(State::Done);
    }
    // A model is there for its checkpoint alone, and made anew without.
    if !run.is_model {
        run.place.check_saved()?;
    }
    Ok(State::Begun(recorded))
}

/// Refuses a run whose manifest has other hashes of its model than the model's files have now. One
/// whose manifest was removed cannot be told. `hashes` keeps those of each model.
fn check_model(
    run: &PlannedRun,
    model: &PlannedRun,
    hashes: &mut BTreeMap<String, Value>,
) -> Result<()> {
    let manifest = RunFiles::new(run.dir()).manifest()?.unwrap_or_default();
    let before = &manifest["model"]["sha256"];
    if !hashes.contains_key(&model.name) {
        let checkpoint = model.last_checkpoint();
        let now = if checkpoint.exists() { file_hashes(&checkpoint)?.into() } else { Value::Null };
        hashes.insert(model.name.clone(), now);
    }
    if before.is_null() || hashes[&model.name] == *before {
        return Ok(());
    }
    Err(anyhow!(
        "has begun with another {} than there is now; remove its directory to make it anew, \
         or name another directory with --out",
        model.name
    ))
}

/// How fast a run goes, from its timings.
#[derive(Clone, Copy, Default)]
pub struct Pace {
    /// The last step that is there.
    pub step: u64,
    /// The seconds of all recorded steps, their evaluations included.
    pub seconds: f64,
}

impl Pace {
    /// Reads a run directory. What cannot be read is as nothing: this is for people to look at.
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

    /// Seconds that a step takes, once one was made.
    pub fn of_step(&self) -> Option<f64> {
        (self.step > 0 && self.seconds > 0.0).then(|| self.seconds / self.step as f64)
    }
}
