//! Tables that `experiments/figures.py --keep` makes of a sweep: a row for each step of each run,
//! with columns `group`, `run`, `step` and metrics.

use super::csv_rows::{self, is_missing};
use super::points::Points;
use super::{Origin, RunLog};
use crate::Result;
use csv::StringRecord;
use std::collections::BTreeMap;
use std::path::Path;

/// Most runs of a table.
const MAX_RUNS: usize = 10_000;

/// A table while it is read.
struct Table {
    heads: StringRecord,
    /// Columns of the group, the run and the step.
    keys: [usize; 3],
    /// Points by group and run, in the order of the groups' first rows.
    runs: Vec<(String, BTreeMap<String, Points>)>,
}

/// Reads a table, `.csv` or compressed as `.csv.gz`: each run with the name of its group.
///
/// # Errors
/// If it cannot be read or lacks a column; malformed rows are named by file and line.
pub fn read(path: &Path) -> Result<Vec<(String, RunLog)>> {
    let heads = |heads: &StringRecord| {
        let place = |name: &str| {
            let missing = || format!("no column {name:?}; `figures.py --keep` makes such tables");
            heads.iter().position(|head| head == name).ok_or_else(missing)
        };
        let keys = [place("group")?, place("run")?, place("step")?];
        Ok(Table { heads: heads.clone(), keys, runs: Vec::new() })
    };
    let table = csv_rows::read(path, heads, Table::take)?;
    let mut all = Vec::new();
    for (group, runs) in table.runs {
        for (name, points) in runs {
            let (series, notes) = points.finish();
            let series = series.into_iter().collect();
            let path = path.to_owned();
            let log = RunLog { name, path, origin: Origin::Isentrope, notes, series };
            all.push((group.clone(), log));
        }
    }
    Ok(all)
}

impl Table {
    fn take(&mut self, row: &StringRecord) -> Result<(), String> {
        let cell = |place: usize| row.get(place).unwrap_or_default();
        let [group, run, step] = self.keys.map(cell);
        let step = csv_rows::step(step)?;
        let place = self.runs.iter().position(|(name, _)| name == group).unwrap_or_else(|| {
            self.runs.push((group.to_owned(), BTreeMap::new()));
            self.runs.len() - 1
        });
        if self.runs.iter().map(|(_, runs)| runs.len()).sum::<usize>() > MAX_RUNS {
            return Err(format!("more than {MAX_RUNS} runs"));
        }
        let points = self.runs[place].1.entry(run.to_owned()).or_insert_with(Points::of_table);
        for (i, (text, head)) in row.iter().zip(&self.heads).enumerate() {
            if self.keys.contains(&i) || is_missing(text) {
                continue;
            }
            points.add(head, step, csv_rows::number(head, text)?)?;
        }
        Ok(())
    }
}
