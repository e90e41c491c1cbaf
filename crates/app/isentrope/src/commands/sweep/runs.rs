//! The runs of a sweep: every combination of the axes' values, each with its whole recipe.

use super::file::{SweepFile, Training};
use crate::recipe::{self, Node};
use anyhow::{Context, Result, anyhow, bail};
use isentrope_lab::recipes::deciding;
use isentrope_settings::{Shape, differences};
use isentrope_train::run::{Existing, RunLocation};
use isentrope_train::trainer::TrainingRecipe;
use isentrope_train::{rl, sft};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Most combinations of a sweep.
const MOST: usize = 10_000;

/// A run of a sweep.
pub struct PlannedRun {
    /// The run's name: the path of its directory within the sweep's.
    pub name: String,
    /// The run's name without the seed. Runs of one group differ in the seed alone.
    pub group: String,
    /// The group with which the run's group is compared; none if the file does not say.
    pub control: Option<String>,
    pub command: Training,
    /// The run's directory and whole recipe.
    pub place: RunLocation,
    pub steps: u64,
    /// The index of the run's seed. Runs of the first seed begin first, so that a sweep that ends
    /// early can still compare groups.
    pub round: usize,
}

impl PlannedRun {
    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.place.dir
    }

    /// The file of the run's recipe, beside its directory.
    pub fn recipe_file(&self) -> PathBuf {
        self.beside("toml")
    }

    /// The log file beside its directory.
    pub fn log_file(&self) -> PathBuf {
        self.beside("log")
    }

    /// The ending is appended, because names may have dots.
    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.dir().as_os_str().to_owned();
        name.push(".");
        name.push(ending);
        name.into()
    }

    /// The checkpoint that it ends with.
    pub fn last_checkpoint(&self) -> PathBuf {
        self.dir().join(format!("checkpoints/step-{:06}", self.steps))
    }

    /// The recipe's values.
    pub fn recipe(&self) -> &Value {
        &self.place.recipe.1
    }
}

/// All combinations, the last axis changing fastest.
///
/// # Errors
/// Every problem of every recipe, each said once.
pub fn planned(file: &SweepFile, out: &Path, sets: &[String]) -> Result<Vec<PlannedRun>> {
    let mut runs = Vec::new();
    let mut problems = Problems::default();
    let base = bare(&file.base)?;
    let shape = match file.command {
        Training::Train => Shape::of::<rl::Recipe>(),
        Training::Sft => Shape::of::<sft::Recipe>(),
    };
    for values in combinations(file)? {
        let names = |values: &[usize], with_seed: bool| {
            let values =
                file.axes.iter().zip(values).filter(|(axis, _)| with_seed || !axis.is_seed);
            values
                .map(|(axis, value)| axis.values[*value].name.as_str())
                .collect::<Vec<_>>()
                .join("/")
        };
        let group = match names(&values, false) {
            none if none.is_empty() => file.name(),
            group => group,
        };
        let control = file.compare.control(&values).map(|values| names(&values, false));
        let seed = file.axes.iter().zip(&values).find(|(axis, _)| axis.is_seed);
        let round = seed.map_or(0, |(_, &value)| value);
        let name = names(&values, true);
        let layers = || {
            let values =
                file.axes.iter().zip(&values).map(|(axis, value)| &axis.values[*value].settings);
            file.set.iter().chain(values)
        };
        let mut recipe = base.clone();
        layers().for_each(|layer| recipe::lay(&mut recipe, layer, Some(&shape)));
        let place = (name.clone(), group, out.join(&name));
        let run = recipe::apply(&mut recipe, sets).and_then(|()| match file.command {
            Training::Train => plan::<rl::Recipe>(recipe, file, place),
            Training::Sft => plan::<sft::Recipe>(recipe, file, place),
        });
        match run {
            Ok(run) => runs.push(PlannedRun { control, round, ..run }),
            Err(error) => problems.add(&name, &error),
        }
    }
    if !problems.is_empty() {
        return Err(problems.into_error());
    }
    refuse_the_same(&runs)?;
    Ok(runs)
}

/// A base recipe without its own `run.out`.
fn bare(path: &Path) -> Result<Node> {
    let mut recipe = recipe::read(path)?;
    recipe::apply(&mut recipe, &["run.out=".to_owned()])?;
    Ok(recipe)
}

