//! Takes the law's points, and the names of entropy and accuracy, from a run's log.

use super::Point;
use crate::log::names::{TRL, VERL, counterpart};
use crate::log::{self, ENTROPIES, RunLog, Series, SetMetric};
use crate::{Error, Result};
use serde::Serialize;

/// The name of the rollout among sets.
pub const ROLLOUT: &str = "rollout";

/// The rollout's accuracies, in the order in which they are looked for.
const REWARDS: [&str; 2] = ["reward/score", "reward/mean"];

/// Most steps between an evaluation and the rollout whose entropy it gets.
const FARTHEST: u64 = 10;

/// The points of one evaluation set, or of the rollout.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetPoints {
    /// The set, or [`ROLLOUT`].
    pub set: String,
    /// The set that this one is a part of: its problems of one source or size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
    /// The metric that accuracy is.
    pub accuracy: String,
    /// The metric that entropy is.
    pub entropy: String,
    /// Notes for the reader, as sentences without full stops.
    pub notes: Vec<String>,
    /// In the order of steps.
    #[serde(skip)]
    pub points: Vec<Point>,
}

/// The points of every evaluation set of a run by name, without parts; of its rollouts if it has no
/// evaluations.
pub fn of_run(log: &RunLog) -> Vec<SetPoints> {
    let mut all = with_parts(log);
    all.retain(|measured| measured.part_of.is_none());
    all
}

/// The points of every part of a set of a run, by name.
pub fn of_parts(log: &RunLog) -> Vec<SetPoints> {
    let mut all = with_parts(log);
    all.retain(|measured| measured.part_of.is_some());
    all
}

fn with_parts(log: &RunLog) -> Vec<SetPoints> {
    let parts = log.parts();
    let of = |(set, metric): (&str, SetMetric<'_>)| {
        let part_of = parts.get(set).map(|whole| (*whole).to_owned());
        Some(SetPoints { part_of, ..of_set(log, set, metric)? })
    };
    let sets: Vec<SetPoints> = log.accuracies().into_iter().filter_map(of).collect();
    if sets.is_empty() { of_rollout(log).into_iter().collect() } else { sets }
}

/// The points of metrics that are named. A named accuracy is paired with the entropy of its
/// evaluation set, if that has one. Without a named accuracy, all sets and their parts are
/// returned.
///
/// # Errors
/// When a metric was never measured, with the names of those like it.
pub fn of_metrics(
    log: &RunLog,
    accuracy: Option<&str>,
    entropy: Option<&str>,
) -> Result<Vec<SetPoints>> {
    // Users of another trainer know the metric by that trainer's name.
    let ours = |name: Option<&str>| {
        let name = name?;
        let named = [VERL, TRL].into_iter().filter_map(|table| counterpart(table, name));
        let all = std::iter::once(name.to_owned()).chain(named);
        Some(
            all.into_iter()
                .find(|name| log.series(name).is_some())
                .unwrap_or_else(|| name.to_owned()),
        )
    };
    let (accuracy, entropy) = (ours(accuracy), ours(entropy));
    let (accuracy, entropy) = (accuracy.as_deref(), entropy.as_deref());
    let find = |name: &str| {
        log.series(name).ok_or_else(|| {
            let family = name.split('/').next().unwrap_or(name);
            let near = |of: &dyn Fn(&str) -> bool| -> Vec<&str> {
                log.all().map(|(name, _)| name).filter(|name| of(name)).take(40).collect()
            };
            let like = near(&|name| name.split('/').next() == Some(family));
            let like = if like.is_empty() { near(&|_| true) } else { like };
            Error::invalid(
                &log.path,
                format!("has no metric {name:?}; there are: {}", like.join(", ")),
            )
        })
    };
    let Some(accuracy) = accuracy else {
        let Some(entropy) = entropy else { return Ok(with_parts(log)) };
        let entropies = find(entropy)?;
        let all = with_parts(log).into_iter().filter_map(|m| {
            let (points, notes) =
                beside([&m.accuracy, entropy], log.series(&m.accuracy)?, entropies);
            Some(SetPoints { entropy: entropy.to_owned(), points, notes, ..m })
        });
        return Ok(all.collect());
    };
    let accuracies = find(accuracy)?;
    let set = SetMetric::of(accuracy).map(|metric| metric.set);
    let own = set.map(|set| log::of_set(set, "entropy")).filter(|name| log.series(name).is_some());
    let name = match (entropy, own) {
        (Some(entropy), _) => entropy.to_owned(),
        (None, Some(own)) => own,
        (None, None) => log.entropy().map_or(ENTROPIES[0], |(name, _)| name).to_owned(),
    };
    let (points, notes) = beside([accuracy, &name], accuracies, find(&name)?);
    Ok(vec![SetPoints {
        set: set.unwrap_or(ROLLOUT).to_owned(),
        part_of: None,
        accuracy: accuracy.to_owned(),
        entropy: name,
        notes,
        points,
    }])
}

