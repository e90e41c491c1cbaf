//! How far a run is, from its directory.

use super::runs::{PlannedRun, changes};
use anyhow::{Context, Result, bail};
use isentrope_files::{names, open_regular};
use isentrope_lab::run_files::{RunFiles, TIMINGS};
use serde_json::Value;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

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

/// How far a run has got, and whether what is there was made from the recipe as it is now.
///
/// # Errors
/// When it was made with other settings, which are named; when its checkpoints are gone before it
/// was done.
pub fn state(run: &PlannedRun) -> Result<State> {
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
            "was begun with other settings: {}; name another directory with --out, or remove that of each such run to make \
             it anew",
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

/// How fast a run goes, from its timings as they are written.
pub struct Pace {
    path: PathBuf,
    /// The bytes of the file that were read.
    offset: u64,
    /// The last step that is there.
    pub step: u64,
    /// The seconds of all recorded steps, their evaluations included.
    pub seconds: f64,
}

impl Pace {
    /// Reads a run directory from its start.
    pub fn new(dir: &Path) -> Self {
        Self { path: dir.join(TIMINGS), offset: 0, step: 0, seconds: 0.0 }
    }

    /// Reads what is new. What cannot be read is as nothing: this is for people to look at.
    pub fn read(&mut self) {
        let Ok(file) = open_regular(&self.path) else { return };
        // A run that goes on takes away what came after its checkpoint.
        if file.metadata().is_ok_and(|file| file.len() < self.offset) {
            *self = Self { path: std::mem::take(&mut self.path), offset: 0, step: 0, seconds: 0.0 };
        }
        let mut reader = BufReader::new(file);
        if reader.seek(SeekFrom::Start(self.offset)).is_err() {
            return;
        }
        let mut line = Vec::new();
        while let Ok(read @ 1..) = reader.read_until(b'\n', &mut line) {
            if line.last() != Some(&b'\n') {
                return; // it is being written
            }
            self.offset += read as u64;
            let row: Value = serde_json::from_slice(&line).unwrap_or_default();
            self.step = row["step"].as_u64().unwrap_or(self.step);
            self.seconds += row["time/step_s"].as_f64().unwrap_or(0.0);
            line.clear();
        }
    }

    /// Seconds that a step takes, once one was made.
    pub fn of_step(&self) -> Option<f64> {
        (self.step > 0 && self.seconds > 0.0).then(|| self.seconds / self.step as f64)
    }
}
