//! A run as it is read to be shown.

use super::sets::EvaluationSet;
use super::state::State;
use super::tail::{last_lines, row_of};
use super::text::{Look, Paint};
use crate::Result;
use crate::alarms;
use crate::law::points::{self, Measured};
use crate::law::{self, Study};
use crate::log::{RunLog, Series, told_apart};
use crate::number::number;
use crate::run_files::{METRICS, RunFiles, recipe_of};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Sets of a run whose law is looked at.
const STUDIED: usize = 8;
/// Names in a list of metrics before the rest is counted.
const NAMED: usize = 4;

/// A run as it was at one moment.
#[derive(Clone, Debug)]
pub struct ShownRun {
    /// What it is called beside others.
    pub name: String,
    /// What it has measured.
    pub log: RunLog,
    /// How far it is.
    pub state: State,
    /// Its evaluation sets.
    pub sets: Vec<EvaluationSet>,
    /// What they say of the law, once somebody has asked: the intervals take long.
    laws: OnceLock<Laws>,
    /// The values of its recipe, of a run of this program.
    pub recipe: Option<Value>,
}

/// What a run says of the law.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Laws {
    /// Of the first sets.
    pub studies: Vec<Studied>,
    /// How many sets have more than these.
    pub others: usize,
}

/// What a set says of the law, or the rollout of a run that was not evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Studied {
    /// Which accuracy and which entropy are meant.
    pub measured: Measured,
    /// The points and the fit.
    pub study: Study,
}

impl ShownRun {
    /// Reads the runs that a path leads to: one, but for tables and directories of several.
    ///
    /// # Errors
    /// As [`RunLog::open_all`]; when a recipe is no JSON.
    pub fn read(path: &Path) -> Result<Vec<Self>> {
        let recipe = recipe_of(path)?;
        let is_training = State::is_training(path, recipe.as_ref());
        let mut runs = Vec::new();
        for log in RunLog::open_all(path)? {
            if log.path != path && recipe_of(&log.path)?.is_some() {
                // Whether it trains must be asked before it is read.
                runs.extend(Self::read(&log.path)?);
            } else {
                runs.push(Self::of(log, recipe.clone(), is_training));
            }
        }
        Ok(runs)
    }

    /// A run by its log, the values of its recipe and whether a process trains in it, as far as these are known.
    fn of(log: RunLog, recipe: Option<Value>, is_training: Option<bool>) -> Self {
        let state = State::of(&log, recipe.as_ref(), is_training);
        let sets = EvaluationSet::all(&log);
        Self { name: log.name.clone(), log, state, sets, laws: OnceLock::new(), recipe }
    }

    /// What it says of the law, by the first of its sets.
    pub fn laws(&self) -> &Laws {
        self.laws.get_or_init(|| {
            let mut measured = points::of_run(&self.log);
            let others = measured.len().saturating_sub(STUDIED);
            measured.truncate(STUDIED);
            let studied = |measured: Measured| Studied {
                study: Study::of(measured.points.clone(), law::SEED),
                measured,
            };
            Laws { studies: measured.into_iter().map(studied).collect(), others }
        })
    }

    /// Reads several. Those that would have the same name are called by their paths.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Self>> {
        let mut runs = Vec::new();
        for path in paths {
            runs.extend(Self::read(path)?);
        }
        let names = told_apart(runs.iter().map(|run| &run.log));
        runs.iter_mut().zip(names).for_each(|(run, name)| run.name = name);
        Ok(runs)
    }

    /// Its directory, if it is a run of this program.
    pub(super) fn files(&self) -> Option<RunFiles> {
        self.recipe.as_ref()?;
        Some(RunFiles::new(&self.log.path))
    }

    /// What it is and how far, in lines.
    pub(super) fn heading(&self, look: &Look) -> Vec<String> {
        let name = look.paint(Paint::Heading, &look.clean(&self.name));
        let mut lines = look.paragraph(&format!("{name}: {}", self.state.sentence(look)), 0);
        if let Some(settings) = self.recipe.as_ref().and_then(settings) {
            lines.extend(look.paragraph(&look.clean(&settings), 2));
        }
        if let Some(remedy) = self.state.remedy(&self.log, self.recipe.as_ref()) {
            lines.extend(look.paragraph(&look.clean(&remedy), 2));
        }
        lines.extend(look.listed(self.warnings().iter().map(String::as_str)));
        lines
    }

    /// What is wrong with it, in sentences.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.state.condition != super::Condition::Training {
            // While it trains, a line may be in the middle of being written.
            warnings.extend(self.log.notes.iter().cloned());
        }
        if let Some((_, skipped)) = self.log.series("optimizer/skipped").and_then(Series::last)
            && skipped > 0.0
        {
            let count = number(skipped);
            warnings.push(format!("{count} updates were left out because their gradient was not finite"));
        }
        let alarms = alarms::of_log(&self.log).into_iter();
        warnings.extend(alarms.map(|(step, alarm)| format!("step {step}: {}", alarm.text)));
        match self.not_finite() {
            Ok(sentence) => warnings.extend(sentence),
            Err(error) => warnings.push(error.to_string()),
        }
        warnings
    }

    /// Which metrics of the last step are not finite.
    fn not_finite(&self) -> Result<Option<String>> {
        let Some(files) = self.files() else { return Ok(None) };
        let path = files.dir.join(METRICS);
        let line = if path.exists() { last_lines(&path, 1)?.pop() } else { None };
        let Some(line) = line else { return Ok(None) };
        let row = row_of(&line, &path, "last line")?;
        let names: Vec<&String> = row.iter().filter(|(_, v)| v.is_null()).map(|(name, _)| name).collect();
        let [first, ..] = &names[..] else { return Ok(None) };
        let listed: Vec<&str> = names.iter().take(NAMED).map(|name| name.as_str()).collect();
        let more = names.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let since = match self.log.series(first).and_then(Series::last) {
            Some((step, _)) => format!("; {first} was last finite in step {step}"),
            None => format!("; {first} never was"),
        };
        let step = row.get("step").and_then(Value::as_u64).unwrap_or_default();
        Ok(Some(format!("not finite in step {step}: {}{more}{since}", listed.join(", "))))
    }
}

/// What tells runs apart at a glance: model, objective, seed.
fn settings(recipe: &Value) -> Option<String> {
    let mut settings = vec![recipe["model"]["path"].as_str()?.to_owned()];
    let objective = &recipe["objective"];
    settings.extend(
        [&objective["advantage"], &objective["loss"]].iter().filter_map(|v| Some(v.as_str()?.into())),
    );
    if let Some(method) = objective["covariance"]["method"].as_str().filter(|method| *method != "none") {
        settings.push(method.to_owned());
    }
    if recipe.get("sft").is_some() {
        settings.push("supervised".to_owned());
    }
    settings.extend(recipe["run"]["seed"].as_u64().map(|seed| format!("seed {seed}")));
    Some(settings.join(", "))
}
