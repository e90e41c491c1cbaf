//! The runs of a report, each under a name of its own.

use super::MAX_RUNS;
use super::number::{SCORES, SHARES, Scale};
use super::text::{shortened, words};
use crate::law::points::ROLLOUT;
use crate::log::labels;
use crate::run::{EvaluatedSet, Run};
use crate::seeds::{Control, Entry};
use crate::visible::visible;
use crate::{Error, Result};
use serde_json::Value;
use std::path::PathBuf;

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
    let mut named: Vec<PageRun> = Vec::with_capacity(runs.len());
    for (mut data, label) in runs.into_iter().zip(labels) {
        let label = visible(&shortened(&label, LONGEST_LABEL)).into_owned();
        let is_taken = |name: &String| named.iter().any(|run| run.data.name == *name);
        // Nothing but a number tells two runs of one path apart.
        let (mut name, mut number) = (label.clone(), 1);
        while is_taken(&name) {
            number += 1;
            name = format!("{label} ({number})");
        }
        data.name = name;
        named.push(PageRun { data, group: None, control: Control::First });
    }
    Ok(named)
}
