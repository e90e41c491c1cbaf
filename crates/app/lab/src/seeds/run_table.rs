//! Computes statistics over seeds from a sweep's saved table (docs/paper/results).

use super::curves::{MOST, MeanCurve};
use super::{Control, Entry, Group, Summary, range_of};
use crate::law::{Fit, Point, SEED};
use crate::log::{RunLog, Series, run_table};
use crate::run::Run;
use crate::{Error, Result};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The runs of a table by group.
#[derive(Clone, Debug)]
pub struct RunTable {
    /// Group, run, and a recipe with the run's seed.
    runs: Vec<(String, Run, Value)>,
}

/// A group's curves and its law over all its runs.
#[derive(Clone, Debug, Serialize)]
pub struct GroupCurves {
    /// Means over seeds by metric, if the group has several seeds.
    pub curves: BTreeMap<String, MeanCurve>,
    /// The law fitted to all evaluations of all runs, by evaluation set.
    pub laws: BTreeMap<String, Fit>,
}

impl RunTable {
    /// Reads a table: the named groups in this order, or all groups.
    ///
    /// # Errors
    /// As [`run_table::read`]; if a group is not there.
    pub fn read(path: &Path, groups: &[String]) -> Result<Self> {
        let mut all = run_table::read(path)?;
        if let Some(missing) =
            groups.iter().find(|name| all.iter().all(|(group, _)| group != *name))
        {
            let names: BTreeSet<&str> = all.iter().map(|(group, _)| group.as_str()).collect();
            let names: Vec<&str> = names.into_iter().collect();
            let (path, names) = (path.display(), names.join(", "));
            return Err(Error::Refused(format!("{path}: no group {missing:?}; it has {names}")));
        }
        let place = |group: &String| groups.iter().position(|name| name == group);
        if !groups.is_empty() {
            all.retain(|(group, _)| place(group).is_some());
            all.sort_by_key(|(group, _)| place(group));
        }
        let run = |(group, log): (String, RunLog)| {
            let recipe = json!({ "run": { "seed": seed(&group, &log.name) } });
            (group, Run::of(log, None, None), recipe)
        };
        Ok(Self { runs: all.into_iter().map(run).collect() })
    }

    /// The statistics over seeds; every group is compared with the first.
    pub fn summary(&self) -> Summary {
        let entries = self.runs.iter().map(|(group, run, recipe)| Entry {
            name: run.name.clone(),
            group: Some(group.clone()),
            run: Some(run),
            recipe: Some(recipe),
            control: Control::First,
        });
        Summary::of(&entries.collect::<Vec<_>>())
    }

    /// All runs.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().map(|(_, run, _)| run)
    }

    /// The runs of a group of a summary that count.
    pub(super) fn of_group(&self, group: &Group) -> Vec<&Run> {
        let is_of = |(name, run, _): &&(String, Run, Value)| {
            *name == group.name && group.runs.contains(&run.name)
        };
        self.runs.iter().filter(is_of).map(|(_, run, _)| run).collect()
    }

    /// The curves of each group of a summary, in its order.
    pub fn curves(&self, groups: &[Group]) -> Vec<GroupCurves> {
        let of_group = |group: &Group| {
            let runs = self.of_group(group);
            let metrics: BTreeSet<&str> =
                runs.iter().flat_map(|run| run.log.all()).map(|(name, _)| name).collect();
            let curve = |metric: &str| {
                let series: Vec<&Series> =
                    runs.iter().filter_map(|run| run.log.series(metric)).collect();
                Some((metric.to_owned(), MeanCurve::of(&series, range_of(metric), MOST)?))
            };
            let sets: BTreeSet<&str> =
                runs.iter().flat_map(|run| &run.sets).map(|set| &*set.measured.set).collect();
            let law = |name: &str| {
                let sets = runs.iter().flat_map(|run| &run.sets);
                let of_name = sets.filter(|set| set.measured.set == name);
                let points: Vec<&[Point]> = of_name.map(|set| &set.measured.points[..]).collect();
                Some((name.to_owned(), Fit::of(&points, SEED)?))
            };
            GroupCurves {
                curves: metrics.into_iter().filter_map(curve).collect(),
                laws: sets.into_iter().filter_map(law).collect(),
            }
        };
        groups.iter().map(of_group).collect()
    }
}

/// The seed in a run's name: a sweep's directories have it before or after the group's.
fn seed(group: &str, run: &str) -> Option<u64> {
    let before = run.strip_suffix(group).and_then(|name| name.strip_suffix('/'));
    let after = run.strip_prefix(group).and_then(|name| name.strip_prefix('/'));
    before.or(after).unwrap_or(run).parse().ok()
}
