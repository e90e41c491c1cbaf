//! From the log of a run to the points of the law, and which entropy and which accuracy they are.

use super::Point;
use crate::log::names::{TRL, VERL, counterpart};
use crate::log::{RunLog, Series};
use crate::{Error, Result};
use serde::Serialize;
use std::collections::BTreeSet;

/// What stands for the rollout where a set is named.
pub const ROLLOUT: &str = "rollout";

/// The rollout's entropies, in the order in which they are looked for.
const ENTROPIES: [&str; 4] = [
    "policy/entropy",
    "policy/entropy_token_mean",
    "policy/entropy_filtered",
    "policy/entropy_token_mean_filtered",
];

/// The rollout's accuracies, likewise.
const REWARDS: [&str; 2] = ["reward/score", "reward/mean"];

/// Steps that a rollout's entropy may be away from the evaluation that it is put beside.
const FARTHEST: u64 = 10;

/// The points of one evaluation set, or of the rollout.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The set, or [`ROLLOUT`].
    pub set: String,
    /// The metric that accuracy is.
    pub accuracy: String,
    /// The metric that entropy is.
    pub entropy: String,
    /// What the reader must know of these, in sentences without their full stop.
    pub notes: Vec<String>,
    /// In the order of steps.
    #[serde(skip)]
    pub points: Vec<Point>,
}

/// The points of every evaluation set of a run by name; where it has none, those of its rollouts.
pub fn of_run(log: &RunLog) -> Vec<Measured> {
    let sets: Vec<Measured> = sets(log).into_iter().filter_map(|set| of_set(log, set)).collect();
    if sets.is_empty() { of_rollout(log).into_iter().collect() } else { sets }
}

/// The points of metrics that are asked for by name, where those of [`of_run`] are not meant. Beside another accuracy stands
/// the entropy of its evaluation set, where it has one; beside another entropy the accuracies of [`of_run`].
///
/// # Errors
/// When a metric was never measured, with the names of those like it.
pub fn of_metrics(log: &RunLog, accuracy: Option<&str>, entropy: Option<&str>) -> Result<Vec<Measured>> {
    // By another trainer's name too, which is what its users know.
    let ours = |name: Option<&str>| {
        let name = name?;
        let named = [VERL, TRL].into_iter().filter_map(|table| counterpart(table, name));
        let all = std::iter::once(name.to_owned()).chain(named);
        Some(all.into_iter().find(|name| log.series(name).is_some()).unwrap_or_else(|| name.to_owned()))
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
            Error::invalid(&log.path, format!("has no metric {name:?}; there are: {}", like.join(", ")))
        })
    };
    let Some(accuracy) = accuracy else {
        let Some(entropy) = entropy else { return Ok(of_run(log)) };
        let entropies = find(entropy)?;
        let all = of_run(log).into_iter().filter_map(|m| {
            let (points, notes) = beside([&m.accuracy, entropy], log.series(&m.accuracy)?, entropies);
            Some(Measured { entropy: entropy.to_owned(), points, notes, ..m })
        });
        return Ok(all.collect());
    };
    let accuracies = find(accuracy)?;
    let set = accuracy.strip_prefix("eval/").and_then(|name| name.rsplit_once('/')).map(|(set, _)| set);
    let own = set.map(|set| format!("eval/{set}/entropy")).filter(|name| log.series(name).is_some());
    let name = match (entropy, own) {
        (Some(entropy), _) => entropy.to_owned(),
        (None, Some(own)) => own,
        (None, None) => first(log, &ENTROPIES).map_or(ENTROPIES[0], |(name, _)| name).to_owned(),
    };
    let (points, notes) = beside([accuracy, &name], accuracies, find(&name)?);
    Ok(vec![Measured {
        set: set.unwrap_or(ROLLOUT).to_owned(),
        accuracy: accuracy.to_owned(),
        entropy: name,
        notes,
        points,
    }])
}

/// Accuracies with the entropies of the same policies, by the names of both: an evaluation after a step with the rollout after
/// it, all else with the same step, or the nearest where that has none, which is said.
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

