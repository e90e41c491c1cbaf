//! Evaluation sets of a run: `eval/<set>/<what>`.

use crate::log::{RunLog, Series, SetMetric, of_set};

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
        Self::those(log, |set| !parts.contains_key(set))
    }

    /// The parts of this one.
    pub fn parts(&self, log: &RunLog) -> Vec<Self> {
        let parts = log.parts();
        Self::those(log, |set| parts.get(set).is_some_and(|whole| *whole == self.name))
    }

    fn those(log: &RunLog, is_meant: impl Fn(&str) -> bool) -> Vec<Self> {
        let sets = log.accuracies().into_iter().filter(|(set, _)| is_meant(set));
        sets.map(|(set, metric)| Self { name: set.to_owned(), accuracy: metric.what.to_owned() }).collect()
    }

    /// What was measured of it.
    pub fn series<'a>(&self, log: &'a RunLog, what: &str) -> Option<&'a Series> {
        log.series(&of_set(&self.name, what))
    }

    /// The names of what was measured of it.
    pub fn measured<'a>(&self, log: &'a RunLog) -> impl Iterator<Item = &'a str> {
        let metrics = log.all().filter_map(|(name, _)| SetMetric::of(name));
        metrics.filter(|metric| metric.set == self.name).map(|metric| metric.what)
    }

    /// k of its `mean@<k>`; none where its accuracy is a mean score, which is no share.
    pub fn samples(&self) -> Option<u64> {
        SetMetric { set: &self.name, what: &self.accuracy }.samples()
    }
}
