//! The runs of a sweep: every combination of the axes' values, each with its whole recipe.

use super::file::{SweepFile, Training, hint};
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

/// A run that is to be made, or a model that runs begin with.
pub struct PlannedRun {
    /// Its name: the path of its directory in the sweep's.
    pub name: String,
    /// Its name without the seed: runs of one group differ in nothing else.
    pub group: String,
    /// The group that its own is compared with; none where the file does not say.
    pub control: Option<String>,
    pub command: Training,
    /// Its directory and its whole recipe.
    pub place: RunLocation,
    pub steps: u64,
    /// The place of the model among the runs that must be there before this one.
    pub needs: Option<usize>,
    /// Whether it is a model that others begin with.
    pub is_model: bool,
    /// The place of its seed among the seeds. Those of the first begin first, so that a sweep which
    /// is ended early can compare.
    pub round: usize,
}

impl PlannedRun {
    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.place.dir
    }

    /// The file beside its directory that has its recipe.
    pub fn recipe_file(&self) -> PathBuf {
        self.beside("toml")
    }

    /// The file beside its directory that has what it says.
    pub fn log_file(&self) -> PathBuf {
        self.beside("log")
    }

    /// Names may have dots, so that an ending cannot be set.
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

/// Models first, then the combinations, the last axis changing fastest.
///
/// # Errors
/// Every problem of every recipe, each said once.
pub fn planned(file: &SweepFile, out: &Path, sets: &[String]) -> Result<Vec<PlannedRun>> {
    let mut runs = Vec::new();
    let mut problems = Problems::default();
    let sft_shape = Shape::of::<sft::Recipe>();
    for model in &file.models {
        let name = format!("models/{}", model.name);
        let run = bare(&model.base).and_then(|mut recipe| {
            layered(&mut recipe, model.set.iter(), &sft_shape);
            let place = (name.clone(), model.name.clone(), out.join("models").join(&model.name));
            plan::<sft::Recipe>(recipe, Training::Sft, &model.base, place)
        });
        match run {
            Ok(run) => runs.push(PlannedRun { is_model: true, ..run }),
            Err(error) => problems.add(&name, &error),
        }
    }
    if !problems.is_empty() {
        return Err(problems.into_error()); // what begins with them cannot be told
    }
    let base = bare(&file.base)?;
    let shape = match file.command {
        Training::Train => Shape::of::<rl::Recipe>(),
        Training::Sft => sft_shape,
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
            file.set.iter().chain(values).chain(&file.over)
        };
        let mut recipe = base.clone();
        layered(&mut recipe, layers(), &shape);
        let place = (name.clone(), group, out.join(&name));
        let run = match file.command {
            Training::Train => finish::<rl::Recipe>(recipe, file, sets, &runs, place),
            Training::Sft => finish::<sft::Recipe>(recipe, file, sets, &runs, place),
        };
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

/// A recipe without the directory that it names for a run of its own.
fn bare(path: &Path) -> Result<Node> {
    let mut recipe = recipe::read(path)?;
    recipe::apply(&mut recipe, &["run.out=".to_owned()])?;
    Ok(recipe)
}

/// The combinations that a quick look does not leave out, as the values' places on their axes.
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
    let is_kept =
        |values: &Vec<usize>| file.dropped.iter().all(|&(axis, value)| values[axis] != value);
    all.retain(is_kept);
    Ok(all)
}

fn layered<'a>(recipe: &mut Node, layers: impl Iterator<Item = &'a Node>, shape: &Shape) {
    layers.for_each(|layer| recipe::lay(recipe, layer, Some(shape)));
}

/// A run from its recipe, in which flags are set and a model that is made is named.
fn finish<R: TrainingRecipe>(
    mut recipe: Node,
    file: &SweepFile,
    sets: &[String],
    models: &[PlannedRun],
    place: (String, String, PathBuf),
) -> Result<PlannedRun> {
    recipe::apply(&mut recipe, sets)?;
    let needs = name_model(&mut recipe, models)?;
    let run = plan::<R>(recipe, file.command, &file.base, place)?;
    Ok(PlannedRun { needs, ..run })
}

/// Puts the checkpoint of a made model in the place of `{NAME}`.
fn name_model(recipe: &mut Node, models: &[PlannedRun]) -> Result<Option<usize>> {
    let Some(path) = entry(recipe, "model").and_then(|model| entry(model, "path")) else {
        return Ok(None);
    };
    let recipe::Value::Scalar(toml::Value::String(text)) = &path.value else { return Ok(None) };
    let Some(name) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else {
        return Ok(None);
    };
    let made: Vec<&PlannedRun> = models.iter().filter(|run| run.is_model).collect();
    let found = made.iter().position(|run| run.group == name).ok_or_else(|| {
        let names: Vec<String> = made.iter().map(|run| run.group.clone()).collect();
        anyhow!(
            "{}: model.path is {text:?}, and there is no [models.{name}]{}",
            path.at,
            hint(name, &names)
        )
    })?;
    let checkpoint = made[found].last_checkpoint().to_string_lossy().into_owned();
    path.value = recipe::Value::Scalar(checkpoint.into());
    Ok(Some(found))
}

fn entry<'a>(node: &'a mut Node, name: &str) -> Option<&'a mut Node> {
    match &mut node.value {
        recipe::Value::Table(entries) => {
            entries.iter_mut().find(|(key, _)| key == name).map(|(_, node)| node)
        }
        _ => None,
    }
}

fn plan<R: TrainingRecipe>(
    recipe: Node,
    command: Training,
    base: &Path,
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
        source: base.to_owned(),
        recipe: (recipe::render(&recipe), serde_json::to_value(&recipe)?),
        defaults: serde_json::to_value(R::default())?,
    };
    place.check()?;
    Ok(PlannedRun {
        name,
        group,
        control: None,
        command,
        place,
        steps: recipe.tables().run.steps,
        needs: None,
        is_model: false,
        round: 0,
    })
}

/// Two names for one run would be two samples of one.
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

/// How the recipe of a run differs from the values that a run there was begun with, which has made
/// so many steps. It may be made longer, or end sooner than was meant: what it has made is the
/// same, as long as the learning rate does not depend on its end.
pub fn changes(before: &Value, made: u64, run: &PlannedRun) -> Vec<String> {
    let mut before = before.clone();
    isentrope_settings::complete(&mut before, &run.place.defaults);
    let mut before = deciding(&before);
    let mut now = deciding(run.recipe());
    // A model that is made first is the sweep's own, wherever its directory is by now: that it has
    // the same weights is seen to by their hashes.
    if run.needs.is_some() {
        for recipe in [&mut before, &mut now] {
            recipe.pointer_mut("/model/path").map(Value::take);
        }
    }
    let may_differ = !run.is_model && made <= run.steps && !has_rate_by_end(&now);
    if let Some(steps) = before.pointer_mut("/run/steps").filter(|_| may_differ) {
        *steps = run.steps.into();
    }
    // If the recipe names no day, the run has the day on which it began.
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
    /// Takes in what is wrong with a run.
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
