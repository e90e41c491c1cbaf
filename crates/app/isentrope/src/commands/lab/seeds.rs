//! `isentrope lab seeds`: statistics over seeds of a table that was kept of a sweep.

use crate::standard_output::print;
use anyhow::{Result, bail};
use clap::Args;
use isentrope_lab::seeds::{
    GroupCurves, Pooled, RunTable, StepsToLevel, Summary, levels, markdown, pooled,
};
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
  isentrope lab seeds docs/paper/results/countdown-methods.csv.gz --group no-clipping --group clip-cov
  isentrope lab seeds docs/paper/results/countdown-methods.csv.gz --level 30    # steps to 30 % mean@8
  isentrope lab seeds docs/paper/results/countdown-entropy-methods.csv.gz --pooled")]
pub struct Seeds {
    /// The table, .csv or .csv.gz
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// Only these groups, in this order (repeatable); the first is what the others are compared
    /// with
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    /// Says after how many steps runs reach this accuracy, in percent, too
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    level: Option<u8>,
    /// Compares groups with one error for all of them, too, which says more of few seeds
    #[arg(long)]
    pooled: bool,
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
    /// With --level.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps_to_level: Vec<StepsToLevel>,
    /// With --pooled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pooled: Vec<Pooled>,
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
        let level = self.level.map(|percent| f64::from(percent) / 100.0);
        let reached = level.map(|level| runs.steps_to(level, &summary.groups));
        let differences = if self.pooled { summary.pooled() } else { Vec::new() };
        if self.json {
            let curves = runs.curves(&summary.groups);
            let steps_to_level = reached.unwrap_or_default();
            let everything =
                Everything { summary: &summary, curves, steps_to_level, pooled: differences };
            return print(&(serde_json::to_string(&everything)? + "\n"));
        }
        let of_level = |(level, reached): (f64, Vec<_>)| format!("\n{}", levels(level, &reached));
        let mut said = markdown(&summary) + &level.zip(reached).map(of_level).unwrap_or_default();
        if self.pooled {
            said += &format!("\n{}", pooled(&differences));
        }
        print(&said)
    }
}
