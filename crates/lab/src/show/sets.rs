//! Evaluation sets of a run: `eval/<set>/<what>`.

use crate::log::{RunLog, Series};

/// A set that was evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationSet {
    /// Its name.
    pub name: String,
    /// The metric's last part that is its accuracy, as in `mean@4`.
    pub accuracy: String,
}

impl EvaluationSet {
    /// The sets whose accuracy a log has.
    pub fn all(log: &RunLog) -> Vec<Self> {
        log.all()
            .filter_map(|(metric, _)| {
                let (name, what) = metric.strip_prefix("eval/")?.rsplit_once('/')?;
                let samples = what.strip_prefix("mean@")?;
                let is_mean = !samples.is_empty() && samples.bytes().all(|b| b.is_ascii_digit());
                is_mean.then(|| Self { name: name.to_owned(), accuracy: what.to_owned() })
            })
            .collect()
    }

    /// What was measured of it.
    pub fn series<'a>(&self, log: &'a RunLog, what: &str) -> Option<&'a Series> {
        log.series(&format!("eval/{}/{what}", self.name))
    }

    /// The names of what was measured of it.
    pub fn measured<'a>(&self, log: &'a RunLog) -> impl Iterator<Item = &'a str> {
        let prefix = format!("eval/{}/", self.name);
        log.all()
            .filter_map(move |(metric, _)| metric.strip_prefix(&prefix))
            .filter(|what| !what.contains('/'))
    }
}
