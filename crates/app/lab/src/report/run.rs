//! The runs of a report, each under a name of its own.

use super::MAX_RUNS;
use super::number::{SCORES, SHARES, Scale};
use super::text::{shortened, words};
use crate::law::points::ROLLOUT;
use crate::log::RunLog;
use crate::run::{EvaluatedSet, Run};
use crate::seeds::{Control, Entry};
use crate::visible::visible;
use crate::{Error, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The longest name of a run, in characters.
const LONGEST_LABEL: usize = 200;

/// A run of a report. Its name is unique and has no hidden characters.
#[derive(Clone, Debug)]
pub(super) struct PageRun {
    /// Its numbers.
    pub data: Run,
    /// The name of its group over seeds, if a sweep gave it one.
    group: Option<String>,
    control: Control,
}

/// A sweep's knowledge of a run beyond its directory, which decides the groups of its tables and of
/// its report.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The name of its group over seeds.
    pub group: String,
    /// The group that this one is compared with.
    pub control: Control,
    /// The recipe's planned values. An older run may lack settings, or have other numbers of steps.
    pub recipe: Value,
}

impl PageRun {
    /// The run's name as HTML, isolated, so that right-to-left letters in it do not reorder the
    /// text around it.
    pub fn html(&self) -> String {
        format!("<bdi>{}</bdi>", words(&self.data.name))
    }

    /// The sets that have points.
    pub fn sets(&self) -> impl Iterator<Item = &EvaluatedSet> {
        self.data.sets.iter().filter(|set| set.ends().is_some())
    }

    /// Whether all numbers of an accuracy can be shares. Mean scores may not be.
    pub fn has_shares(&self, accuracy: &str) -> bool {
        let mut values = self.data.log.series(accuracy).into_iter().flat_map(|s| &s.values);
        values.all(|value| (0.0..=1.0).contains(value))
    }

    /// The scale of an accuracy.
    pub fn scale(&self, accuracy: &str) -> &'static Scale {
        if self.has_shares(accuracy) { &SHARES } else { &SCORES }
    }

    /// Takes over a sweep's knowledge.
    pub fn plan(&mut self, RunPlan { group, control, recipe }: RunPlan) {
        (self.group, self.control, self.data.recipe) = (Some(group), control, Some(recipe));
    }
}

/// The runs as entries for tables over seeds.
pub(super) fn entries(runs: &[PageRun]) -> Vec<Entry<'_>> {
    let entries = runs.iter().map(|run| Entry {
        name: run.data.name.clone(),
        group: run.group.clone(),
        run: Some(&run.data),
        recipe: run.data.recipe.as_ref(),
        control: run.control.clone(),
    });
    entries.collect()
}

/// The name of a set in headings.
pub(super) fn place(set: &str) -> &str {
    if set == ROLLOUT { "training prompts" } else { set }
}

/// Reads runs.
///
/// # Errors
/// If one cannot be read, or there are more than [`MAX_RUNS`].
pub(super) fn open(paths: &[PathBuf]) -> Result<Vec<PageRun>> {
    let mut runs = Vec::new();
    for path in paths {
        runs.extend(Run::read(path)?);
        if runs.len() > MAX_RUNS {
            let (path, number) = (path.display(), runs.len());
            return Err(Error::Refused(format!(
                "a report is on 1 to {MAX_RUNS} runs, and with those of {path} these are {number}; \
                 give fewer"
            )));
        }
    }
    let labels = labels(&runs.iter().map(|run| &run.log).collect::<Vec<_>>());
    runs.iter_mut().zip(labels).for_each(|(run, label)| run.name = label);
    let of = |data: Run| PageRun { data, group: None, control: Control::First };
    Ok(runs.into_iter().map(of).collect())
}

/// A name for each run: its own, after as much of its path as makes all names distinct, or with a
/// number if nothing does. All paths are cut at one depth, so that seeds of a sweep are `grpo/1`,
/// `kl-cov/1` and `kl-cov/2`, not `2`. A number alone is no name.
fn labels(logs: &[&RunLog]) -> Vec<String> {
    let parts: Vec<Vec<String>> = logs.iter().map(|log| directories(log)).collect();
    let label = |i: usize, depth: usize| {
        let above = &parts[i][parts[i].len().saturating_sub(depth)..];
        let names = above.iter().map(String::as_str).chain([logs[i].name.as_str()]);
        names.collect::<Vec<_>>().join("/")
    };
    let needed = |i: usize| {
        let is_alone = |depth: usize| {
            let differs = |j: usize| {
                j == i || logs[j].name != logs[i].name || label(j, depth) != label(i, depth)
            };
            (0..logs.len()).all(differs)
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
        let name = visible(&shortened(&name, LONGEST_LABEL)).into_owned();
        let numbered = || (2..).map(|n| format!("{name} ({n})")).find(|n| !labels.contains(n));
        let label = if labels.contains(&name) { numbered() } else { None };
        labels.push(label.unwrap_or(name));
    }
    labels
}

/// The directories above a run.
fn directories(log: &RunLog) -> Vec<String> {
    let path = log.path.canonicalize().unwrap_or_else(|_| log.path.clone());
    let names = path.parent().into_iter().flat_map(Path::iter);
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name != "/").collect()
}
