//! `isentrope sweep`: many runs that differ along axes, and their results together.
//!
//! `file.rs` reads SWEEP.toml, with `axis.rs` and `compare.rs` for its tables;
//! `runs.rs` makes each combination's recipe; `check.rs` checks all recipes before the first run
//! starts, and `state.rs` finds which steps exist already. `schedule.rs` starts a process for each
//! remaining run (`process.rs`); `progress.rs` estimates the time, `results.rs` writes the results.

mod axis;
mod check;
mod compare;
mod file;
mod process;
mod progress;
mod results;
mod runs;
mod schedule;
mod state;
#[cfg(test)]
mod tests;

use self::check::Machine;
use self::file::SweepFile;
use self::process::Share;
use self::progress::Progress;
use self::runs::PlannedRun;
use self::schedule::Schedule;
use self::state::State;
use crate::device::{self, DeviceFlag, DeviceRequest};
use crate::interrupt::{self, Interrupted};
use crate::messages;
use crate::standard_output::{print, print_fitted};
use anyhow::{Result, anyhow, bail};
use clap::Args;
use isentrope_files::{check_writable, is_locked, lock_directory, make_directory, names};
use isentrope_lab::run_files::VALUES;
use isentrope_lab::seeds;
use isentrope_train::settings::DeviceKind;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Time between two checks whether another process has ended.
const WAIT: Duration = Duration::from_millis(200);

/// Train many runs that differ in method, seed or any other setting, and compare them
///
/// SWEEP.toml names a base recipe and the axes along which runs differ:
///
///   base = "countdown-grpo.toml"            # relative to this file
///
///   [axes.method.grpo]                      # a table of settings; none here
///   [axes.method.no-clipping]
///   objective.loss = "importance"
///   [axes.method.kl-cov]
///   objective.loss = "importance"
///   objective.covariance = { method = "kl-cov", fraction = 2e-3 }
///
///   [axes]
///   seed = { key = "run.seed", values = [1, 2, 3] }
///
///   [compare]                               # instead of with the first
///   kl-cov = "no-clipping"
///
/// Every combination is a run in OUT/kl-cov/2; beside it are its recipe (2.toml)
/// and what it says (2.log). All are checked before the first one starts, and
/// several go on at once, which changes no result.
///
/// Ctrl-C ends the sweep after the current steps, and saves them. The same
/// command goes on: runs that are done are skipped, others are resumed. At the
/// end a table (OUT/table.md, table.json) has means and 95 % intervals over seeds
/// and paired tests against the first method, or against what [compare] says;
/// OUT/report.html shows all runs. docs/guides/evaluate.md has it all.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Sweep {
    /// The sweep, a TOML file
    #[arg(value_name = "SWEEP")]
    sweep: PathBuf,
    /// The directory of all runs [default: `out` of the file, else runs/NAME for NAME.toml]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Sets a key of every run, as in --set run.steps=20 (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Runs at a time [default: one per thread; one on each GPU]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Threads of all runs together [default: ISENTROPE_THREADS, else one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    #[command(flatten)]
    device: DeviceFlag,
    /// Checks all runs and shows what is done, what is left and how long it will take; trains
    /// nothing
    #[arg(long)]
    dry_run: bool,
}

impl Sweep {
    pub fn run(self) -> Result<()> {
        let file = SweepFile::read(&self.sweep)?;
        let out =
            self.out.clone().or_else(|| file.out.clone()).unwrap_or_else(|| file.default_out());
        let key = if self.out.is_none() && file.out.is_some() { "out" } else { "--out" };
        check_writable(&out).map_err(|error| {
            anyhow!("{key} is {}, and {error}; name another directory", out.display())
        })?;
        let runs = runs::planned(&file, &out, &self.set)?;
        refuse_taken(&out, &runs)?;
        if self.dry_run {
            let (progress, schedule) = self.look(&runs)?;
            return print(&progress.table(&runs, schedule.jobs, schedule.least_share().threads));
        }
        make_directory(&out)?;
        let lock = lock_directory(&out, "sweeping")?;
        wait_for_others(&runs);
        let (mut progress, schedule) = self.look(&runs)?;
        messages::say(
            progress.table(&runs, schedule.jobs, schedule.least_share().threads).trim_end(),
        );
        interrupt::wind_up_first("finishing the current steps");
        schedule::make(&runs, &mut progress, &schedule)?;
        if interrupt::requested() {
            let kept = format!("{}; the same command goes on", progress.summary(schedule.jobs));
            return Err(Interrupted { kept }.into());
        }
        finish(&runs, &progress, &out, &file.name())?;
        drop(lock);
        Ok(())
    }

