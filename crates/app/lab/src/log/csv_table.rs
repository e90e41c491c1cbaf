//! Tables of numbers by step: W&B's export of a chart, the history of one run, or a table that
//! names its runs.
//!
//! A chart's columns are `"Step","RUN - METRIC","RUN - METRIC__MIN","RUN - METRIC__MAX"` for each
//! run; a history's are the step and the metrics.

use super::csv_rows::{self, is_missing, short};
use super::json_lines::STEPS;
use super::lines;
use super::points::Points;
use crate::Result;
use csv::StringRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Most columns.
const MAX_COLUMNS: usize = 100_000;
/// Most runs, and the longest name of one, in bytes.
const MAX_RUNS: usize = 1000;
const MAX_NAME: usize = 1000;
/// The text between run and metric in a chart's columns.
const BETWEEN: &str = " - ";
/// Names of the column with the run's name, in a table of several runs.
const RUNS: [&str; 4] = ["run", "run_name", "run_id", "name"];
/// W&B's endings of a metric's name for the least and greatest value among grouped runs, and for
/// steps.
const EXTREMES: [&str; 3] = ["__MIN", "__MAX", "__STEP"];

/// The content of a column.
enum Column {
    Step,
    Run,
    /// A metric of the run of this name, or of the row's.
    Metric {
        run: Option<String>,
        name: String,
        is_text: Option<bool>,
    },
    Nothing,
}

/// Reads a table into the runs that it names; the run that it does not name is called "". Returns a
/// note if columns are left out.
///
/// # Errors
/// When it cannot be read, or has no column of steps; malformed rows are named by file and line.
pub(super) fn read(path: &Path, runs: &mut BTreeMap<String, Points>) -> Result<Option<String>> {
    let heads = |headers: &StringRecord| Ok((headers.clone(), columns(headers)?));
    let (headers, columns) = csv_rows::read(path, heads, |(headers, columns), row, _| {
        take(row, headers, columns, runs)
    })?;
    let is_text = |column: &Column| matches!(column, Column::Metric { is_text: Some(true), .. });
    let texts: Vec<&str> = headers
        .iter()
        .zip(&columns)
        .filter(|(_, column)| is_text(column))
        .map(|(head, _)| head)
        .collect();
    let [first, ..] = texts[..] else { return Ok(None) };
    let what = match texts.len() {
        1 => format!("column \"{}\" begins with text, and is", short(first)),
        count => {
            let named: Vec<String> = texts.iter().take(5).map(|head| short(head)).collect();
            format!("{count} columns begin with text, such as {}, and are", named.join(", "))
        }
    };
    Ok(Some(format!("{}: {what} left out", path.display())))
}

/// The content of each column, by its head.
fn columns(headers: &StringRecord) -> Result<Vec<Column>, String> {
    if headers.len() > MAX_COLUMNS {
        return Err(format!("more than {MAX_COLUMNS} columns"));
    }
    // W&B's own count of calls to `log` is the step only where the trainer has said no other.
    let is_step = |name: &str| headers.iter().position(|head| head.eq_ignore_ascii_case(name));
    let step =
        ["train/global_step"].into_iter().chain(STEPS).find_map(is_step).ok_or_else(|| {
            "no column of steps, such as Step or _step; in W&B, choose Step as the x-axis of the \
         chart before you export it"
                .to_owned()
        })?;
    let run = RUNS.into_iter().find_map(is_step);
    let known: BTreeSet<&str> = headers.iter().collect();
    let column = |(place, head): (usize, &str)| {
        if place == step {
            return Column::Step;
        }
        if Some(place) == run {
            return Column::Run;
        }
        let is_extreme =
            EXTREMES.iter().filter_map(|end| head.strip_suffix(end)).any(|of| known.contains(of));
        let (run, name) = match head.rsplit_once(BETWEEN) {
            Some((run, name)) => (Some(run.to_owned()), name),
            None => (None, head),
        };
        // "_runtime", "_timestamp" and the like are W&B's; an empty head is the index of a table of
        // pandas.
        if is_extreme || name.is_empty() || name.starts_with('_') {
            return Column::Nothing;
        }
        Column::Metric { run, name: name.to_owned(), is_text: None }
    };
    Ok(headers.iter().enumerate().map(column).collect())
}

/// Takes in a row's numbers.
fn take(
    row: &StringRecord,
    headers: &StringRecord,
    columns: &mut [Column],
    runs: &mut BTreeMap<String, Points>,
) -> Result<(), String> {
    let (mut step, mut of_row) = (None, "");
    for ((column, cell), head) in columns.iter().zip(row).zip(headers) {
        match column {
            Column::Step if is_missing(cell) => return Ok(()), // a row of another axis
            Column::Step => {
                let number = cell.parse().ok().and_then(lines::whole_f64);
                let what = || {
                    format!(
                        "the step in column \"{}\" must be a whole number from 0, not \"{}\"",
                        short(head),
                        short(cell)
                    )
                };
                step = Some(number.ok_or_else(what)?);
            }
            Column::Run => of_row = cell,
            Column::Metric { .. } | Column::Nothing => {}
        }
    }
    let Some(step) = step else { return Ok(()) };
    for ((column, cell), head) in columns.iter_mut().zip(row).zip(headers) {
        let Column::Metric { run, name, is_text } = column else { continue };
        if is_missing(cell) {
            continue;
        }
        let number = cell.parse::<f64>(); // infinities too, as Python and JavaScript write them
        if *is_text.get_or_insert(number.is_err()) {
            continue; // histograms, texts, tables
        }
        let Ok(number) = number else {
            return Err(format!(
                "column \"{}\" must have a number, not \"{}\"",
                short(head),
                short(cell)
            ));
        };
        let run = run.as_deref().unwrap_or(of_row);
        if !runs.contains_key(run) {
            if run.len() > MAX_NAME {
                return Err(format!("a run with a name of more than {MAX_NAME} bytes"));
            }
            if runs.len() == MAX_RUNS {
                return Err(format!("more than {MAX_RUNS} runs"));
            }
            runs.insert(run.to_owned(), Points::of_table());
        }
        if let Some(points) = runs.get_mut(run) {
            points.add(name, step, number)?;
        }
    }
    Ok(())
}
