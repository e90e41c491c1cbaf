//! Evaluations as tables, one per run and set.

use crate::number::{fixed, number, percent};
use crate::run::{Run, SetName};
use crate::terminal::{Look, shown_width, table};

/// The tables of all runs side by side, each with at most `rows` rows: the first evaluation, then
/// the last ones.
pub(super) fn lines(runs: &[Run], rows: usize, look: &Look) -> Vec<String> {
    let tables = runs.iter().flat_map(|run| run.set_names.iter().map(move |set| (run, set)));
    let blocks: Vec<Vec<String>> = tables
        .map(|(run, set)| {
            let whose = if runs.len() > 1 { format!("{}, ", run.name) } else { String::new() };
            let mut lines = look.heading(&format!("evaluations {whose}{}", set.name));
            lines.extend(of_set(run, set, rows, look));
            lines
        })
        .collect();
    look.beside(&blocks)
}

fn of_set(run: &Run, set: &SetName, most: usize, look: &Look) -> Vec<String> {
    let columns = columns(run, set);
    let mut steps: Vec<u64> =
        set.series(&run.log, &set.accuracy).map_or(Vec::new(), |s| s.steps.clone());
    // The mark of skipped rows takes a row too.
    let skipped =
        if steps.len() > most { (steps.len() + 1).saturating_sub(most.max(3)) } else { 0 };
    if skipped > 0 {
        steps.drain(1..=skipped);
    }
    let mut rows: Vec<Vec<String>> = steps
        .iter()
        .map(|step| {
            let cells = columns.iter().map(|column| {
                let value = set.series(&run.log, column).and_then(|series| series.at(*step));
                value.map_or_else(|| "-".into(), |value| cell(column, value))
            });
            std::iter::once(step.to_string()).chain(cells).collect()
        })
        .collect();
    if skipped > 0 {
        rows.insert(1, vec!["⋮".to_owned()]);
    }
    let names: Vec<String> = std::iter::once("step")
        .chain(columns.iter().map(|c| heading(c)))
        .map(|name| look.clean(name))
        .collect();
    fitting(look, &names, &rows)
}

/// The table with as many columns, from the left, as fit.
fn fitting(look: &Look, names: &[String], rows: &[Vec<String>]) -> Vec<String> {
    for count in (2..=names.len()).rev() {
        let cut: Vec<Vec<String>> =
            rows.iter().map(|row| row[..count.min(row.len())].to_vec()).collect();
        let lines = table(look, &names[..count], &cut);
        if count == 2 || lines.iter().all(|line| shown_width(line) <= look.width) {
            return lines;
        }
    }
    table(look, names, rows)
}

/// The columns of a set's table: accuracy, entropy, length, then others that are not always 0.
fn columns(run: &Run, set: &SetName) -> Vec<String> {
    let measured: Vec<&str> = set.measured(&run.log).collect();
    let samples = set.samples().unwrap_or(1);
    let mut columns = vec![set.accuracy.clone()];
    let is_told = |what: &str| match what {
        "pass" | "maj" => samples > 1,
        // Shares that are always 0 say nothing.
        _ => set
            .series(&run.log, what)
            .is_some_and(|series| series.values.iter().any(|value| *value > 0.0)),
    };
    columns.extend(["entropy", "length_mean"].map(str::to_owned));
    columns.extend(
        ["pass", "maj"].into_iter().filter(|w| is_told(w)).map(|what| format!("{what}@{samples}")),
    );
    let shares = ["truncated", "faults", "failed"].into_iter();
    columns.extend(shares.filter(|what| is_told(what)).map(str::to_owned));
    columns.retain(|column| measured.contains(&column.as_str()));
    columns
}

fn heading(column: &str) -> &str {
    match column {
        "length_mean" => "length",
        "truncated" => "cut off",
        "faults" => "not judged",
        column => column,
    }
}

fn cell(column: &str, value: f64) -> String {
    match column {
        "entropy" => fixed(value, 4),
        "length_mean" => fixed(value, 1),
        "score" => number(value),
        _ if (0.0..=1.0).contains(&value) => percent(value),
        _ => number(value),
    }
}
