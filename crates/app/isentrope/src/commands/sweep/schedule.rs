//! Several runs at once, until all are made or the sweep is asked to end.

use super::process::{Process, RunOutcome, Share};
use super::progress::{Progress, RunProgress, shown};
use super::runs::PlannedRun;
use super::state::{Pace, State};
use crate::device::DeviceRequest;
use crate::interrupt;
use crate::messages;
use crate::visible::visible;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often runs are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often their progress is read.
const READ: Duration = Duration::from_secs(1);
/// How often a line says how far the sweep is, where there is no terminal.
const PLAIN: Duration = Duration::from_secs(300);

/// How runs are made.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// How many at a time.
    pub jobs: usize,
    /// The threads of all together, and the memory of those on one device.
    pub machine: Share,
    /// Where they compute: the devices that they take in turn, or one alone, which each finds by
    /// itself if none was named to the sweep.
    pub devices: Vec<Option<DeviceRequest>>,
}

impl Schedule {
    /// A run's share while as many run as may.
    pub fn least_share(&self) -> Share {
        let Share { threads, memory } = self.machine;
        let on_one = self.jobs.div_ceil(self.devices.len());
        Share { threads: (threads / self.jobs).max(1), memory: memory / on_one }
    }

    /// The number of the device on which fewest runs are under way; none if every one has its
    /// part. `failures` has each device's failures in a row. One that keeps failing is avoided:
    /// its runs end at once, so that it would take all others too.
    fn free_device(&self, under_way: &[Running], failures: &[usize]) -> Option<usize> {
        let runs = |device: &usize| under_way.iter().filter(|run| run.device == *device).count();
        let most = self.jobs.div_ceil(self.devices.len());
        let all_fail = failures.iter().all(|&failures| failures > 1);
        let may = |device: &usize| all_fail || failures[*device] < 2 && runs(device) < most;
        (0..self.devices.len()).filter(may).min_by_key(runs)
    }

    /// The share of the next run, if so many are ready: its part of the free threads, so that the
    /// last runs, or a model that all others wait for, use those of runs that are not there.
    fn share(&self, under_way: &[Running], ready: usize) -> Share {
        let used: usize = under_way.iter().map(|run| run.share.threads).sum();
        let starting = ready.min(self.jobs - under_way.len()).max(1);
        let threads = (self.machine.threads.saturating_sub(used) / starting).max(1);
        // Others may become ready while this one goes on, unless it is alone.
        let is_alone = under_way.is_empty() && ready == 1;
        let memory = if is_alone { self.machine.memory } else { self.least_share().memory };
        Share { threads, memory }
    }
}

/// A run under way.
struct Running {
    /// Its number among all.
    number: usize,
    process: Process,
    started: Instant,
    share: Share,
    device: usize,
}

/// Makes all runs that are not done. Ends when they are, or once those that were running have wound
/// up because the sweep was asked to end, or the disk is full.
///
/// # Errors
/// When a process cannot be watched. Runs that fail are kept in `progress`.
pub fn make(runs: &[PlannedRun], progress: &mut Progress, schedule: &Schedule) -> Result<()> {
    let mut display = Display::new();
    let mut under_way: Vec<Running> = Vec::new();
    let mut failures = vec![0; schedule.devices.len()];
    let (mut read, mut ends, mut is_full) = (Instant::now(), false, false);
    loop {
        let mut still = Vec::new();
        for mut running in under_way {
            let planned = &runs[running.number];
            let Some(ended) = running.process.ended(planned)? else {
                still.push(running);
                continue;
            };
            is_full |= ended.of_a_full_disk();
            let run = &mut progress.0[running.number];
            run.runs = false;
            run.pace = Pace::read(planned.dir());
            let said = take_in(planned, run, ended, running.started.elapsed(), ends);
            let has_failed = run.failed.is_some();
            failures[running.device] = if has_failed { failures[running.device] + 1 } else { 0 };
            display.line(&format!("{said}; {}", progress.summary(schedule.jobs)), has_failed);
        }
        under_way = still;
        if !ends && (interrupt::requested() || is_full) {
            if is_full {
                let remedy = "free some space and run the same command";
                display.line(&format!("the disk is full: no other run is begun; {remedy}"), true);
            }
            ends = true;
            under_way.iter_mut().for_each(|run| run.process.wind_up());
        }
        while !ends && under_way.len() < schedule.jobs {
            let ready = ready(runs, progress);
            let Some(number) = ready.first().copied() else { break };
            let Some(device) = schedule.free_device(&under_way, &failures) else { break };
            let share = schedule.share(&under_way, ready.len());
            let run = &mut progress.0[number];
            match Process::start(&runs[number], share, schedule.devices[device]) {
                Ok(process) => {
                    run.runs = true;
                    let from = match run.pace.step {
                        0 => "begins".to_owned(),
                        step => format!("goes on after step {step} of {}", runs[number].steps),
                    };
                    display.line(&format!("{}: {from}", runs[number].name), false);
                    let started = Instant::now();
                    under_way.push(Running { number, process, started, share, device });
                }
                Err(error) => {
                    let why = crate::sentence(&error);
                    display.line(&format!("{}: {why}", runs[number].name), true);
                    run.failed = Some(why);
                }
            }
        }
        if under_way.is_empty() && (ends || ready(runs, progress).is_empty()) {
            break;
        }
        if read.elapsed() >= READ {
            read = Instant::now();
            for running in &under_way {
                progress.0[running.number].pace = Pace::read(runs[running.number].dir());
            }
            display.show(runs, progress, schedule.jobs);
        }
        sleep(LOOK);
    }
    display.bar.finish_and_clear();
    Ok(())
}

