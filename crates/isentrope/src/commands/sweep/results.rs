//! What a sweep ends in: a table over seeds, and the report of all runs.

use super::runs::PlannedRun;
use anyhow::{Context, Result};
use isentrope_files::{make_directory, this_program, write_file, write_json};
use isentrope_lab::log::RunLog;
use isentrope_lab::seeds::{self, Summary};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the runs say over seeds, and the directories of those that have said anything. All that were planned are taken in: of a
/// method whose runs fail, the mean of the others alone would say too much.
///
/// # Errors
/// When what a run has written cannot be read.
pub fn summary(runs: &[PlannedRun]) -> Result<(Summary, Vec<PathBuf>)> {
    let mut read: Vec<(&PlannedRun, Option<RunLog>)> = Vec::new();
    for run in runs.iter().filter(|run| !run.is_model) {
        // Before the first metric the file is empty.
        let has_metrics = std::fs::metadata(run.dir().join("metrics.jsonl")).is_ok_and(|file| file.len() > 0);
        read.push((run, if has_metrics { Some(RunLog::open(run.dir())?) } else { None }));
    }
    let taken_in: Vec<seeds::Run<'_>> = read
        .iter()
        .map(|(run, log)| seeds::Run {
            name: run.name.clone(),
            group: Some(run.group.clone()),
            log: log.as_ref(),
            recipe: Some(run.recipe()),
        })
        .collect();
    let dirs = read.iter().filter(|(_, log)| log.is_some()).map(|(run, _)| run.dir().to_owned()).collect();
    Ok((Summary::of(&taken_in), dirs))
}

/// Writes table.json and table.md.
///
/// # Errors
/// What the operating system says.
pub fn write_tables(out: &Path, name: &str, summary: &Summary) -> Result<()> {
    make_directory(out)?;
    write_json(&out.join("table.json"), summary)?;
    let text = format!("# {name}\n\n{}", seeds::markdown(summary));
    Ok(write_file(&out.join("table.md"), text.as_bytes())?)
}

/// Has this program write the report of all runs.
///
/// # Errors
/// What `isentrope report` says.
pub fn write_report(out: &Path, dirs: &[PathBuf]) -> Result<PathBuf> {
    let path = out.join("report.html");
    let made = Command::new(this_program().context("this program")?)
        .arg("report")
        .args(dirs)
        .arg("--out")
        .arg(&path)
        .stdin(Stdio::null())
        .output()
        .context("isentrope report")?;
    if made.status.success() {
        return Ok(path);
    }
    let said = String::from_utf8_lossy(&made.stderr);
    let said = said.lines().rfind(|line| line.starts_with("error: ")).unwrap_or("it failed").to_owned();
    anyhow::bail!("{}: {}", path.display(), said.trim_start_matches("error: "))
}
