//! How many steps runs take to an accuracy.

use super::show::table;
use super::{Group, RunTable};
use crate::run::{EvaluatedSet, Run};
use serde::Serialize;
use std::collections::BTreeSet;

/// The steps that a group's runs take to an accuracy on a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepsToLevel {
    /// The group's name.
    pub group: String,
    /// The evaluation set.
    pub set: String,
    /// For each run, the step of its first evaluation at the level or above; null if none is.
    pub steps: Vec<Option<u64>>,
}

impl StepsToLevel {
    /// The median step of all runs, the upper one of an even number; None if it is of a run that
    /// never reaches the level.
    fn median(&self) -> Option<u64> {
        let mut steps: Vec<u64> = self.steps.iter().map(|step| step.unwrap_or(u64::MAX)).collect();
        steps.sort_unstable();
        steps.get(steps.len() / 2).copied().filter(|step| *step < u64::MAX)
    }

    /// The group, the set, `80 [60, 120]` (median, least and greatest step), `6 of 6`.
    fn cells(&self) -> Vec<String> {
        let reached: Vec<u64> = self.steps.iter().copied().flatten().collect();
        let median = self.median().map_or("never".to_owned(), |step| step.to_string());
        let steps = match (reached.iter().min(), reached.iter().max()) {
            (Some(least), Some(greatest)) => format!("{median} [{least}, {greatest}]"),
            _ => median,
        };
        let count = format!("{} of {}", reached.len(), self.steps.len());
        vec![self.group.clone(), self.set.clone(), steps, count]
    }
}

impl RunTable {
    /// The steps to a share of right answers, of each group on each evaluation set. The accuracy
    /// is that of the law: mean@k with the largest k.
    pub fn steps_to(&self, level: f64, groups: &[Group]) -> Vec<StepsToLevel> {
        let sets: BTreeSet<&str> = self.runs().flat_map(|run| &run.sets).map(name).collect();
        let of = |group: &Group, set: &str| {
            let first = |run: &Run| {
                let points = &run.sets.iter().find(|found| name(found) == set)?.measured.points;
                points.iter().find(|point| point.accuracy >= level).map(|point| point.step)
            };
            StepsToLevel {
                group: group.name.clone(),
                set: set.to_owned(),
                steps: self.of_group(group).into_iter().map(first).collect(),
            }
        };
        groups.iter().flat_map(|group| sets.iter().map(move |set| of(group, set))).collect()
    }
}

fn name(set: &EvaluatedSet) -> &str {
    &set.measured.set
}

/// A Markdown table of the steps to a level: a line for each group and set.
pub fn levels(level: f64, found: &[StepsToLevel]) -> String {
    let heads = ["set", "step", "runs that reach it"].map(str::to_owned);
    let lines: Vec<Vec<String>> = found.iter().map(StepsToLevel::cells).collect();
    format!(
        "## Steps to an accuracy of {:.0} %\n\nThe step of the first evaluation at or above it: the \
         median over runs (of an even number the later), in which a run that never reaches it \
         counts as the slowest, then the least and the greatest.\n\n{}",
        100.0 * level,
        table("group", &heads, &lines)
    )
}
