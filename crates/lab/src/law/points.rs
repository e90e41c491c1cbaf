//! From the log of a run to the points of the law, and which entropy and which accuracy they are.

use super::Point;
use crate::log::{RunLog, Series};
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
            notes.push(
                "the evaluation has no entropy of its own: that of the nearest rollout stands beside it, at the temperature and \
                 on the problems of training"
                    .into(),
            );
            let points: Vec<Point> = accuracies
                .iter()
                .filter_map(|(step, accuracy)| {
                    Some(Point { step, entropy: nearest(entropies, step)?, accuracy })
                })
                .collect();
            match accuracies.steps.len() - points.len() {
                0 => {}
                1 => notes
                    .push(format!("1 evaluation is left out: no rollout is within {FARTHEST} steps of it")),
                n => notes.push(format!(
                    "{n} evaluations are left out: no rollout is within {FARTHEST} steps of them"
                )),
            }
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
