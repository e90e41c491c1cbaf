//! What a run has measured, step by step, under this project's names ([docs/metrics.md]).
//!
//! [`RunLog::open`] reads what a path leads to; a file here is one form of log.
//!
//! [docs/metrics.md]: ../../../docs/metrics.md

mod run_directory;

use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The numbers of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLog {
    /// What it is called in tables and legends.
    pub name: String,
    /// Where it was read from.
    pub path: PathBuf,
    /// Who has written it.
    pub origin: Origin,
    /// What the reader should know of it, in sentences: a line that was cut off, names that are not known.
    pub notes: Vec<String>,
    series: BTreeMap<String, Series>,
}

/// Who has written a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A run directory of this program.
    Isentrope,
}

/// A metric's values over the steps at which it was measured and finite; steps ascend, each is there once.
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

    /// The latest point.
    pub fn last(&self) -> Option<(u64, f64)> {
        Some((*self.steps.last()?, *self.values.last()?))
    }

    /// Takes in a point after all others; a value that is not finite is no measurement.
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
    /// When it cannot be read, or is no log that is known; malformed lines are named by file and line.
    pub fn open(path: &Path) -> Result<Self> {
        if run_directory::is_one(path) {
            return run_directory::read(path);
        }
        Err(Error::invalid(
            path,
            "no log of a run that is known: a run directory of this program has metrics.jsonl",
        ))
    }

    /// A metric, if it was ever measured.
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.get(name)
    }

    /// All metrics by name, in the order of names.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Series)> {
        self.series.iter().map(|(name, series)| (name.as_str(), series))
    }

    /// The last step of which anything is known.
    pub fn last_step(&self) -> Option<u64> {
        self.series.values().filter_map(Series::last).map(|(step, _)| step).max()
    }

    /// The evaluation sets that were measured, by name: `<set>` of `eval/<set>/entropy`.
    pub fn evaluation_sets(&self) -> Vec<&str> {
        let of = |name: &'static str| {
            move |metric: &'_ str| metric.strip_prefix("eval/")?.strip_suffix(name).map(str::len)
        };
        let length = of("/entropy");
        self.series
            .keys()
            .filter_map(|name| length(name).map(|length| &name["eval/".len()..][..length]))
            .collect()
    }
}
