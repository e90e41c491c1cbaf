//! Several runs at once, until all are made or the sweep is asked to end.

use super::process::{Process, RunOutcome, Share};
use super::progress::{Progress, RunProgress};
use super::runs::PlannedRun;
use super::state::{Pace, State};
use crate::device::DeviceRequest;
use crate::interrupt;
use crate::messages;
use crate::visible::visible;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use isentrope_lab::show::duration;
use std::io::{IsTerminal, stderr};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between two looks at the runs.
const LOOK: Duration = Duration::from_millis(100);
/// How often their progress is read.
const READ: Duration = Duration::from_secs(1);
/// Time between two lines of progress, if the output is no terminal.
const PLAIN: Duration = Duration::from_secs(60);

/// How runs are made.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// How many at a time.
    pub jobs: usize,
    /// The threads of all runs together, and the memory of the runs on one device.
    pub machine: Share,
    /// The devices that runs take in turn. None lets a run choose the device.
    pub devices: Vec<Option<DeviceRequest>>,
}

impl Schedule {
    /// A run's share while `jobs` runs are under way.
    pub fn least_share(&self) -> Share {
        let Share { threads, memory } = self.machine;
        let on_one = self.jobs.div_ceil(self.devices.len());
        Share { threads: (threads / self.jobs).max(1), memory: memory / on_one }
    }

    /// The index of the device with the fewest runs under way.
    fn free_device(&self, under_way: &[Running]) -> usize {
        let runs = |device: &usize| under_way.iter().filter(|run| run.device == *device).count();
        (0..self.devices.len()).min_by_key(runs).unwrap_or(0)
    }

    /// The share of the next of `ready` runs: its part of the free threads, so that the last runs
    /// use the threads of runs that have ended.
    fn share(&self, under_way: &[Running], ready: usize) -> Share {
        let used: usize = under_way.iter().map(|run| run.share.threads).sum();
        let starting = ready.min(self.jobs - under_way.len()).max(1);
        let threads = (self.machine.threads.saturating_sub(used) / starting).max(1);
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

/// Makes all runs that are not done. A sweep that is asked to end waits for the current steps.
///
/// # Errors
/// When a process cannot be watched. Runs that fail are kept in `progress`.
pub fn make(runs: &[PlannedRun], progress: &mut Progress, schedule: &Schedule) -> Result<()> {
    let mut display = Display::new();
    let mut under_way: Vec<Running> = Vec::new();
    let (mut read, mut ends) = (Instant::now(), false);
    loop {
        let mut still = Vec::new();
        for mut running in under_way {
            let planned = &runs[running.number];
            let Some(ended) = running.process.ended(planned)? else {
                still.push(running);
                continue;
            };
            let run = &mut progress.0[running.number];
            run.runs = false;
            run.pace = Pace::read(planned.dir());
            let said = take_in(planned, run, ended, running.started.elapsed(), ends);
            let has_failed = run.failed.is_some();
            display.line(&format!("{said}; {}", progress.summary(schedule.jobs)), has_failed);
        }
        under_way = still;
        if !ends && interrupt::requested() {
            ends = true;
            under_way.iter_mut().for_each(|run| run.process.wind_up());
        }
        while !ends && under_way.len() < schedule.jobs {
            let ready = ready(runs, progress);
            let Some(number) = ready.first().copied() else { break };
            let device = schedule.free_device(&under_way);
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

/// The runs that have not begun, round by round.
fn ready(runs: &[PlannedRun], progress: &Progress) -> Vec<usize> {
    let is_ready = |number: &usize| !progress.0[*number].has_ended() && !progress.0[*number].runs;
    let mut ready: Vec<usize> = (0..runs.len()).filter(is_ready).collect();
    ready.sort_by_key(|&number| runs[number].round);
    ready
}

/// Records how a run has ended, and returns a line about it.
fn take_in(
    run: &PlannedRun,
    progress: &mut RunProgress,
    ended: RunOutcome,
    elapsed: Duration,
    asked: bool,
) -> String {
    let name = &run.name;
    let elapsed = duration(elapsed.as_secs_f64());
    match ended {
        RunOutcome::Done => {
            progress.state = State::Done;
            format!("{name}: done, {} in {elapsed}", messages::counted(run.steps, "step"))
        }
        RunOutcome::Interrupted => {
            let step = progress.pace.step;
            progress.state = if step == 0 { State::ToDo } else { State::Begun(step) };
            // The user has ended this run alone, so it is not started again.
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

/// Lines for events, and on a terminal a live line for the runs under way.
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
