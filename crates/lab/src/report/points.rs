//! Which accuracy and which entropy of a run belong together.

use crate::law::Point;
use crate::log::{RunLog, Series};

/// Entropies of the policy while it samples for training, the paper's own first.
const SAMPLED: [&str; 4] = [
    "policy/entropy",
    "policy/entropy_token_mean",
    "policy/entropy_filtered",
    "policy/entropy_token_mean_filtered",
];

/// What stands for the rollout where a set is named.
pub(super) const ROLLOUT: &str = "rollout";

/// Accuracies with the entropies that belong to them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    /// The evaluation set; [`ROLLOUT`] where there were no evaluations.
    pub set: String,
    /// Which entropy, as a metric.
    pub entropy: String,
    /// Which accuracy, as a metric.
    pub accuracy: String,
    /// What the reader must know of these, in sentences without their full stop.
    pub notes: Vec<String>,
    /// In the order of steps; at least one.
    pub points: Vec<Point>,
}

/// What a run has measured, one per evaluation set. The entropy is the set's own where there is one, else that of the rollout
/// after the evaluation, which the same weights have sampled. A run without evaluations has the rollouts' own accuracy.
pub(super) fn of_run(log: &RunLog) -> Vec<Measured> {
    let sampled = SAMPLED.into_iter().find_map(|name| Some((name, log.series(name)?)));
    let mut all = Vec::new();
    for (set, accuracy, values) in evaluations(log) {
        let own = format!("eval/{set}/entropy");
        let note = "the evaluation has no entropy of its own: that of the rollout which the same weights sampled next stands \
                    beside it, at the temperature and on the prompts of training";
        let of_rollout = |(name, series): (&str, &Series)| {
            let points = pairs(values, |step| series.at(step + 1).or_else(|| series.at(step)));
            (name.to_owned(), vec![note.to_owned()], points)
        };
        let chosen = match log.series(&own) {
            Some(series) => Some((own, Vec::new(), pairs(values, |step| series.at(step)))),
            None => sampled.map(of_rollout),
        };
        let (set, accuracy) = (set.to_owned(), accuracy.to_owned());
        all.extend(chosen.map(|(entropy, notes, points)| Measured { set, entropy, accuracy, notes, points }));
    }
    all.retain(|measured| !measured.points.is_empty());
    if all.is_empty() {
        all.extend(of_rollouts(log, sampled));
    }
    all
}

/// Sets with their accuracy, the mean over most responses where there are several: name, metric and values.
fn evaluations(log: &RunLog) -> Vec<(&str, &str, &Series)> {
    let mut found: Vec<(&str, u64, &str, &Series)> = Vec::new();
    for (metric, series) in log.all().filter(|(_, series)| !series.values.is_empty()) {
        let parts = || {
            let (set, statistic) = metric.strip_prefix("eval/")?.rsplit_once('/')?;
            Some((set, statistic.strip_prefix("mean@")?.parse::<u64>().ok()?))
        };
        let Some((set, k)) = parts() else { continue };
        match found.iter_mut().find(|row| row.0 == set) {
            Some(row) if row.1 < k => *row = (set, k, metric, series),
            Some(_) => {}
            None => found.push((set, k, metric, series)),
        }
    }
    found.into_iter().map(|(set, _, metric, series)| (set, metric, series)).collect()
}

fn of_rollouts(log: &RunLog, sampled: Option<(&str, &Series)>) -> Option<Measured> {
    let (entropy, entropies) = sampled?;
    let is_share = |series: &Series| series.values.iter().all(|value| (0.0..=1.0).contains(value));
    let (accuracy, values) = ["verdict/correct", "reward/score", "reward/mean"]
        .into_iter()
        .find_map(|name| Some((name, log.series(name).filter(|series| is_share(series))?)))?;
    let points = pairs(values, |step| entropies.at(step));
    let (entropy, accuracy) = (entropy.to_owned(), accuracy.to_owned());
    let note = "both are of what was sampled for training, before the step's updates; there, not on held-out problems, does \
                this law hold";
    let (set, notes) = (ROLLOUT.to_owned(), vec![note.to_owned()]);
    (!points.is_empty()).then_some(Measured { set, entropy, accuracy, notes, points })
}

fn pairs(accuracies: &Series, entropy: impl Fn(u64) -> Option<f64>) -> Vec<Point> {
    let point = |(step, accuracy)| Some(Point { step, entropy: entropy(step)?, accuracy });
    accuracies.iter().filter_map(point).collect()
}
