//! The numbers of a run, step by step, under this project's names ([docs/reference/metrics.md]).
//!
//! [`RunLog::open`] reads the log at a path, of this program or of another trainer
//! (docs/guides/coming-from-trl-or-verl.md). `open.rs` tells the forms apart, and each form has a
//! file here. Their numbers go through `points.rs`, and `names.rs` puts them under our names.
//!
//! [docs/reference/metrics.md]: ../../../docs/reference/metrics.md

pub(crate) mod csv_rows;
mod csv_table;
mod event_file;
mod json_lines;
mod json_rows;
mod labels;
pub(crate) mod lines;
pub mod names;
pub(crate) mod open;
mod points;
mod run_directory;
pub mod run_table;
mod sets;

pub use isentrope_run::{ENTROPIES, Origin, WEIGHTS};
pub use labels::labels;
pub use sets::{SetMetric, of_set, part_of};

use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// The numbers of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLog {
    /// Its name in tables and legends.
    pub name: String,
    /// The path it was read from.
    pub path: PathBuf,
    /// Who has written it.
    pub origin: Origin,
    /// Notes for the reader, in sentences: a line that was cut off, names that are not known.
    pub notes: Vec<String>,
    series: BTreeMap<String, Series>,
}

/// A metric's values at the steps at which it was measured and finite. Steps ascend without
/// repeats.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// `[points]`.
    pub steps: Vec<u64>,
    /// `[points]`.
    pub values: Vec<f64>,
}

impl Series {
    /// Points in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, f64)> {
        self.steps.iter().copied().zip(self.values.iter().copied())
    }

    /// The value at a step, if it was measured there.
    pub fn at(&self, step: u64) -> Option<f64> {
        self.steps.binary_search(&step).ok().map(|place| self.values[place])
    }

    /// The first point.
    pub fn first(&self) -> Option<(u64, f64)> {
        self.iter().next()
    }

    /// The latest point.
    pub fn last(&self) -> Option<(u64, f64)> {
        Some((*self.steps.last()?, *self.values.last()?))
    }

    /// The largest value, the first of equal ones.
    pub fn largest(&self) -> Option<(u64, f64)> {
        self.iter().reduce(|best, point| if point.1 > best.1 { point } else { best })
    }

    /// The mean of the values; NaN without any.
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// Adds a point after all others; a value that is not finite is no measurement.
    fn push(&mut self, step: u64, value: f64) {
        if value.is_finite() {
            self.steps.push(step);
            self.values.push(value);
        }
    }
}

impl RunLog {
    /// Reads the log at a path.
    ///
    /// # Errors
    /// When it cannot be read, is no log that is known, or holds several runs; malformed content is
    /// named by file and line, record or entry.
    pub fn open(path: &Path) -> Result<Self> {
        let mut runs = Self::open_all(path)?;
        if runs.len() == 1
            && let Some(run) = runs.pop()
        {
            return Ok(run);
        }
        let names: Vec<String> = runs.iter().take(5).map(|run| run.name_below(path)).collect();
        let (count, some) = (runs.len(), names.join(", "));
        let what = format!("holds {count} runs, where one is wanted: {some}; give the path of one");
        Err(Error::invalid(path, what))
    }

