//! Evaluation sets of a run: `eval/<set>/<what>`.

use crate::law::{Point, Study};
use crate::log::{RunLog, Series};

/// Seed of the intervals' bootstrap.
const SEED: u64 = 0;

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

    /// What its evaluations say of the law: accuracy against the evaluation's own entropy, or, where evaluations have none,
    /// against that of the step's rollout.
    pub(super) fn study(&self, log: &RunLog) -> SetStudy {
        let own = self.series(log, "entropy");
        let rollout =
            || ["policy/entropy", "policy/entropy_token_mean"].into_iter().find_map(|m| log.series(m));
        let (entropy, which) = match own {
            Some(own) => (Some(own), "the evaluation's own entropy"),
            None => (rollout(), "the entropy of the step's rollout"),
        };
        let accuracies = self.series(log, &self.accuracy).map(Series::iter).into_iter().flatten();
        let points = accuracies.filter_map(|(step, accuracy)| {
            let entropy = entropy?.at(step)?;
            Some(Point { step, entropy, accuracy })
        });
        let study = Study::of(points.collect(), SEED);
        SetStudy { set: self.name.clone(), accuracy: self.accuracy.clone(), entropy: which, study }
    }
}

/// What a set says of the law.
#[derive(Clone, Debug, PartialEq)]
pub struct SetStudy {
    /// The set.
    pub set: String,
    /// Which accuracy is meant.
    pub accuracy: String,
    /// Which entropy is meant, in words.
    pub entropy: &'static str,
    /// The points and the fit.
    pub study: Study,
}