/// Pairs accuracies with entropies of the same policies, given the names of both. An evaluation
/// after a step gets the entropy of the next rollout. Anything else gets the entropy of its own
/// step, or of the nearest step that has one, which a note says.
fn beside(
    [accuracy, entropy]: [&str; 2],
    accuracies: &Series,
    entropies: &Series,
) -> (Vec<Point>, Vec<String>) {
    if accuracy.starts_with("eval/") && !entropy.starts_with("eval/") {
        return borrowed(accuracies, entropies);
    }
    let (mut points, mut others) = (Vec::new(), 0);
    for (step, accuracy) in accuracies.iter() {
        let own = entropies.at(step);
        let entropy = own.or_else(|| nearest(entropies, step));
        others += usize::from(own.is_none() && entropy.is_some());
        points.extend(entropy.map(|entropy| Point { step, entropy, accuracy }));
    }
    let mut notes = Vec::new();
    if others > 0 {
        let steps = if others == 1 { "1 step".into() } else { format!("{others} steps") };
        notes.push(format!(
            "at {steps} the entropy is that of the nearest step, none farther than {FARTHEST}"
        ));
    }
    notes.extend(left_out(accuracies.steps.len() - points.len()));
    (points, notes)
}

/// Pairs evaluations with the entropies of the rollouts after them, and adds notes.
fn borrowed(accuracies: &Series, entropies: &Series) -> (Vec<Point>, Vec<String>) {
    let at = |(step, accuracy)| Some(Point { step, entropy: nearest(entropies, step)?, accuracy });
    let points: Vec<Point> = accuracies.iter().filter_map(at).collect();
    let note = "the entropy is not the evaluation's own: that of the nearest rollout stands beside \
                it, at the temperature and on the problems of training";
    let lost = left_out(accuracies.steps.len() - points.len());
    (points, std::iter::once(note.to_owned()).chain(lost).collect())
}

fn left_out(evaluations: usize) -> Option<String> {
    match evaluations {
        0 => None,
        1 => Some(format!("1 evaluation is left out: no rollout is within {FARTHEST} steps of it")),
        n => Some(format!(
            "{n} evaluations are left out: no rollout is within {FARTHEST} steps of them"
        )),
    }
}

/// The points of a run's rollouts: responses sampled for training, before the step's updates.
pub fn of_rollout(log: &RunLog) -> Option<SetPoints> {
    let (entropy, entropies) = log.entropy()?;
    let (accuracy, accuracies) =
        REWARDS.into_iter().find_map(|name| Some((name, log.series(name)?)))?;
    let (points, lost) = of_same_steps(accuracies, entropies, "rollouts");
    let note = "both are of the rollout, on what is trained on: there, not on held-out problems, \
                does this law hold";
    Some(SetPoints {
        set: ROLLOUT.into(),
        part_of: None,
        accuracy: accuracy.into(),
        entropy: entropy.into(),
        notes: std::iter::once(note.into()).chain(lost).collect(),
        points,
    })
}

/// Accuracies with the entropies of the same steps, and a note if some have none.
fn of_same_steps(
    accuracies: &Series,
    entropies: &Series,
    what: &str,
) -> (Vec<Point>, Option<String>) {
    let at = |(step, accuracy)| Some(Point { step, entropy: entropies.at(step)?, accuracy });
    let points: Vec<Point> = accuracies.iter().filter_map(at).collect();
    let (all, without) = (accuracies.steps.len(), accuracies.steps.len() - points.len());
    let note = (without > 0)
        .then(|| format!("{without} of {all} {what} have no entropy and are left out"));
    (points, note)
}

fn of_set(log: &RunLog, set: &str, metric: SetMetric<'_>) -> Option<SetPoints> {
    let accuracy = log::of_set(set, metric.what);
    let accuracies = log.series(&accuracy)?;
    let mut notes = Vec::new();
    if metric.samples().is_none() {
        notes.push(
            "accuracy is the mean score, as no share of correct responses was measured".to_owned(),
        );
    }
    let own = log::of_set(set, "entropy");
    let (entropy, points) = match log.series(&own) {
        Some(entropies) => {
            let (points, lost) = of_same_steps(accuracies, entropies, "evaluations");
            notes.extend(lost);
            (own, points)
        }
        None => {
            let (name, entropies) = log.entropy()?;
            let (points, said) = borrowed(accuracies, entropies);
            notes.extend(said);
            (name.to_owned(), points)
        }
    };
    Some(SetPoints { set: set.into(), part_of: None, accuracy, entropy, notes, points })
}

/// The entropy of the rollout nearest to the policy after a step, which is the one that samples the
/// step after it.
fn nearest(entropies: &Series, step: u64) -> Option<f64> {
    let policy = step + 1; // steps end long before numbers do
    let after = entropies.steps.partition_point(|s| *s < policy);
    let places = [after.checked_sub(1), (after < entropies.steps.len()).then_some(after)];
    let away = |place: &usize| entropies.steps[*place].abs_diff(policy);
    // If two are equally near, the later counts: the policy after the step has replaced the earlier
    // one.
    let place = places.into_iter().flatten().rev().min_by_key(away)?;
    (away(&place) <= FARTHEST).then(|| entropies.values[place])
}