    /// Reads all logs at a path: a directory may have several runs.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_all(path: &Path) -> Result<Vec<Self>> {
        open::open_all(path)
    }

    /// The run's path relative to the directory that several runs were read from.
    fn name_below(&self, path: &Path) -> String {
        self.path.strip_prefix(path).unwrap_or(&self.path).display().to_string()
    }

    /// The policy's entropy during sampling, with the metric's name: the mean over all sampled
    /// responses if known, else the nearest known metric.
    pub fn entropy(&self) -> Option<(&'static str, &Series)> {
        ENTROPIES.into_iter().find_map(|name| Some((name, self.series(name)?)))
    }

    /// A metric, if it was ever measured.
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.get(name)
    }

    /// All metrics by name, in the order of names.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Series)> {
        self.series.iter().map(|(name, series)| (name.as_str(), series))
    }

    /// Seconds of all steps together, and whether evaluations are among them. TRL's seconds are
    /// means over the steps since its last log, of training alone.
    pub(crate) fn seconds(&self) -> Option<(f64, bool)> {
        let series = self.series("time/step_s")?;
        if self.origin != Origin::Trl {
            return Some((series.values.iter().sum(), true));
        }
        let before = std::iter::once(0).chain(series.steps.iter().copied());
        let seconds =
            series.iter().zip(before).map(|((step, mean), before)| mean * (step - before) as f64);
        Some((seconds.sum(), false))
    }

    /// Whether the log shows that the weights after two steps are the same: by their checksums, or
    /// because every step between made no update or one at rate 0.
    pub fn has_same_weights(&self, from: u64, to: u64) -> bool {
        let sums = || self.series(WEIGHTS).into_iter().flat_map(Series::iter);
        let before = sums().filter(|(step, _)| *step <= from).last();
        let after = sums().find(|(step, _)| *step >= to);
        if let (Some((first, old)), Some((last, new))) = (before, after)
            && (old == new || (first == from && last == to))
        {
            return old == new;
        }
        let is = |name: &str, step: u64| self.series(name).and_then(|of| of.at(step)) == Some(0.0);
        let is_idle = |step: u64| is("optimizer/learning_rate", step) || is("update/count", step);
        from < to && (from + 1..=to).all(is_idle)
    }

    /// The names of metrics with this beginning, in their order.
    pub(crate) fn beginning(&self, with: &str) -> Vec<&str> {
        let from = self.series.range::<str, _>((Bound::Included(with), Bound::Unbounded));
        from.map(|(name, _)| name.as_str()).take_while(|name| name.starts_with(with)).collect()
    }

    /// The last step with a number other than its times, because an incomplete copy may have all
    /// times.
    pub fn last_step(&self) -> Option<u64> {
        let is_time = |name: &str| name.starts_with("time/") || name.starts_with("throughput/");
        let measured = self.series.iter().filter(|(name, _)| !is_time(name));
        measured.filter_map(|(_, series)| series.last()).map(|(step, _)| step).max()
    }

    /// The evaluation sets that were measured, by name: `<set>` of `eval/<set>/mean@<k>`, `score`
    /// or `entropy`. Other trainers do not measure all of them. Parts of sets
    /// ([`parts`](Self::parts)) are not among them.
    pub fn evaluation_sets(&self) -> Vec<&str> {
        let parts = self.parts();
        self.sets_and_parts().into_iter().filter(|set| !parts.contains_key(set)).collect()
    }

    /// The evaluation sets, and their parts, which [`part_of`] distinguishes.
    pub fn sets_and_parts(&self) -> BTreeSet<&str> {
        let metrics = self.series.keys().filter_map(|name| SetMetric::of(name));
        metrics.filter(SetMetric::is_usual).map(|metric| metric.set).collect()
    }

    /// The parts of evaluation sets, by name, each with the set that it is a part of.
    pub fn parts(&self) -> BTreeMap<&str, &str> {
        let all = self.sets_and_parts();
        let whole = |part: &str| all.get(part_of(part, |whole| all.contains(whole))?.0).copied();
        all.iter().filter_map(|part| Some((*part, whole(part)?))).collect()
    }

    /// The evaluation sets whose accuracy was measured, by name, with its metric: `mean@<k>` of the
    /// largest k, else the mean `score`. Parts of sets are among them.
    pub fn accuracies(&self) -> BTreeMap<&str, SetMetric<'_>> {
        let mut best: BTreeMap<&str, SetMetric<'_>> = BTreeMap::new();
        for metric in self.series.keys().filter_map(|name| SetMetric::of(name)) {
            let is_accuracy = metric.samples().is_some() || metric.what == "score";
            if is_accuracy
                && best.get(metric.set).is_none_or(|best| metric.samples() >= best.samples())
            {
                best.insert(metric.set, metric);
            }
        }
        best
    }
}