/// All combinations, as the values' places on their axes.
fn combinations(file: &SweepFile) -> Result<Vec<Vec<usize>>> {
    let count =
        file.axes.iter().fold(1usize, |count, axis| count.saturating_mul(axis.values.len()));
    if count > MOST {
        bail!("{}: the axes have {count} combinations, more than {MOST}", file.path.display());
    }
    let mut all = vec![Vec::new()];
    for axis in &file.axes {
        all = all
            .iter()
            .flat_map(|values: &Vec<usize>| {
                (0..axis.values.len()).map(|value| [&values[..], &[value]].concat())
            })
            .collect();
    }
    Ok(all)
}

/// A run from its recipe, its name, its group and its directory.
fn plan<R: TrainingRecipe>(
    recipe: Node,
    SweepFile { command, base, .. }: &SweepFile,
    (name, group, dir): (String, String, PathBuf),
) -> Result<PlannedRun> {
    let mut recipe: R = recipe::settings(recipe, &base.display().to_string())?;
    if let Some(out) = &recipe.run_mut().out {
        let out = out.display();
        bail!(
            "run.out is {out}, and a sweep gives each run a directory of its own: \
             `out` of the sweep says where"
        );
    }
    dir.to_str().with_context(|| format!("{}: is not UTF-8, which recipes are", dir.display()))?;
    recipe.run_mut().out = Some(dir.clone());
    recipe.resolve()?;
    let place = RunLocation {
        dir,
        existing: Existing::Resume,
        source: base.clone(),
        recipe: (recipe::render(&recipe), serde_json::to_value(&recipe)?),
        defaults: serde_json::to_value(R::default())?,
    };
    place.check()?;
    Ok(PlannedRun {
        name,
        group,
        control: None,
        command: *command,
        place,
        steps: recipe.tables().run.steps,
        round: 0,
    })
}

/// Refuses two names for one run, which would count it twice.
fn refuse_the_same(runs: &[PlannedRun]) -> Result<()> {
    let mut known = HashMap::new();
    for run in runs {
        if let Some(same) = known.insert(deciding(run.recipe()).to_string(), &run.name) {
            bail!(
                "{same} and {} differ in nothing that changes a result: they would be one run \
                 twice",
                run.name
            );
        }
    }
    Ok(())
}

/// How the recipe of a run differs from `before`, the values with which the run there began; it has
/// made `made` steps. The number of steps may differ if the learning rate does not depend on it.
pub fn changes(before: &Value, made: u64, run: &PlannedRun) -> Vec<String> {
    let mut before = before.clone();
    isentrope_settings::complete(&mut before, &run.place.defaults);
    let mut before = deciding(&before);
    let now = deciding(run.recipe());
    let may_differ = made <= run.steps && !has_rate_by_end(&now);
    if let Some(steps) = before.pointer_mut("/run/steps").filter(|_| may_differ) {
        *steps = run.steps.into();
    }
    // If the recipe names no date, the run has the date on which it began.
    if now.pointer("/data/date").is_some_and(Value::is_null)
        && let Some(date) = before.pointer_mut("/data/date")
    {
        *date = Value::Null;
    }
    let mut changes = Vec::new();
    differences("", &before, &now, &mut changes);
    changes
}

/// Whether a learning rate follows a schedule up to the last step.
fn has_rate_by_end(tables: &Value) -> bool {
    let Value::Object(tables) = tables else { return false };
    let is_by_end = |value: &Value| value.as_str().is_some_and(|schedule| schedule != "constant");
    tables
        .iter()
        .any(|(key, value)| key == "schedule" && is_by_end(value) || has_rate_by_end(value))
}

/// Problems of recipes. The same problem of many runs is reported once.
#[derive(Default)]
pub struct Problems(Vec<(String, String, usize)>);

impl Problems {
    /// Adds a run's error.
    pub fn add(&mut self, run: &str, error: &anyhow::Error) {
        for line in crate::sentence(error).lines() {
            match self.0.iter_mut().find(|(known, _, _)| known == line) {
                Some((_, _, others)) => *others += 1,
                None => self.0.push((line.to_owned(), run.to_owned(), 0)),
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_error(self) -> anyhow::Error {
        let line = |(line, run, others): (String, String, usize)| match others {
            0 => format!("{run}: {line}"),
            1 => format!("{run} and 1 other run: {line}"),
            others => format!("{run} and {others} other runs: {line}"),
        };
        anyhow!(self.0.into_iter().map(line).collect::<Vec<_>>().join("\n"))
    }
}
