//! Evaluation sets of a run: `eval/<set>/<what>`.

use crate::log::{RunLog, Series, SetMetric, of_set};
use std::collections::BTreeMap;

/// A set that was evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationSet {
    /// Its name.
    pub name: String,
    /// The metric's last part that is its accuracy: `mean@<k>` of the largest k, else `score`.
    pub accuracy: String,
}

impl EvaluationSet {
    /// The sets whose accuracy a log has, without the parts of others.
    pub fn all(log: &RunLog) -> Vec<Self> {
        let parts = log.parts();
        let sets = log.accuracies().into_values().filter(|metric| !parts.contains_key(metric.set));
        sets.map(Self::of).collect()
    }

    /// The parts of sets whose accuracy a log has, by the names of the whole ones.
    pub fn parts(log: &RunLog) -> BTreeMap<&str, Vec<Self>> {
        let wholes = log.parts();
        let mut parts: BTreeMap<&str, Vec<Self>> = BTreeMap::new();
        for (set, metric) in log.accuracies() {
            if let Some(whole) = wholes.get(set) {
                parts.entry(whole).or_default().push(Self::of(metric));
            }
        }
        parts
    }

    fn of(accuracy: SetMetric<'_>) -> Self {
        Self { name: accuracy.set.to_owned(), accuracy: accuracy.what.to_owned() }
    }

    /// What was measured of it.
    pub fn series<'a>(&self, log: &'a RunLog, what: &str) -> Option<&'a Series> {
        log.series(&of_set(&self.name, what))
    }

    /// The names of what was measured of it.
    pub fn measured<'a>(&self, log: &'a RunLog) -> impl Iterator<Item = &'a str> {
        let metrics = log.beginning(&of_set(&self.name, "")).into_iter().filter_map(SetMetric::of);
        metrics.filter(|metric| metric.set == self.name).map(|metric| metric.what)
    }

    /// k of its `mean@<k>`; none where its accuracy is a mean score, which is no share.
    pub fn samples(&self) -> Option<u64> {
        SetMetric { set: &self.name, what: &self.accuracy }.samples()
    }
}
