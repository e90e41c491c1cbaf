//! A run with the results of its numbers: evaluation sets and their laws, alarms, progress. The
//! report, the terminal and the tables over seeds show them, and none computes them anew.

mod sets;
mod state;

pub use sets::{EvaluatedSet, SetName};
pub use state::{Condition, State};

use crate::Result;
use crate::alarms::{self, Alarm};
use crate::law::points::{self, SetPoints};
use crate::log::{RunLog, Series, labels};
use crate::run_files::{RunFiles, recipe_of};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A run's state at one moment.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its name beside others.
    pub name: String,
    /// The run's numbers by metric and step.
    pub log: RunLog,
    /// The values of its recipe, if it is a run of this program.
    pub recipe: Option<Value>,
    /// How far it is.
    pub state: State,
    /// The evaluation sets whose accuracy the run has measured.
    pub set_names: Vec<SetName>,
    /// Accuracy with entropy on each evaluation set, without parts; for a run without evaluations,
    /// of its rollouts.
    pub sets: Vec<EvaluatedSet>,
    /// Accuracy with entropy on each part of a set.
    pub parts: Vec<SetPoints>,
    alarms: OnceLock<Vec<(u64, Alarm)>>,
}

impl Run {
    /// Reads the one run that a path leads to.
    ///
    /// # Errors
    /// As [`RunLog::open`]; if its recipe is not JSON.
    pub fn open(path: &Path) -> Result<Self> {
        let recipe = recipe_of(path)?;
        let is_training = State::is_training(path, recipe.as_ref());
        Ok(Self::of(RunLog::open(path)?, recipe, is_training))
    }

    /// Reads the runs at a path: tables and directories may have several.
    ///
    /// # Errors
    /// As [`RunLog::open_all`]; if a recipe is not JSON.
    pub fn read(path: &Path) -> Result<Vec<Self>> {
        let recipe = recipe_of(path)?;
        // Whether a process trains is checked before the log is read, so that the log of an ended
        // run is read whole.
        let is_training = State::is_training(path, recipe.as_ref());
        let mut runs = Vec::new();
        for log in RunLog::open_all(path)? {
            if log.path != path && recipe_of(&log.path)?.is_some() {
                runs.extend(Self::read(&log.path)?);
            } else {
                runs.push(Self::of(log, recipe.clone(), is_training));
            }
        }
        Ok(runs)
    }

    /// Reads the runs of several paths, each under a name of its own.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Self>> {
        let mut runs = Vec::new();
        for path in paths {
            runs.extend(Self::read(path)?);
        }
        let names = labels(&runs.iter().map(|run| &run.log).collect::<Vec<_>>());
        runs.iter_mut().zip(names).for_each(|(run, name)| run.name = name);
        Ok(runs)
    }

    /// The run of a log. `is_training` says whether a process trains in its directory, if known.
    pub fn of(log: RunLog, recipe: Option<Value>, is_training: Option<bool>) -> Self {
        Self {
            name: log.name.clone(),
            state: State::of(&log, recipe.as_ref(), is_training),
            set_names: SetName::all(&log),
            sets: points::of_run(&log).into_iter().map(EvaluatedSet::of).collect(),
            parts: points::of_parts(&log),
            alarms: OnceLock::new(),
            log,
            recipe,
        }
    }

    /// The run's directory, if this program made the run.
    pub fn files(&self) -> Option<RunFiles> {
        self.recipe.as_ref()?;
        Some(RunFiles::new(&self.log.path))
    }

    /// A value of the recipe by its dotted key.
    pub fn setting(&self, key: &str) -> Option<&Value> {
        key.split('.').try_fold(self.recipe.as_ref()?, |value, name| value.get(name))
    }

    /// The alarms that training gave, or would have given, by step.
    pub fn alarms(&self) -> &[(u64, Alarm)] {
        self.alarms.get_or_init(|| alarms::of_log(&self.log))
    }

    /// Updates that were left out because their gradient was not finite, if there are any.
    pub fn skipped_updates(&self) -> Option<f64> {
        let (_, skipped) = self.log.series("optimizer/skipped").and_then(Series::last)?;
        (skipped > 0.0).then_some(skipped)
    }
}
