//! The results of a sweep: a table over seeds, and at its end the report of all runs.

use super::progress::Progress;
use super::runs::PlannedRun;
use crate::commands::report;
use anyhow::{Context, Result};
use isentrope_files::{make_directory, names, remove, write_file, write_json};
use isentrope_lab::report::Planned;
use isentrope_lab::run::Run;
use isentrope_lab::run_files::{METRICS, RunFiles, VALUES};
use isentrope_lab::seeds::{self, Control, Summary};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The summary over seeds, and the runs that have results: all, or, while some are still made,
/// those that have `ended`, by their places. Failed runs are taken in: the mean of the others alone
/// would say too much of a method whose runs fail.
///
/// # Errors
/// When what a run has written cannot be read.
pub fn summary(
    runs: &[PlannedRun],
    ended: impl Fn(usize) -> bool,
) -> Result<(Summary, Vec<Shown>)> {
    let planned = runs.iter().enumerate().filter(|(_, run)| !run.is_model);
    let first = planned.clone().next().map_or("", |(_, run)| &run.group);
    let all: Vec<&PlannedRun> =
        planned.filter(|(place, _)| ended(*place)).map(|(_, run)| run).collect();
    let mut logs: Vec<Option<Run>> = Vec::new();
    for run in &all {
        // Before the first metric the file is empty.
        let has_metrics =
            std::fs::metadata(run.dir().join(METRICS)).is_ok_and(|file| file.len() > 0);
        logs.push(if has_metrics { Some(Run::open(run.dir())?) } else { None });
    }
    let recipes: Vec<Value> = all.iter().map(|run| recipe(run)).collect::<Result<_>>()?;
    let taken_in = all.iter().zip(&logs).zip(&recipes).map(|((run, log), recipe)| seeds::Entry {
        name: run.name.clone(),
        group: Some(run.group.clone()),
        run: log.as_ref(),
        recipe: Some(recipe),
        control: control(run, first, &all),
    });
    let taken_in: Vec<seeds::Entry<'_>> = taken_in.collect();
    let summary = Summary::of(&taken_in);
    let told = all.iter().zip(&logs).zip(recipes).filter(|((_, log), _)| log.is_some());
    let told: Vec<(&PlannedRun, Value)> = told.map(|((run, _), recipe)| (*run, recipe)).collect();
    let runs: Vec<&PlannedRun> = told.iter().map(|(run, _)| *run).collect();
    let shown = told.into_iter().map(|(run, recipe)| Shown {
        dir: run.dir().to_owned(),
        planned: Planned { group: run.group.clone(), control: control(run, first, &runs), recipe },
    });
    Ok((summary, shown.collect()))
}

/// The recipe that a run is planned with, and the day that it has taken where that names none.
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
pub struct Shown {
    dir: PathBuf,
    /// By what the table has told its group. What that is compared with is told by its place among
    /// those that are shown.
    planned: Planned,
}

/// The control of a run's group, by its place among these runs: the file's choice, else the sweep's
/// first group.
fn control(run: &PlannedRun, first: &str, among: &[&PlannedRun]) -> Control {
    let group = run.control.as_deref().unwrap_or(first);
    match among.iter().position(|other| other.group == group) {
        Some(place) => Control::GroupOf(place),
        None => Control::Absent(group.to_owned()),
    }
}

/// Writes the tables of the runs that have ended, while others are still made.
///
/// # Errors
/// When what a run has written cannot be read, or a table cannot be written.
pub fn write_tables_so_far(
    runs: &[PlannedRun],
    progress: &Progress,
    out: &Path,
    name: &str,
) -> Result<()> {
    let (summary, shown) = summary(runs, |place| progress.0[place].has_ended())?;
    let planned = runs.iter().filter(|run| !run.is_model).count();
    if shown.is_empty() {
        return Ok(());
    }
    remove_report(out)?;
    write_tables(out, &format!("{name}, {} of {planned} runs so far", shown.len()), &summary)
}

/// How many directories deep a run is looked for in a sweep's: a sweep has an axis for each.
const DEEPEST: usize = 6;

/// A run in a sweep's directory that is none of the sweep's, if there is one: of another sweep's,
/// or of values that an axis had before.
///
/// # Errors
/// When a directory cannot be read.
pub fn other_run(out: &Path, runs: &[PlannedRun]) -> Result<Option<PathBuf>> {
    let own: HashSet<&Path> = runs.iter().map(PlannedRun::dir).collect();
    let mut left = vec![(out.to_owned(), 0)];
    while let Some((dir, depth)) = left.pop() {
        if own.contains(&*dir) {
            continue;
        }
        if dir.join(VALUES).exists() {
            return Ok(Some(dir));
        }
        if depth < DEEPEST {
            let inside =
                names(&dir)?.into_iter().map(|name| dir.join(name)).filter(|path| path.is_dir());
            left.extend(inside.map(|path| (path, depth + 1)));
        }
    }
    Ok(None)
}

/// The table that a sweep's directory has once a run has ended.
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

/// The report that a sweep's directory has once all runs have ended.
fn report_file(out: &Path) -> PathBuf {
    out.join("report.html")
}

/// Removes a report of fewer runs than there are now.
///
/// # Errors
/// The operating system's error.
pub fn remove_report(out: &Path) -> Result<()> {
    Ok(remove(&report_file(out))?)
}

/// Writes the report of all runs.
///
/// # Errors
/// When a run cannot be read or the page cannot be written.
pub fn write_report(out: &Path, shown: Vec<Shown>) -> Result<PathBuf> {
    let path = report_file(out);
    let dirs: Vec<PathBuf> = shown.iter().map(|run| run.dir.clone()).collect();
    let planned = shown.into_iter().map(|run| run.planned).collect();
    let page = || report::write(&report::open(&dirs)?.with_groups(planned), &path);
    page().with_context(|| path.display().to_string())?;
    Ok(path)
}
