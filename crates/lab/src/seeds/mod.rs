//! Statistics over seeds: runs that differ in nothing but the seed are one group, whose numbers have a mean and an interval;
//! groups are compared over the seeds that they share.
//!
//! [`Summary::of`] knows numbers and recipes alone; [`section`] shows a summary in a web page, [`text`] on a terminal,
//! [`markdown`] in a file.

mod caveats;
mod groups;
mod measure;
mod show;
mod student;

pub use groups::without_seed;
pub use measure::{Measure, Taken, measures};
pub use show::{markdown, section, text};
pub use student::{EXACT_UP_TO, Mean, Paired, quantile, within};

use crate::log::RunLog;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A run to be taken in.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// What notes call it.
    pub name: String,
    /// What its group is called, where that is known.
    pub group: Option<String>,
    /// What it has measured; none of a run that was to be made and has recorded nothing.
    pub log: Option<&'a RunLog>,
    /// Its resolved recipe's values, if they are known. Without them it has no seed, and is a group of its own.
    pub recipe: Option<&'a Value>,
}

impl Run<'_> {
    fn seed(&self) -> Option<u64> {
        self.recipe?.pointer("/run/seed")?.as_u64()
    }

    fn steps(&self) -> Option<u64> {
        self.recipe?.pointer("/run/steps")?.as_u64()
    }

    fn last_step(&self) -> Option<u64> {
        self.log?.last_step()
    }
}

/// What runs say over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The groups in the order of their first runs; the first is the baseline that the others are compared with.
    pub groups: Vec<Group>,
    /// What is known of them.
    pub rows: Vec<Row>,
    /// What the reader must know: what was left out, what cannot be compared, how sure one can be. Sentences.
    pub notes: Vec<String>,
}

/// Runs that differ in nothing but the seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// What it is called.
    pub name: String,
    /// The runs that count.
    pub runs: Vec<String>,
    /// Their seeds.
    pub seeds: Vec<Option<u64>>,
    /// Runs that have not made all of their steps, which are left out.
    pub unfinished: Vec<String>,
}

impl Group {
    /// `3 seeds`, or `3 of 5 seeds finished` where runs are left out.
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
    /// What is measured.
    pub measure: Measure,
    /// `[groups]`; none where no run that counts has measured it.
    pub means: Vec<Option<Mean>>,
    /// `[groups]`: the difference to the baseline over the seeds that both have; none of the baseline itself, and where the two
    /// cannot be compared.
    pub against_first: Vec<Option<Paired>>,
}

impl Summary {
    /// Takes in runs, of which the first is of the baseline.
    pub fn of(runs: &[Run<'_>]) -> Self {
        let mut notes = Vec::new();
        let places = groups::grouped(runs);
        let names = groups::names(runs, &places);
        // The places of the runs that count.
        let mut counted: Vec<Vec<usize>> = Vec::new();
        let mut groups = Vec::new();
        for (places, name) in places.iter().zip(names) {
            let (finished, unfinished) = by_state(runs, places);
            let (once, again) = by_seed(runs, &finished);
            let said =
                |places: &[usize]| -> Vec<String> { places.iter().map(|i| runs[*i].name.clone()).collect() };
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
            let seeds = once.iter().map(|i| runs[*i].seed()).collect();
            groups.push(Group { name, runs: said(&once), seeds, unfinished: said(&unfinished) });
            counted.push(once);
        }
        let comparable = comparable(runs, &places, &groups, &mut notes);
        let mut rows = rows(runs, &counted, &comparable);
        notes.extend(caveats::unequal_bests(runs, &counted, &groups, &mut rows));
        notes.extend(caveats::cut_off_shares(&mut rows));
        notes.extend(caveats::caveats(&groups, &rows));
        Self { groups, rows, notes }
    }
}

/// Which runs of a group have made all of their steps. Where the recipe does not say how many these are, they are as many as the
/// longest run of the group has made.
fn by_state(runs: &[Run<'_>], places: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let longest = places.iter().filter_map(|i| runs[*i].last_step()).max();
    places.iter().partition(|i| {
        let made = runs[**i].last_step();
        made.is_some() && made >= runs[**i].steps().or(longest)
    })
}

/// The first run of each seed, and the others.
fn by_seed(runs: &[Run<'_>], places: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut seen = Vec::new();
    places.iter().partition(|i| {
        let seed = runs[**i].seed();
        let is_new = seed.is_none() || !seen.contains(&seed);
        seen.push(seed);
        is_new
    })
}

/// Which groups may be compared with the first.
fn comparable(
    runs: &[Run<'_>],
    places: &[Vec<usize>],
    groups: &[Group],
    notes: &mut Vec<String>,
) -> Vec<bool> {
    let first = |group: &[usize]| &runs[group[0]];
    let Some(baseline) = places.first().map(|group| first(group)) else { return Vec::new() };
    let may = |(group, Group { name, .. }): (&Vec<usize>, &Group)| {
        let run = first(group);
        let (Some(old), Some(new)) = (baseline.recipe, run.recipe) else { return false };
        let changes = groups::incomparable(old, new);
        if !changes.is_empty() {
            let baseline = &groups[0].name;
            notes.push(format!(
                "{name} is not compared with {baseline}, since it is evaluated otherwise: {}.",
                changes.join(", ")
            ));
        } else if baseline.steps() != run.steps() {
            let steps = |run: &Run<'_>| run.steps().unwrap_or_default();
            notes.push(format!(
                "{name} trains for {} steps, {} for {}.",
                steps(run),
                groups[0].name,
                steps(baseline)
            ));
        }
        changes.is_empty()
    };
    places.iter().zip(groups).map(may).collect()
}

fn rows(runs: &[Run<'_>], groups: &[Vec<usize>], comparable: &[bool]) -> Vec<Row> {
    let mut all: Vec<Measure> = Vec::new();
    for measure in groups.iter().flatten().filter_map(|i| runs[*i].log).flat_map(measures) {
        if !all.contains(&measure) {
            all.push(measure);
        }
    }
    let row = |measure: Measure| {
        let of_group = |group: &Vec<usize>| -> Vec<(Option<u64>, f64)> {
            let number = |i: &usize| Some((runs[*i].seed(), measure.of(runs[*i].log?)?));
            group.iter().filter_map(number).collect()
        };
        let numbers: Vec<Vec<(Option<u64>, f64)>> = groups.iter().map(of_group).collect();
        let by_seed: Vec<BTreeMap<u64, f64>> = numbers
            .iter()
            .map(|group| group.iter().filter_map(|(seed, x)| Some(((*seed)?, *x))).collect())
            .collect();
        let against = |group: usize| {
            let may = group > 0 && comparable[group];
            let pairs: Vec<(f64, f64)> = by_seed[0]
                .iter()
                .filter(|_| may)
                .filter_map(|(seed, old)| Some((*old, *by_seed[group].get(seed)?)))
                .collect();
            Paired::of(&pairs)
        };
        Row {
            means: numbers.iter().map(|group| Mean::of(group.iter().map(|(_, x)| *x).collect())).collect(),
            against_first: (0..groups.len()).map(against).collect(),
            measure,
        }
    };
    all.into_iter().map(row).collect()
}
