//! The runs of a report, each under a name of its own.

use super::MAX_RUNS;
use super::text::{shortened, words};
use crate::law::Point;
use crate::law::points::{self, Measured, ROLLOUT};
use crate::log::{RunLog, Series, shared_paths};
use crate::run_files::recipe_of;
use crate::seeds::Control;
use crate::visible::visible;
use crate::{Error, Result};
use serde_json::Value;
use std::collections::HashSet;
use std::path::PathBuf;

/// A run as the report knows it.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// What it is called on the page, with nothing hidden; no two runs share it.
    pub label: String,
    /// Its numbers.
    pub log: RunLog,
    /// Its settings, where it has a recipe.
    pub recipe: Option<Value>,
    /// Its accuracies with the entropies that belong to them, one row per evaluation set.
    pub measured: Vec<Measured>,
    /// The same of parts of these sets.
    pub parts: Vec<Measured>,
    /// What its group over seeds is called, where that is known.
    pub group: Option<String>,
    /// What this group is compared with.
    pub control: Control,
}

impl Run {
    /// Its name as HTML: a part of the text of its own, whatever way its letters run.
    pub fn html(&self) -> String {
        format!("<bdi>{}</bdi>", words(&self.label))
    }

    /// A value of the recipe by its dotted key.
    pub fn setting(&self, key: &str) -> Option<&Value> {
        key.split('.').try_fold(self.recipe.as_ref()?, |value, name| value.get(name))
    }
}

/// What a sweep knows of a run beyond what its directory says. By this its tables go, and so does the report.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What its group over seeds is called.
    pub group: String,
    /// What this group is compared with.
    pub control: Control,
    /// The recipe's values as they are planned now: of an older run a setting may be new, and the steps may be others.
    pub recipe: Value,
}

/// Where something was measured, for headings.
pub(super) fn place(set: &str) -> &str {
    if set == ROLLOUT { "training prompts" } else { set }
}

/// The first point and the last.
pub(super) fn ends(measured: &Measured) -> Option<(Point, Point)> {
    Some((*measured.points.first()?, *measured.points.last()?))
}

/// All that was measured of the accuracy, with an entropy beside it or without: as points whose entropies say nothing.
pub(super) fn accuracies(run: &Run, measured: &Measured) -> Vec<Point> {
    let point = |(step, accuracy)| Point { step, entropy: f64::NAN, accuracy };
    run.log.series(&measured.accuracy).into_iter().flat_map(Series::iter).map(point).collect()
}

/// Most evaluation sets of all runs together of which tables and summary speak.
const MAX_SETS: usize = 600;
/// The longest name of a run, in characters.
const LONGEST_LABEL: usize = 200;

/// Reads runs.
///
/// # Errors
/// When one cannot be read, or there are more than [`MAX_RUNS`].
pub(super) fn open(paths: &[PathBuf]) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for path in paths {
        let logs = RunLog::open_all(path)?;
        let number = runs.len() + logs.len();
        if number > MAX_RUNS {
            let path = path.display();
            return Err(Error::Refused(format!(
                "a report is on 1 to {MAX_RUNS} runs, and with those of {path} these are {number}; give fewer"
            )));
        }
        for log in logs {
            let recipe = recipe_of(&log.path)?; // a directory of runs has none itself
            runs.push((log, recipe));
        }
    }
    let labels = labels(&runs.iter().map(|(log, _)| log).collect::<Vec<_>>());
    let run = |(label, (log, recipe)): (String, (RunLog, Option<Value>))| {
        let mut measured = points::of_run(&log);
        measured.retain(|measured| !measured.points.is_empty());
        let parts = points::of_parts(&log);
        Run { label, log, recipe, measured, parts, group: None, control: Control::First }
    };
    Ok(labels.into_iter().zip(runs).map(run).collect())
}

/// Leaves out the evaluation sets that are too many for tables, the same of every run, and names them.
pub(super) fn leave_out_sets(runs: &mut [Run]) -> Vec<String> {
    let most = MAX_SETS / runs.len().max(1);
    let (mut known, mut left_out) = (HashSet::new(), Vec::new());
    for measured in runs.iter().flat_map(|run| &run.measured) {
        if known.insert(measured.set.clone()) && known.len() > most {
            left_out.push(measured.set.clone());
        }
    }
    let names: HashSet<&String> = left_out.iter().collect();
    for run in runs {
        run.measured.retain(|measured| !names.contains(&measured.set));
    }
    left_out
}

/// A name for each: its own, with as much of their paths before it as tells all from each other, and a number where nothing does.
/// All have as much before them as far as their paths differ, so that seeds of a sweep are `grpo/1`, `kl-cov/1` and `kl-cov/2`,
/// not `2`. A number alone is no name.
fn labels(logs: &[&RunLog]) -> Vec<String> {
    let shared = shared_paths(logs.iter().copied());
    let parts: Vec<Vec<String>> = logs.iter().map(|log| above(log, shared.contains(&*log.path))).collect();
    let label = |i: usize, depth: usize| {
        let above = &parts[i][parts[i].len().saturating_sub(depth)..];
        above.iter().map(String::as_str).chain([logs[i].name.as_str()]).collect::<Vec<_>>().join("/")
    };
    let needed = |i: usize| {
        let is_alone = |depth: usize| {
            (0..logs.len())
                .all(|j| j == i || logs[j].name != logs[i].name || label(j, depth) != label(i, depth))
        };
        let least = usize::from(logs[i].name.bytes().all(|byte| byte.is_ascii_digit()));
        (least..=parts[i].len()).find(|depth| is_alone(*depth)).unwrap_or(least)
    };
    let needed: Vec<usize> = (0..logs.len()).map(needed).collect();
    let depth = needed.iter().copied().max().unwrap_or(0);
    let first = parts.first().map_or(&[][..], Vec::as_slice);
    let is_common = |n: &usize| parts.iter().all(|above| above.get(*n) == first.get(*n));
    let common = (0..first.len()).take_while(is_common).count();
    let mut labels: Vec<String> = Vec::with_capacity(logs.len());
    for i in 0..logs.len() {
        let name = label(i, depth.min(parts[i].len() - common).max(needed[i]));
        let mut name = visible(&shortened(&name, LONGEST_LABEL)).into_owned();
        if labels.contains(&name) {
            name = (2..).map(|n| format!("{name} ({n})")).find(|n| !labels.contains(n)).unwrap_or(name);
        }
        labels.push(name);
    }
    labels
}

/// The names of the directories above a run's, and of the table if it is one of several in it.
fn above(log: &RunLog, is_of_table: bool) -> Vec<String> {
    let path = log.path.canonicalize().unwrap_or_else(|_| log.path.clone());
    let names = if is_of_table { Some(&*path) } else { path.parent() };
    let names = names.into_iter().flat_map(|path| path.iter());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name != "/").collect()
}
