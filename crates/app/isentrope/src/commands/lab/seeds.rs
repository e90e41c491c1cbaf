//! `isentrope lab seeds`: statistics over seeds of a table that was kept of a sweep.

use crate::standard_output::{print, print_text};
use anyhow::{Result, anyhow};
use clap::Args;
use isentrope_lab::seeds::{GroupCurves, KeptRuns, Summary, markdown};
use serde::Serialize;
use std::path::PathBuf;

/// Means over seeds with intervals and tests, of a table that was kept of a sweep
///
/// A sweep writes the same tables of its runs to table.md and table.json. This command makes them
/// of a table of `experiments/figures.py --keep`, such as those in docs/paper/results: ends, changes
/// since the first evaluation, how early entropy and gain were spent, the law, predictions of the
/// end. Every group is compared with the first.
#[derive(Args)]
#[command(after_help = "Examples:
  isentrope lab seeds docs/paper/results/countdown-methods.csv.gz
  isentrope lab seeds docs/paper/results/countdown-methods.csv.gz --group no-clipping --group clip-cov
  isentrope lab seeds docs/paper/results/countdown-autopilot.csv.gz --target 0.25")]
pub struct Seeds {
    /// The table, .csv or .csv.gz
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// Only these groups, in this order (repeatable); the first is what the others are compared
    /// with
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    /// Entropy, in nats, that runs were to hold: adds how near they were, and accuracies where
    /// others come down to it
    #[arg(long, value_name = "NATS", value_parser = nats)]
    target: Option<f64>,
    /// Prints one JSON object, with curves of all metrics, instead of tables
    #[arg(long)]
    json: bool,
}

fn nats(text: &str) -> Result<f64> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| anyhow!("must be nats above 0, such as 0.25"))
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
        let runs = KeptRuns::read(&self.table, &self.group, self.target)?;
        let summary = runs.summary();
        if self.json {
            let curves = runs.curves(&summary.groups);
            return print(
                &(serde_json::to_string(&Everything { summary: &summary, curves })? + "\n"),
            );
        }
        print_text(&markdown(&summary))
    }
}