/// The runs that can begin now, round by round. One whose model could not be made never can.
fn ready(runs: &[PlannedRun], progress: &mut Progress) -> Vec<usize> {
    let mut ready = Vec::new();
    for number in 0..runs.len() {
        if progress.0[number].has_ended() || progress.0[number].runs {
            continue;
        }
        match runs[number].needs {
            Some(model) if progress.0[model].failed.is_some() => {
                let model = &runs[model].name;
                let why = format!("the model that it begins with, {model}, could not be made");
                progress.0[number].failed = Some(why);
            }
            Some(model) if progress.0[model].state != State::Done => {}
            _ => ready.push(number),
        }
    }
    ready.sort_by_key(|&number| runs[number].round);
    ready
}

/// Takes in how a run has ended, which the sweep may have asked it to, and says it.
fn take_in(
    run: &PlannedRun,
    progress: &mut RunProgress,
    ended: RunOutcome,
    elapsed: Duration,
    asked: bool,
) -> String {
    let name = &run.name;
    let elapsed = shown(elapsed.as_secs_f64());
    match ended {
        RunOutcome::Done => {
            progress.state = State::Done;
            format!("{name}: done, {} steps in {elapsed}", run.steps)
        }
        RunOutcome::Interrupted => {
            let step = progress.pace.step;
            progress.state = if step == 0 { State::ToDo } else { State::Begun(step) };
            // Somebody has asked this run alone to end; it is not begun again behind their back.
            if !asked && !interrupt::requested() {
                progress.failed = Some("was asked to end".into());
            }
            format!("{name}: ended at step {step} of {}", run.steps)
        }
        RunOutcome::Failed(why) => {
            let said = format!("{name}: failed after {elapsed}: {why}");
            progress.failed = Some(why);
            said
        }
    }
}

/// Lines for what has happened, and on a terminal a live one for the runs under way.
struct Display {
    bar: ProgressBar,
    is_terminal: bool,
    told: Instant,
}

impl Display {
    fn new() -> Self {
        let is_terminal = stderr().is_terminal();
        let target =
            if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Self { bar, is_terminal, told: Instant::now() }
    }

    fn line(&self, text: &str, is_wrong: bool) {
        self.bar.suspend(|| if is_wrong { messages::warning(text) } else { messages::say(text) });
    }

    fn show(&mut self, runs: &[PlannedRun], progress: &Progress, jobs: usize) {
        let at = |(run, progress): (&PlannedRun, &RunProgress)| {
            let step = progress.pace.step;
            progress.runs.then(|| format!("{} at step {step} of {}", run.name, run.steps))
        };
        let at: Vec<String> = runs.iter().zip(&progress.0).filter_map(at).collect();
        let text = format!("{}; {}", progress.summary(jobs), at.join(", "));
        if self.is_terminal {
            self.bar.set_message(visible(&text).into_owned());
        } else if self.told.elapsed() >= PLAIN {
            self.told = Instant::now();
            messages::say(&text);
        }
    }
}
