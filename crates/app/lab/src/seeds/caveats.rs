//! Caveats on numbers from few runs.

use super::measure::metric_title;
use super::{Against, Group, Mean, Measure, Paired, Row, Seeded};
use std::collections::HashSet;

/// Most metrics that a note names.
const NAMED: usize = 6;

/// Notes on runs without an end value of a metric that their group has, one for all runs that lack
/// the same. An older value is not used in its place.
pub(super) fn without_end(
    named: &[Group],
    groups: &[Vec<Seeded<'_>>],
    all: &[Measure],
) -> Vec<String> {
    let mut lacking: Vec<(u64, Vec<String>, Vec<String>)> = Vec::new();
    for (named, group) in named.iter().zip(groups) {
        for (name, end, titles) in runs_without_end(named, group, all) {
            match lacking.iter_mut().find(|(at, of, _)| *at == end && *of == titles) {
                Some((.., names)) => names.push(name),
                None => lacking.push((end, titles, vec![name])),
            }
        }
    }
    let note = |(end, titles, names): (u64, Vec<String>, Vec<String>)| {
        let (has, its, is) = match names.len() {
            1 => ("has", "its", "is"),
            _ => ("have", "their", "are"),
        };
        format!(
            "{} {has} no {} at {its} end, step {end}, and {is} left out there: nothing of it could \
             be judged, or the run was ended at a step without an evaluation. An older value does \
             not stand for it.",
            listed(&names),
            listed(&titles)
        )
    };
    lacking.into_iter().map(note).collect()
}

/// The first of these, and how many more there are.
fn listed(names: &[String]) -> String {
    let first = names[..names.len().min(NAMED)].join(", ");
    match names.len().checked_sub(NAMED) {
        None | Some(0) => first,
        Some(others) => format!("{first} and {others} more"),
    }
}

/// The runs of a group that lack an end value of a metric that the group has: name, last step, and
/// the metrics' titles.
fn runs_without_end(
    named: &Group,
    group: &[Seeded<'_>],
    all: &[Measure],
) -> Vec<(String, u64, Vec<String>)> {
    let mut known = HashSet::new();
    let is_of_group = |metric: &str| group.iter().any(|(_, run)| run.has(metric));
    let at_end: Vec<&Measure> = all
        .iter()
        .filter(|measure| measure.taken == "end" && known.insert(&measure.metric))
        .filter(|measure| is_of_group(&measure.metric))
        .collect();
    let note = |(name, (_, run)): (&String, &Seeded<'_>)| {
        let end = run.end?;
        let missing = at_end.iter().filter(|measure| run.number(measure).is_none());
        let missing: Vec<String> = missing.map(|measure| metric_title(&measure.metric)).collect();
        (!missing.is_empty()).then(|| (name.clone(), end, missing))
    };
    named.runs.iter().zip(group).filter_map(note).collect()
}

/// Clamps intervals to possible values. Returns a note if that changed one.
pub(super) fn cut_off(rows: &mut [Row]) -> Option<String> {
    let mut changed = false;
    for row in rows {
        let [least, most] = row.measure.unit.range.ends();
        row.means.iter_mut().flatten().for_each(|mean| changed |= mean.cut_off([least, most]));
        let differences =
            row.against.iter_mut().flatten().map(|against| &mut against.test.difference);
        differences
            .for_each(|difference| changed |= difference.cut_off([least - most, most - least]));
    }
    changed.then(|| {
        "Intervals are cut off at what a number can be, such as shares at 0 and 100 %, their \
         differences at -100 and 100 %, entropies and errors at 0: by Student's t they would be \
         wider."
            .into()
    })
}

/// Caveats on intervals and p-values from so few runs.
pub(super) fn caveats(groups: &[Group], rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    for Group { name, .. } in groups.iter().filter(|group| group.runs.len() == 1) {
        notes.push(format!(
            "{name} has one seed: there is no interval, and nothing tells its difference from \
             chance."
        ));
    }
    if groups.iter().any(|group| !group.unfinished.is_empty()) {
        notes.push(
            "Means are over the runs that have finished. Of a method some of whose runs fail, \
             these are the ones that did well."
                .into(),
        );
    }
    if rows.iter().any(|row| row.measure.taken == "best") {
        notes.push(
            "A best value is the largest of several noisy ones, that before the first step among \
             them, and so above what its checkpoint would get on other problems; the more so the \
             more evaluations there are. Best values are not compared."
                .into(),
        );
    }
    let all = rows.iter().flat_map(|row| &row.against).flatten();
    let tests: Vec<&Paired> = all
        .map(|Against { test, .. }| test)
        .filter(|test| test.difference.runs.len() > 1)
        .collect();
    let has_equal = |means: &[Option<Mean>]| means.iter().flatten().any(Mean::has_no_spread);
    if rows.iter().any(|row| !row.measure.is_count() && has_equal(&row.means))
        || tests.iter().any(|test| test.difference.has_no_spread())
    {
        notes.push(
            "No spread: all seeds have the same number, as happens where few problems are counted. \
             How much others would differ cannot be told, so there is neither an interval nor a t \
             test."
                .into(),
        );
    }
    notes.extend(least_exact(&tests));
    if tests.len() >= 10 {
        notes.push(format!(
            "{} differences are tested: about {} would have p below 0.05 by chance alone.",
            tests.len(),
            (tests.len() as f64 / 20.0).round()
        ));
    }
    notes
}

/// A sentence with the least exact p-value possible. Measures that only some runs have, such as the
/// law's, are tested over fewer seeds than the others: the sentence is about the most seeds that
/// are tested, and names the fewest beside them.
fn least_exact(tests: &[&Paired]) -> Option<String> {
    let exact = || tests.iter().filter(|test| test.p_exact.is_some());
    let most = exact().max_by_key(|test| test.difference.runs.len())?;
    let fewest = exact().min_by_key(|test| test.difference.runs.len())?;
    let (pairs, fewer) = (most.difference.runs.len(), fewest.difference.runs.len());
    let beside = if fewer < pairs {
        format!(" (with {fewer}, as some measures have, {:.3})", fewest.p_exact_least)
    } else {
        String::new()
    };
    let least = most.p_exact_least;
    Some(format!(
        "p: two-sided paired t test over the seeds that both have, which takes differences for \
         normally distributed; exact: sign-flip permutation test, which does not. With {pairs} \
         seeds the exact p-value is never below {least:.3}{beside}{}.",
        if least > 0.05 {
            ", so it cannot tell anything at the level of 0.05 (6 seeds can)"
        } else {
            ""
        }
    ))
}