/// Evaluations with the entropies of the rollouts after them, and what is to be known of that.
fn borrowed(accuracies: &Series, entropies: &Series) -> (Vec<Point>, Vec<String>) {
    let at = |(step, accuracy)| Some(Point { step, entropy: nearest(entropies, step)?, accuracy });
    let points: Vec<Point> = accuracies.iter().filter_map(at).collect();
    let note = "the entropy is not the evaluation's own: that of the nearest rollout stands beside it, at the temperature and on \
                the problems of training";
    let lost = left_out(accuracies.steps.len() - points.len());
    (points, std::iter::once(note.to_owned()).chain(lost).collect())
}

fn left_out(evaluations: usize) -> Option<String> {
    match evaluations {
        0 => None,
        1 => Some(format!("1 evaluation is left out: no rollout is within {FARTHEST} steps of it")),
        n => Some(format!("{n} evaluations are left out: no rollout is within {FARTHEST} steps of them")),
    }
}

/// The points of a run's rollouts: what was sampled for training, before the step's updates.
pub fn of_rollout(log: &RunLog) -> Option<Measured> {
    let (entropy, entropies) = first(log, &ENTROPIES)?;
    let (accuracy, accuracies) = first(log, &REWARDS)?;
    let points = accuracies
        .iter()
        .filter_map(|(step, accuracy)| Some(Point { step, entropy: entropies.at(step)?, accuracy }));
    let note =
        "both are of the rollout, on what is trained on: there, not on held-out problems, does this law hold";
    Some(Measured {
        set: ROLLOUT.into(),
        accuracy: accuracy.into(),
        entropy: entropy.into(),
        notes: vec![note.into()],
        points: points.collect(),
    })
}

/// The sets that a run was evaluated on: `<set>` of `eval/<set>/mean@<k>` and of `eval/<set>/score`.
fn sets(log: &RunLog) -> BTreeSet<&str> {
    log.all().filter_map(|(name, _)| samples(name).map(|(set, _)| set).or_else(|| scored(name))).collect()
}

/// The set and k of `eval/<set>/mean@<k>`.
fn samples(name: &str) -> Option<(&str, u64)> {
    let (set, k) = name.strip_prefix("eval/")?.rsplit_once("/mean@")?;
    Some((set, k.parse().ok()?))
}

fn scored(name: &str) -> Option<&str> {
    name.strip_prefix("eval/")?.strip_suffix("/score")
}

fn of_set(log: &RunLog, set: &str) -> Option<Measured> {
    let most =
        log.all().filter_map(|(name, _)| samples(name)).filter(|(of, _)| *of == set).map(|(_, k)| k).max();
    let accuracy = most.map_or_else(|| format!("eval/{set}/score"), |k| format!("eval/{set}/mean@{k}"));
    let accuracies = log.series(&accuracy)?;
    let mut notes = Vec::new();
    if most.is_none() {
        notes.push("accuracy is the mean score, as no share of correct responses was measured".to_owned());
    }
    let own = format!("eval/{set}/entropy");
    let (entropy, points) = match log.series(&own) {
        Some(entropies) => {
            let at = |(step, accuracy)| Some(Point { step, entropy: entropies.at(step)?, accuracy });
            (own, accuracies.iter().filter_map(at).collect())
        }
        None => {
            let (name, entropies) = first(log, &ENTROPIES)?;
            let (points, said) = borrowed(accuracies, entropies);
            notes.extend(said);
            (name.to_owned(), points)
        }
    };
    let without = accuracies.steps.len() - points.len();
    if notes.is_empty() && without > 0 {
        notes.push(format!(
            "{without} of {} evaluations have no entropy and are left out",
            accuracies.steps.len()
        ));
    }
    Some(Measured { set: set.into(), accuracy, entropy, notes, points })
}

/// The entropy of the rollout nearest to the policy after a step, which is the one that samples the step after it.
fn nearest(entropies: &Series, step: u64) -> Option<f64> {
    let policy = step + 1;
    let after = entropies.steps.partition_point(|s| *s < policy);
    let places = [after.checked_sub(1), (after < entropies.steps.len()).then_some(after)];
    let away = |place: &usize| entropies.steps[*place].abs_diff(policy);
    // Of two that are as near, the later, as the policy after the step has no longer what it had before.
    let place = places.into_iter().flatten().rev().min_by_key(away)?;
    (away(&place) <= FARTHEST).then(|| entropies.values[place])
}

fn first<'a>(log: &'a RunLog, names: &[&'static str]) -> Option<(&'static str, &'a Series)> {
    names.iter().find_map(|name| Some((*name, log.series(name)?)))
}
