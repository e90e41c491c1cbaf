//! Parts of evaluation sets, such as the problems of each source: where each began, where it was
//! when the whole set was best, and where it ended.

use super::evaluations::{cell, fitting};
use super::text::Look;
use crate::run::{Run, SetName};

/// Most parts of a set that have a row.
const MOST: usize = 24;

/// A table for each run and set that has parts.
pub(super) fn lines(runs: &[Run], look: &Look) -> Vec<String> {
    let mut blocks = Vec::new();
    for run in runs {
        let parts = SetName::parts(&run.log);
        for set in &run.set_names {
            if let Some(parts) = parts.get(set.name.as_str()) {
                let whose = if runs.len() > 1 { format!("{}, ", run.name) } else { String::new() };
                let mut lines = look
                    .heading(&format!("parts of {whose}{}: {}, entropy", set.name, set.accuracy));
                lines.extend(table(run, set, parts, look));
                blocks.push(lines);
            }
        }
    }
    look.beside(&blocks)
}

fn table(run: &Run, set: &SetName, parts: &[SetName], look: &Look) -> Vec<String> {
    let moments = moments(run, set);
    let mut names = vec!["part".to_owned()];
    for (name, _) in &moments {
        names.extend([name.clone(), "H".to_owned()]);
    }
    let row = |of: &SetName, name: String| {
        let value = |what: &str, step: u64| {
            let value = of.series(&run.log, what).and_then(|series| series.at(step));
            value.map_or_else(|| "-".to_owned(), |value| cell(what, value))
        };
        let cells = moments
            .iter()
            .flat_map(|(_, step)| [value(&of.accuracy, *step), value("entropy", *step)]);
        std::iter::once(name).chain(cells).collect::<Vec<String>>()
    };
    let name =
        |part: &SetName| look.clean(part.name.get(set.name.len() + 1..).unwrap_or(&part.name));
    let mut rows: Vec<Vec<String>> =
        parts.iter().take(MOST).map(|part| row(part, name(part))).collect();
    if parts.len() > MOST {
        rows.push(vec![format!("{} more", parts.len() - MOST)]);
    }
    rows.push(row(set, "all".to_owned()));
    fitting(look, &names, &rows)
}

/// The first evaluation of a set, its best and its last, each once, with its step.
fn moments(run: &Run, set: &SetName) -> Vec<(String, u64)> {
    let Some(series) = set.series(&run.log, &set.accuracy) else { return Vec::new() };
    let (Some(first), Some((best, _)), Some(last)) =
        (series.steps.first(), series.largest(), series.steps.last())
    else {
        return Vec::new();
    };
    let mut moments = vec![("step", *first), ("best, step", best), ("step", *last)];
    // Where the best is the first or the last, that one is called so.
    if best == *first || best == *last {
        moments.remove(if best == *first { 0 } else { 2 });
    }
    moments.dedup_by_key(|(_, step)| *step);
    moments.into_iter().map(|(name, step)| (format!("{name} {step}"), step)).collect()
}
