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

/// Accuracies with the entropies that belong to them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    /// The evaluation set; none where there were no evaluations, and these are of the rollouts.
    pub set: Option<String>,
    /// Which entropy, as a metric.
    pub entropy: String,
    /// Which accuracy, as a metric.
    pub accuracy: String,
    /// In the order of steps; at least one.
    pub points: Vec<Point>,
}

impl Measured {
    /// Where it was measured, for headings.
    pub fn place(&self) -> &str {
        self.set.as_deref().unwrap_or("training prompts")
    }

    /// Whether the entropy is the evaluation's own.
    pub fn is_own_entropy(&self) -> bool {
        self.entropy.starts_with("eval/")
    }

    /// The first point and the last.
    pub fn ends(&self) -> Option<(Point, Point)> {
        Some((*self.points.first()?, *self.points.last()?))
    }
}

/// What a run has measured, one per evaluation set. The entropy is the set's own where there is one, else that of the rollout
/// after the evaluation, which the same weights have sampled. A run without evaluations has the rollouts' own accuracy.
pub(super) fn of(log: &RunLog) -> Vec<Measured> {
    let sampled = SAMPLED.into_iter().find_map(|name| Some((name, log.series(name)?)));
    let mut all = Vec::new();
    for (set, accuracy, values) in evaluations(log) {
        let own = format!("eval/{set}/entropy");
        let of_rollout = |(name, series): (&str, &Series)| {
            (name.to_owned(), pairs(values, |step| series.at(step + 1).or_else(|| series.at(step))))
        };
        let chosen = match log.series(&own) {
            Some(series) => Some((own, pairs(values, |step| series.at(step)))),
            None => sampled.map(of_rollout),
        };
        all.extend(chosen.map(|(entropy, points)| Measured {
            set: Some(set.to_owned()),
            entropy,
            accuracy: accuracy.to_owned(),
            points,
        }));
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
    (!points.is_empty()).then_some(Measured { set: None, entropy, accuracy, points })
}

fn pairs(accuracies: &Series, entropy: impl Fn(u64) -> Option<f64>) -> Vec<Point> {
    let point = |(step, accuracy)| Some(Point { step, entropy: entropy(step)?, accuracy });
    accuracies.iter().filter_map(point).collect()
}
