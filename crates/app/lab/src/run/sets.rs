//! Evaluation sets of a run: `eval/<set>/<what>`.

use crate::law::points::SetPoints;
use crate::law::{Point, SEED, Study};
use crate::log::{RunLog, Series, SetMetric, of_set};
use std::sync::OnceLock;

/// Accuracy with entropy on a set, or of the rollouts, and their law.
#[derive(Clone, Debug)]
pub struct EvaluatedSet {
    /// The points, with the names of the set, the accuracy and the entropy.
    pub measured: SetPoints,
    /// Computed when first asked for, because the bootstrap takes a while.
    study: OnceLock<Study>,
}

impl EvaluatedSet {
    pub(super) fn of(measured: SetPoints) -> Self {
        Self { measured, study: OnceLock::new() }
    }

    /// The law of the points, with the prefix and the seed that all commands share.
    pub fn study(&self) -> &Study {
        self.study.get_or_init(|| Study::of(self.measured.points.clone(), SEED))
    }

    /// The first point and the last.
    pub fn ends(&self) -> Option<(Point, Point)> {
        Some((*self.measured.points.first()?, *self.measured.points.last()?))
    }
}

/// The name of a set whose accuracy was measured, with an entropy or without.
#[derive(Clone, Debug, PartialEq)]
pub struct SetName {
    /// The set.
    pub name: String,
    /// The last part of the accuracy's metric: `mean@<k>` of the largest k, else `score`.
    pub accuracy: String,
}

impl SetName {
    /// The sets of a log, without the parts of others.
    pub fn all(log: &RunLog) -> Vec<Self> {
        let parts = log.parts();
        let sets = log.accuracies().into_values().filter(|metric| !parts.contains_key(metric.set));
        sets.map(Self::of).collect()
    }

    fn of(accuracy: SetMetric<'_>) -> Self {
        Self { name: accuracy.set.to_owned(), accuracy: accuracy.what.to_owned() }
    }

    /// A metric of the set by its last part.
    pub fn series<'a>(&self, log: &'a RunLog, what: &str) -> Option<&'a Series> {
        log.series(&of_set(&self.name, what))
    }

    /// The last parts of its metrics.
    pub fn measured<'a>(&self, log: &'a RunLog) -> impl Iterator<Item = &'a str> {
        let metrics = log.beginning(&of_set(&self.name, "")).into_iter().filter_map(SetMetric::of);
        metrics.filter(|metric| metric.set == self.name).map(|metric| metric.what)
    }

    /// k of the set's `mean@<k>`; none if the accuracy is a mean score, which is no share.
    pub fn samples(&self) -> Option<u64> {
        SetMetric { set: &self.name, what: &self.accuracy }.samples()
    }
}
