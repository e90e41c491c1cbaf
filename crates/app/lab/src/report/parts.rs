//! Parts of evaluation sets, such as the problems of each source: for each set with parts, a chart
//! of accuracy, one of entropy, and a sentence for each run.

use super::MAX_SETS;
use super::charts::Unit;
use super::frame::{Frame, Metric};
use super::overview::from_to;
use super::run::PageRun;
use super::text::{seen, short_name};
use crate::law::points::SetPoints;
use crate::log::SetMetric;
use std::collections::{BTreeMap, BTreeSet};

/// Most parts that a sentence has.
const MAX_NAMED: usize = 12;

/// A part of a set.
struct Part<'a> {
    /// The metric that is its accuracy.
    accuracy: &'a str,
    /// The metric that is its entropy.
    entropy: Option<&'a str>,
    /// Its name within the set.
    name: &'a str,
}

/// All metrics of parts.
pub(super) fn metrics(runs: &[PageRun]) -> BTreeSet<&str> {
    let mut all = BTreeSet::new();
    for run in runs {
        let parts = run.data.log.parts();
        let of_part =
            |name: &&str| SetMetric::of(name).is_some_and(|metric| parts.contains_key(metric.set));
        all.extend(run.data.log.all().map(|(name, _)| name).filter(of_part));
    }
    all
}

/// The charts of the first sets that have parts.
pub(super) fn frames(runs: &[PageRun]) -> Vec<Frame<'_>> {
    let mut sets: BTreeMap<&str, BTreeMap<&str, Part<'_>>> = BTreeMap::new();
    for measured in runs.iter().flat_map(|run| &run.data.parts) {
        let SetPoints { set, part_of: Some(whole), accuracy, entropy, .. } = measured else {
            continue;
        };
        // An entropy that is not the evaluations' own belongs to rollouts, which have no parts.
        let is_own = SetMetric::of(entropy).is_some_and(|metric| metric.set == set);
        let name = set.get(whole.len() + 1..).unwrap_or(set);
        let entropy = is_own.then_some(entropy.as_str());
        sets.entry(whole).or_default().entry(name).or_insert(Part { accuracy, entropy, name });
    }
    let mut frames = Vec::new();
    for (number, (set, parts)) in sets.into_iter().take(MAX_SETS).enumerate() {
        let frame = |what: &str, unit, reading, metrics| Frame {
            id: format!("parts-{number}-{}", what.to_lowercase()),
            title: format!("{what} on {} by part", seen(set)),
            unit,
            reading,
            together: true,
            metrics,
        };
        let accuracy =
            parts.values().map(|part| Metric::of(runs, part.accuracy, part.name.to_owned()));
        let has_shares = |part: &Part<'_>| runs.iter().all(|run| run.has_shares(part.accuracy));
        let unit = if parts.values().all(has_shares) { Unit::Share } else { Unit::Named("score") };
        frames.push(frame("Accuracy", unit, ACCURACY, accuracy.collect()));
        let entropy = parts.values().filter_map(|part| Some((part.entropy?, part.name)));
        let entropy = entropy.map(|(metric, name)| Metric::of(runs, metric, name.to_owned()));
        frames.push(frame("Entropy", Unit::Named("nats"), ENTROPY, entropy.collect()));
    }
    frames
}

const ACCURACY: &str = "Problems of one source or size each. A step in one of them is something \
                        newly learnt, which the curve of the whole set shows as a gentle rise.";
const ENTROPY: &str = "Where entropy is gone and accuracy is not there, that kind of problem is \
                       given the same wrong answers.";

/// The course of the parts of a set, as HTML.
pub(super) fn sentence(run: &PageRun, set: &str) -> Option<String> {
    let words = |part: &&SetPoints| {
        let name = short_name(part.set.get(set.len() + 1..)?);
        let [first, last] =
            [part.points.first()?, part.points.last()?].map(|point| (point.step, point.accuracy));
        let shown = run.scale(&part.accuracy).value;
        Some(format!("<bdi>{name}</bdi> {}", from_to(first, last, shown)))
    };
    let parts: Vec<&SetPoints> =
        run.data.parts.iter().filter(|part| part.part_of.as_deref() == Some(set)).collect();
    let said: Vec<String> = parts.iter().filter_map(words).take(MAX_NAMED).collect();
    let more = match parts.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!said.is_empty())
        .then(|| format!("By part of <bdi>{}</bdi>: {}{more}.", short_name(set), said.join(", ")))
}
