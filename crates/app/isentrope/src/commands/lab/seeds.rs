//! `isentrope lab seeds`: statistics over seeds of a table that was kept of a sweep.

use crate::standard_output::print;
use anyhow::{Result, bail};
use clap::Args;
use isentrope_lab::seeds::{GroupCurves, RunTable, Summary, markdown};
use serde::Serialize;
use std::path::PathBuf;

/// Compute means over seeds with intervals and tests, from a sweep's stored table
///
/// A sweep writes the same tables of its runs to table.md and table.json. This command makes them
/// of a table of `experiments/figures.py --keep`, such as those in docs/paper/results: ends, changes
/// since the first evaluation, the law. Every group is compared with the first.
#[derive(Args)]
#[command(after_help = "Examples:
  isentrope lab seeds docs/paper/results/countdown-methods.csv.gz
  isentrope lab seeds docs/paper/results/countdown-methods.csv.gz --group no-clipping --group clip-cov")]
pub struct Seeds {
    /// The table, .csv or .csv.gz
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// Only these groups, in this order (repeatable); the first is what the others are compared
    /// with
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    /// Prints one JSON object, with curves of all metrics, instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Everything<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    /// In the order of the groups.
    curves: Vec<GroupCurves>,
}

impl Seeds {
    pub fn run(&self) -> Result<()> {
        if self.table.is_dir() {
            bail!(
                "{}: is a directory, and this reads a table (.csv, .csv.gz); a sweep's directory \
                 has its statistics in table.md and table.json, and `isentrope show` shows runs",
                self.table.display()
            );
        }
        let runs = RunTable::read(&self.table, &self.group)?;
        let summary = runs.summary();
        if self.json {
            let curves = runs.curves(&summary.groups);
            return print(
                &(serde_json::to_string(&Everything { summary: &summary, curves })? + "\n"),
            );
        }
        print(&markdown(&summary))
    }
}
