//! What must be said of numbers from few runs, and what must not be compared.

use super::{Group, Mean, Paired, Row, Run, Taken};
use std::collections::BTreeSet;

/// Takes away comparisons of best values that were chosen from unequally many, of which more have a higher best by chance alone;
/// a note for each group.
pub(super) fn unequal_bests(
    runs: &[Run<'_>],
    counted: &[Vec<usize>],
    groups: &[Group],
    rows: &mut [Row],
) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for row in rows {
        let of_group = |group: &Vec<usize>| -> BTreeSet<usize> {
            group.iter().filter_map(|i| row.measure.chosen_from(runs[*i].log?)).collect()
        };
        let counts: Vec<BTreeSet<usize>> = counted.iter().map(of_group).collect();
        let Some(first) = counts.first().filter(|first| !first.is_empty()) else { continue };
        for (i, against) in row.against_first.iter_mut().enumerate().filter(|(_, against)| against.is_some())
        {
            if first.len() == 1 && counts[i] == *first {
                continue;
            }
            *against = None;
            let times = |counts: &BTreeSet<usize>| {
                counts.iter().map(usize::to_string).collect::<Vec<_>>().join(" or ")
            };
            let note = format!(
                "The best values of {} and {} are not compared: they are the largest of {} and of {} evaluations, and more \
                 evaluations have a higher best by chance alone.",
                groups[i].name,
                groups[0].name,
                times(&counts[i]),
                times(first)
            );
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

/// Cuts off the intervals of shares at what a share can be; a note where that has changed one.
pub(super) fn cut_off_shares(rows: &mut [Row]) -> Option<String> {
    let mut changed = false;
    for row in rows.iter_mut().filter(|row| row.measure.is_share()) {
        row.means.iter_mut().flatten().for_each(|mean| changed |= mean.cut_off([0.0, 1.0]));
        let differences = row.against_first.iter_mut().flatten().map(|against| &mut against.difference);
        differences.for_each(|difference| changed |= difference.cut_off([-1.0, 1.0]));
    }
    changed.then(|| {
        "Intervals of shares are cut off at 0 and 100 %, of their differences at -100 and 100 %: by Student's t they would be \
         wider."
            .into()
    })
}

/// What must be said of intervals and p-values from so few runs.
pub(super) fn caveats(groups: &[Group], rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    for Group { name, .. } in groups.iter().filter(|group| group.runs.len() == 1) {
        notes.push(format!(
            "{name} has one seed: there is no interval, and nothing tells its difference from chance."
        ));
    }
    if groups.iter().any(|group| !group.unfinished.is_empty()) {
        notes.push(
            "Means are over the runs that have finished. Of a method some of whose runs fail, these are the ones that did well."
                .into(),
        );
    }
    if rows.iter().any(|row| row.measure.taken == Taken::Best) {
        notes.push(
            "A best value is the largest of several noisy ones, that before the first step among them, and so above what its \
             checkpoint would get on other problems."
                .into(),
        );
    }
    let all = rows.iter().flat_map(|row| &row.against_first).flatten();
    let tests: Vec<&Paired> = all.filter(|test| test.difference.runs.len() > 1).collect();
    let has_equal = |means: &[Option<Mean>]| means.iter().flatten().any(Mean::has_no_spread);
    if rows.iter().any(|row| has_equal(&row.means))
        || tests.iter().any(|test| test.difference.has_no_spread())
    {
        notes.push(
            "No spread: all seeds have the same number, as happens where few problems are counted. How much others would differ \
             cannot be told, so there is neither an interval nor a t test."
                .into(),
        );
    }
    if let Some(least) = tests.iter().map(|test| test.p_exact_least).reduce(f64::max) {
        let pairs = 1.0 - libm::log2(least);
        notes.push(format!(
            "p: two-sided paired t test over the seeds that both have, which takes differences for normally distributed; exact: \
             sign-flip permutation test, which does not. With {pairs:.0} seeds the exact p-value is never below {least:.3}{}.",
            if least > 0.05 { ", so it cannot tell anything at the level of 0.05 (6 seeds can)" } else { "" }
        ));
    }
    if tests.len() >= 10 {
        notes.push(format!(
            "{} differences are tested: about {} would have p below 0.05 by chance alone.",
            tests.len(),
            (tests.len() as f64 / 20.0).round()
        ));
    }
    notes
}
