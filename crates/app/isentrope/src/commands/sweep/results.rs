//! The results of a sweep: a table over seeds, and the report of all runs.

use super::runs::PlannedRun;
use crate::commands::report;
use anyhow::{Context, Result};
use isentrope_files::{make_directory, remove, write_file, write_json};
use isentrope_lab::report::RunPlan;
use isentrope_lab::run::Run;
use isentrope_lab::run_files::{METRICS, RunFiles};
use isentrope_lab::seeds::{self, Control, Summary};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The summary over seeds, and the runs that have results. It counts failed runs: the mean of the
/// others alone would favour a method whose runs fail.
///
/// # Errors
/// When what a run has written cannot be read.
pub fn summary(runs: &[PlannedRun]) -> Result<(Summary, Vec<ReportRun>)> {
    let all: Vec<&PlannedRun> = runs.iter().collect();
    let first = all.first().map_or("", |run| &run.group);
    let mut logs: Vec<Option<Run>> = Vec::new();
    for run in &all {
        // Before the first metric the file is empty.
        let has_metrics =
            std::fs::metadata(run.dir().join(METRICS)).is_ok_and(|file| file.len() > 0);
        logs.push(if has_metrics { Some(Run::open(run.dir())?) } else { None });
    }
    let recipes: Vec<Value> = all.iter().map(|run| recipe(run)).collect::<Result<_>>()?;
    let entries: Vec<seeds::Entry<'_>> = all
        .iter()
        .zip(&logs)
        .zip(&recipes)
        .map(|((run, log), recipe)| seeds::Entry {
            name: run.name.clone(),
            group: Some(run.group.clone()),
            run: log.as_ref(),
            recipe: Some(recipe),
            control: control(run, first, &all),
        })
        .collect();
    let summary = Summary::of(&entries);
    let with_results = all.iter().zip(&logs).zip(recipes).filter(|((_, log), _)| log.is_some());
    let (shown, recipes): (Vec<&PlannedRun>, Vec<Value>) =
        with_results.map(|((run, _), recipe)| (*run, recipe)).unzip();
    let planned = shown.iter().zip(recipes).map(|(run, recipe)| ReportRun {
        dir: run.dir().to_owned(),
        planned: RunPlan { group: run.group.clone(), control: control(run, first, &shown), recipe },
    });
    Ok((summary, planned.collect()))
}

/// The recipe of a run; the run's own date if the recipe names none.
fn recipe(run: &PlannedRun) -> Result<Value> {
    let mut recipe = run.recipe().clone();
    let begun =
        RunFiles::new(run.dir()).recipe().with_context(|| run.dir().display().to_string())?;
    let day = begun.as_ref().and_then(|begun| begun.pointer("/data/date"));
    if let (Some(planned), Some(day)) = (recipe.pointer_mut("/data/date"), day)
        && planned.is_null()
    {
        *planned = day.clone();
    }
    Ok(recipe)
}

/// A run that the report shows.
pub struct ReportRun {
    dir: PathBuf,
    /// The run's group, its control run (as an index into the shown runs) and its recipe.
    planned: RunPlan,
}

/// The control of a run's group, as an index into these runs: the file's choice, else the sweep's
/// first group.
fn control(run: &PlannedRun, first: &str, among: &[&PlannedRun]) -> Control {
    let group = run.control.as_deref().unwrap_or(first);
    match among.iter().position(|other| other.group == group) {
        Some(number) => Control::GroupOf(number),
        None => Control::Absent(group.to_owned()),
    }
}

/// The file of a sweep's final table.
pub fn table_file(out: &Path) -> PathBuf {
    out.join("table.json")
}

/// Writes table.json and table.md.
///
/// # Errors
/// The operating system's error.
pub fn write_tables(out: &Path, title: &str, summary: &Summary) -> Result<()> {
    make_directory(out)?;
    write_json(&table_file(out), summary)?;
    let text = format!("# {title}\n\n{}", seeds::markdown(summary));
    Ok(write_file(&out.join("table.md"), text.as_bytes())?)
}

/// Writes the report of all runs. A failure leaves no older report behind.
///
/// # Errors
/// When a run cannot be read or the page cannot be written.
pub fn write_report(out: &Path, shown: Vec<ReportRun>) -> Result<PathBuf> {
    let path = out.join("report.html");
    remove(&path)?;
    let dirs: Vec<PathBuf> = shown.iter().map(|run| run.dir.clone()).collect();
    let planned = shown.into_iter().map(|run| run.planned).collect();
    let page = || report::write(&report::open(&dirs)?.with_groups(planned), &path);
    page().with_context(|| path.display().to_string())?;
    Ok(path)
}
