//! Statistics over seeds: runs that differ in the seed alone are one group, whose numbers have a
//! mean and an interval. Groups are compared over the seeds that they share, each with the first
//! group or with the one that it names.
//!
//! [`Summary::of`] computes them from numbers and recipes; [`section()`] shows a summary in a web
//! page, [`text`] on a terminal, [`markdown`] in a file. [`RunTable`] are the runs of
//! docs/paper/results.

mod caveats;
mod contrasts;
mod curves;
mod groups;
mod level;
mod measure;
mod numbers;
mod pooled;
mod price;
mod run_table;
mod section;
mod show;
mod student;

pub use curves::MeanCurve;
pub(crate) use curves::{MOST, is_drawable, rounded, stretches};
pub use groups::without_seed;
pub use level::{StepsToLevel, levels};
pub use measure::Measure;
pub(crate) use measure::range_of;
pub use pooled::{Pooled, PooledDifference, pooled};
pub use run_table::{GroupCurves, RunTable};
pub use section::Section;
pub use show::{markdown, section, text};
pub use student::{Mean, Paired, quantile, within};

use self::numbers::RunNumbers;
use crate::run::Run;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

/// A run of a group.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Its name in notes.
    pub name: String,
    /// The name of the run's group, if known. Runs with different group names are in different
    /// groups.
    pub group: Option<String>,
    /// The run's numbers; none if a planned run has recorded nothing.
    pub run: Option<&'a Run>,
    /// The values of the run's resolved recipe, if known, with the date of its prompts as
    /// `data.date`. A run without a recipe has no seed, and is a group of its own.
    pub recipe: Option<&'a Value>,
    /// The group with which the run's group is compared. The value of a group's first run counts.
    pub control: Control,
}

/// The group that a group is compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// The first group.
    #[default]
    First,
    /// The group of the run with this index.
    GroupOf(usize),
    /// A group of this name, which has no run.
    Absent(String),
}

impl Entry<'_> {
    fn seed(&self) -> Option<u64> {
        self.recipe?.pointer("/run/seed")?.as_u64()
    }

    fn steps(&self) -> Option<u64> {
        self.recipe?.pointer("/run/steps")?.as_u64()
    }

    /// The date that the run's prompts name, if they name one.
    fn day(&self) -> Option<&str> {
        self.recipe?.pointer("/data/date")?.as_str()
    }

    fn last_step(&self) -> Option<u64> {
        self.run?.log.last_step()
    }
}

/// Statistics of runs over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The groups in the order of their first runs. The first is the default control of the others.
    pub groups: Vec<Group>,
    /// One row for each measure.
    pub rows: Vec<Row>,
    /// Caveats, in sentences: runs left out, groups that cannot be compared, how sure one can be.
    pub notes: Vec<String>,
}

/// Runs that differ in the seed alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The runs that count.
    pub runs: Vec<String>,
    /// Their seeds.
    pub seeds: Vec<Option<u64>>,
    /// Runs that have not made all of their steps, which are left out.
    pub unfinished: Vec<String>,
    /// The indices of all the group's runs among the entries.
    #[serde(skip)]
    pub all: Vec<usize>,
    /// The indices of the runs that count: finished, and one for each seed.
    #[serde(skip)]
    pub counted: Vec<usize>,
}

impl Group {
    /// `3 seeds`, or `3 of 5 seeds finished` if runs are left out.
    fn seeds_finished(&self) -> String {
        match (self.runs.len(), self.unfinished.len()) {
            (1, 0) => "1 seed".into(),
            (n, 0) => format!("{n} seeds"),
            (n, left_out) => format!("{n} of {} seeds finished", n + left_out),
        }
    }
}

/// One measure of all groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The measure.
    pub measure: Measure,
    /// Means, `[groups]`; None if no run that counts has the measure.
    pub means: Vec<Option<Mean>>,
    /// Differences to each group's control over the seeds that both have, `[groups]`; None for
    /// measures that are not compared.
    pub against: Vec<Option<Against>>,
}

/// The difference between a group and its control.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    /// The latter's name.
    pub group: String,
    /// The difference.
    #[serde(flatten)]
    pub test: Paired,
}

