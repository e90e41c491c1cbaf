//! Tables of one run's numbers by step, such as W&B's history: a column with the step, and one for
//! each metric.

use super::csv_rows::{self, is_missing, short};
use super::json_lines::STEPS;
use super::points::Points;
use crate::Result;
use csv::StringRecord;
use std::path::Path;

/// A table while it is read.
struct Table {
    heads: StringRecord,
    /// The column with the step.
    step: usize,
    /// `[columns]`: whether a column began with text; none before its first cell.
    is_text: Vec<Option<bool>>,
}

/// Reads a table. Returns a note if columns are left out because they begin with text.
///
/// # Errors
/// When it cannot be read, or has no column of steps; malformed rows are named by file and line.
pub(super) fn read(path: &Path, points: &mut Points) -> Result<Option<String>> {
    let table = csv_rows::read(path, Table::of, |table, row| table.take(row, points))?;
    let texts: Vec<String> = table
        .heads
        .iter()
        .zip(&table.is_text)
        .filter(|(_, is_text)| **is_text == Some(true))
        .map(|(head, _)| short(head))
        .collect();
    Ok((!texts.is_empty()).then(|| {
        let named = texts[..texts.len().min(5)].join(", ");
        let path = path.display();
        format!(
            "{path}: columns that begin with text are left out: {}, such as {named}",
            texts.len()
        )
    }))
}

impl Table {
    fn of(heads: &StringRecord) -> Result<Self, String> {
        // W&B's own count of calls to `log` is the step only if the trainer has no other.
        let place = |name: &str| heads.iter().position(|head| head.eq_ignore_ascii_case(name));
        let step = ["train/global_step"].into_iter().chain(STEPS).find_map(place);
        let step = step.ok_or("no column of steps, such as step or _step")?;
        Ok(Self { heads: heads.clone(), step, is_text: vec![None; heads.len()] })
    }

    fn take(&mut self, row: &StringRecord, points: &mut Points) -> Result<(), String> {
        let step = row.get(self.step).unwrap_or_default();
        if is_missing(step) {
            return Ok(()); // a row of another axis
        }
        let step = csv_rows::step(step)?;
        for (place, (cell, head)) in row.iter().zip(&self.heads).enumerate() {
            // "_runtime", "_timestamp" and the like are W&B's; an empty head is the index of a
            // table of pandas.
            let is_metric = place != self.step && !head.is_empty() && !head.starts_with('_');
            if !is_metric || is_missing(cell) {
                continue;
            }
            let number = csv_rows::number(head, cell); // infinities too, as Python writes them
            if *self.is_text[place].get_or_insert(number.is_err()) {
                continue; // histograms, texts, tables
            }
            points.add(head, step, number?)?;
        }
        Ok(())
    }
}