    /// Checks all runs and their states, and plans the rest.
    fn look(&self, runs: &[PlannedRun]) -> Result<(Progress, Schedule)> {
        let states = state::states(runs)?;
        let threads = device::threads(self.threads)?;
        if self.jobs == Some(0) {
            bail!("--jobs is 0: it must be at least 1");
        }
        let left = states.iter().filter(|state| **state != State::Done).count();
        // Finished runs can be reported on a machine without the device.
        let devices = if left == 0 {
            Vec::new()
        } else {
            device::open_all(self.device_request(runs)?, Some(threads))?
        };
        let available =
            devices.iter().map(|(_, device)| device.free_memory()).min().unwrap_or(usize::MAX);
        // One run keeps a GPU busy.
        let most =
            if devices.iter().any(|(_, device)| device.is_gpu()) { devices.len() } else { threads };
        let on: Vec<DeviceRequest> = devices.iter().map(|(request, _)| *request).collect();
        drop(devices); // with what they take of their memory
        let jobs = self.jobs.unwrap_or(most).min(left.max(1));
        let machine = Machine {
            device: on.first().copied().unwrap_or_default(),
            devices: on.len().max(1),
            threads: (threads / jobs).max(1),
            available,
            jobs,
        };
        let checked = check::check(runs, &states, &machine)?;
        for note in &checked.notes {
            messages::note(note);
        }
        let machine = Share { threads, memory: available };
        // If there is a single device, each run finds it as the sweep did.
        let devices = match &on[..] {
            [] | [_] => vec![self.device.device],
            several => several.iter().copied().map(Some).collect(),
        };
        let schedule = Schedule { jobs, machine, devices };
        Ok((Progress::new(runs, &states, &checked.seconds), schedule))
    }

    /// The device of all runs.
    fn device_request(&self, runs: &[PlannedRun]) -> Result<DeviceRequest> {
        let kind = |run: &PlannedRun| -> Result<DeviceKind> {
            Ok(serde_json::from_value(run.recipe()["device"]["kind"].clone())?)
        };
        let Some(first) = runs.first() else {
            return device::request(&self.device, DeviceKind::Auto);
        };
        // A flag or the environment variable decides for all runs.
        if let Some(said) = device::requested(&self.device)? {
            return Ok(said);
        }
        let wanted = DeviceRequest::from(kind(first)?);
        if let Some(other) = runs
            .iter()
            .find(|run| kind(run).is_ok_and(|other| DeviceRequest::from(other) != wanted))
        {
            bail!(
                "device.kind differs between {} and {}: the runs of a sweep share one device; \
                 say with --device which",
                first.name,
                other.name
            );
        }
        Ok(wanted)
    }
}

/// Refuses the directory of a run, and one with files that are not this sweep's.
fn refuse_taken(out: &Path, runs: &[PlannedRun]) -> Result<()> {
    if out.join(VALUES).exists() {
        bail!("{} holds a run; name another directory with --out", out.display());
    }
    // Hidden files, being written or left by a kill, do not count.
    let is_empty = names(out)?.iter().all(|name| name.to_string_lossy().starts_with('.'));
    let is_begun = |run: &PlannedRun| run.recipe_file().exists() || run.dir().exists();
    if !is_empty && !results::table_file(out).exists() && !runs.iter().any(is_begun) {
        bail!(
            "{} has files in it and is no sweep; name another directory with --out",
            out.display()
        );
    }
    Ok(())
}

/// Waits for runs of this sweep that another process is still making: the runs of a killed sweep
/// finish their steps.
fn wait_for_others(runs: &[PlannedRun]) {
    let mut told = false;
    while let Some(run) = runs.iter().find(|run| is_locked(run.dir()) == Some(true)) {
        if !told {
            told = true;
            let dir = run.dir().display();
            messages::note(&format!("waiting for another process, which still trains in {dir}"));
        }
        sleep(WAIT);
    }
}

/// Writes and shows the results. Returns an error if some runs have failed.
fn finish(runs: &[PlannedRun], progress: &Progress, out: &Path, name: &str) -> Result<()> {
    let (summary, shown) = results::summary(runs)?;
    if !shown.is_empty() {
        results::write_tables(out, name, &summary)?;
        let report = match results::write_report(out, shown) {
            Ok(report) => format!("{}, ", report.display()),
            Err(error) => {
                messages::warning(&format!(
                    "the report could not be made: {}",
                    crate::sentence(&error)
                ));
                String::new()
            }
        };
        let table = |ending: &str| out.join(format!("table.{ending}")).display().to_string();
        print_fitted(&format!(
            "{}\n{report}{}, {}\n",
            seeds::text(&summary),
            table("md"),
            table("json")
        ))?;
    }
    let failed: Vec<String> = runs
        .iter()
        .zip(&progress.0)
        .filter_map(|(run, progress)| Some(format!("{}: {}", run.name, progress.failed.as_ref()?)))
        .collect();
    match failed.len() {
        0 => Ok(()),
        1 => bail!("1 of {} runs failed: {}", runs.len(), failed[0]),
        several => bail!("{several} of {} runs failed:\n{}", runs.len(), failed.join("\n")),
    }
}