impl Summary {
    /// Computes the statistics. The first run belongs to the first group.
    pub fn of(runs: &[Entry<'_>]) -> Self {
        let mut notes = Vec::new();
        let places = groups::grouped(runs);
        let groups = counted_runs(runs, &places, &mut notes);
        let controls = contrasts::controls(runs, &places, &groups, &mut notes);
        let mut rows = rows(runs, &groups, &controls, &mut notes);
        notes.extend(caveats::cut_off(&mut rows));
        notes.extend(caveats::caveats(&groups, &rows));
        Self { groups, rows, notes }
    }
}

/// The groups of the runs with these indices, with notes on runs that do not count.
fn counted_runs(runs: &[Entry<'_>], places: &[Vec<usize>], notes: &mut Vec<String>) -> Vec<Group> {
    let names = groups::names(runs, places);
    let mut groups = Vec::new();
    for (places, name) in places.iter().zip(&names) {
        let (finished, unfinished) = by_state(runs, places);
        let (once, again) = by_seed(runs, &finished);
        let said = |places: &[usize]| -> Vec<String> {
            places.iter().map(|i| runs[*i].name.clone()).collect()
        };
        notes.extend(unfinished.iter().map(|i| {
            let of = runs[*i].steps().map_or(String::new(), |steps| format!(" of {steps}"));
            let name = &runs[*i].name;
            match runs[*i].last_step() {
                Some(made) => format!("{name} is at step {made}{of} and is left out."),
                None => format!("{name} has recorded nothing and is left out."),
            }
        }));
        notes.extend(again.iter().map(|i| {
            format!(
                "{} has the seed of another run of {name}, and is left out as the same once more.",
                runs[*i].name
            )
        }));
        notes.extend(groups::days(runs, &once, name));
        let seeds = once.iter().map(|i| runs[*i].seed()).collect();
        groups.push(Group {
            name: name.clone(),
            runs: said(&once),
            seeds,
            unfinished: said(&unfinished),
            all: places.clone(),
            counted: once,
        });
    }
    groups
}

/// Splits a group into runs that have made all of their steps, and others. Without a number of
/// steps in the recipe, the group's longest run defines it.
fn by_state(runs: &[Entry<'_>], places: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let longest = places.iter().filter_map(|i| runs[*i].last_step()).max();
    places.iter().partition(|i| {
        let made = runs[**i].last_step();
        made.is_some() && made >= runs[**i].steps().or(longest)
    })
}

/// The first run of each seed, and the others.
fn by_seed(runs: &[Entry<'_>], places: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut seen = Vec::new();
    places.iter().partition(|i| {
        let seed = runs[**i].seed();
        let is_new = seed.is_none() || !seen.contains(&seed);
        seen.push(seed);
        is_new
    })
}

/// A run that counts, with its seed.
type Seeded<'a> = (Option<u64>, RunNumbers<'a>);

/// A row for each measure; `controls` has the group that each is compared with.
fn rows(
    runs: &[Entry<'_>],
    named: &[Group],
    controls: &[Option<usize>],
    notes: &mut Vec<String>,
) -> Vec<Row> {
    let evaluated = |i: &usize| {
        let Entry { run, recipe, .. } = &runs[*i];
        Some((runs[*i].seed(), RunNumbers::of((*run)?, *recipe)))
    };
    let groups: Vec<Vec<Seeded<'_>>> =
        named.iter().map(|group| group.counted.iter().filter_map(evaluated).collect()).collect();
    let (mut all, mut known) = (Vec::new(), HashSet::new());
    for measure in groups.iter().flatten().flat_map(|(_, run)| &run.listed) {
        if known.insert(measure) {
            all.push(measure.clone());
        }
    }
    all.sort_by_key(|measure| Section::ALL.iter().position(|section| *section == measure.section));
    notes.extend(caveats::without_end(named, &groups, &all));
    let mut rows: Vec<Row> =
        all.into_iter().map(|measure| row(measure, named, &groups, controls)).collect();
    rows.extend(price::rows(&groups, controls));
    rows
}

/// A measure of all groups, by seeds.
fn row(
    measure: Measure,
    named: &[Group],
    groups: &[Vec<Seeded<'_>>],
    controls: &[Option<usize>],
) -> Row {
    let of_group = |group: &Vec<Seeded<'_>>| -> Vec<(Option<u64>, f64)> {
        group.iter().filter_map(|(seed, run)| Some((*seed, run.number(&measure)?))).collect()
    };
    let numbers: Vec<Vec<(Option<u64>, f64)>> = groups.iter().map(of_group).collect();
    let by_seed: Vec<BTreeMap<u64, f64>> = numbers
        .iter()
        .map(|group| group.iter().filter_map(|(seed, x)| Some(((*seed)?, *x))).collect())
        .collect();
    let pairs = |control: usize, group: usize| -> Vec<(f64, f64)> {
        let of_control = by_seed[control].iter();
        of_control.filter_map(|(seed, old)| Some((*old, *by_seed[group].get(seed)?))).collect()
    };
    let mean = |group: &Vec<(Option<u64>, f64)>| {
        let mean = Mean::of(group.iter().map(|(_, x)| *x).collect())?;
        // A count has no interval: it describes these runs and no others.
        Some(if measure.is_count() { Mean { interval: None, ..mean } } else { mean })
    };
    let against = |group: usize| {
        let control = controls[group].filter(|_| measure.is_compared())?;
        Some(Against {
            group: named[control].name.clone(),
            test: Paired::of(&pairs(control, group))?,
        })
    };
    Row {
        means: numbers.iter().map(mean).collect(),
        against: (0..groups.len()).map(against).collect(),
        measure,
    }
}
