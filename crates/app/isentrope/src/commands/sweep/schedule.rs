//! Several runs at once, until all are made or the sweep is asked to end.

use super::process::{Ended, Process, Share};
use super::progress::{Progress, RunProgress, shown};
use super::runs::PlannedRun;
use super::state::State;
use crate::device::Wanted;
use crate::interrupt;
use crate::messages;
use crate::visible::visible;
use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often runs are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often their progress is read.
const READ: Duration = Duration::from_millis(500);
/// How often a line says how far the sweep is, where there is no terminal.
const PLAIN: Duration = Duration::from_secs(300);

/// So many runs in a row that fail on a device speak against the device.
const FAILS: usize = 2;

/// How runs are made.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// How many at a time.
    pub jobs: usize,
    /// The threads of all together, and the memory of those on one device.
    pub machine: Share,
    /// Where they compute: the devices that they take in turn, or one alone, which each finds by
    /// itself if none was named to the sweep.
    pub devices: Vec<Option<Wanted>>,
    /// Whether one that fails ends the sweep.
    pub fail_fast: bool,
}

impl Schedule {
    /// A run's share while as many run as may.
    pub fn least_share(&self) -> Share {
        let Share { threads, memory } = self.machine;
        let on_one = self.jobs.div_ceil(self.devices.len());
        Share { threads: (threads / self.jobs).max(1), memory: memory / on_one }
    }

    /// The place of the device on which fewest runs are under way, given those on which there are
    /// some, and how many have failed on each since one was done there. A device that fails again
    /// and again would have all that is left: it gets nothing while another does not, and what is
    /// too much for the others waits.
    fn free_device(&self, taken: impl Iterator<Item = usize>, failures: &[usize]) -> Option<usize> {
        let mut runs = vec![0; self.devices.len()];
        taken.for_each(|device| runs[device] += 1);
        let all_fail = failures.iter().all(|&failures| failures >= FAILS);
        let most = self.jobs.div_ceil(self.devices.len());
        let may = |device: &usize| all_fail || failures[*device] < FAILS && runs[*device] < most;
        (0..runs.len()).filter(may).min_by_key(|&device| runs[device])
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
    /// Its place among all.
    place: usize,
    process: Process,
    started: Instant,
    share: Share,
    /// The place of its device.
    device: usize,
}

/// Makes all runs that are not done. Ends when they are, or once those that were running have wound
/// up because the sweep was asked to end. `has_ended` is called when a run has come to its end and
/// there are others; what it fails with is a warning.
///
/// # Errors
/// When a process cannot be watched. Runs that fail are kept in `progress`.
pub fn make(
    runs: &[PlannedRun],
    progress: &mut Progress,
    schedule: &Schedule,
    has_ended: impl Fn(&Progress) -> Result<()>,
) -> Result<()> {
    let mut screen = Screen::new(runs);
    let mut processes: Vec<Running> = Vec::new();
    let (mut read, mut ends, mut is_full) = (Instant::now(), false, false);
    let mut failures = vec![0; schedule.devices.len()];
    loop {
        let mut i = 0;
        while i < processes.len() {
            let Running { place, process, started, device, .. } = &mut processes[i];
            let (place, device) = (*place, *device);
            match process.ended(&runs[place])? {
                None => i += 1,
                Some(ended) => {
                    let elapsed = started.elapsed();
                    match &ended {
                        Ended::Done => failures[device] = 0,
                        Ended::Failed(_) => failures[device] += 1,
                        Ended::Interrupted => {}
                    }
                    is_full |= ended.of_a_full_disk();
                    processes.remove(i);
                    let run = &mut progress.0[place];
                    run.runs = false;
                    run.pace.read();
                    let said = said(&runs[place], run, ended, elapsed, ends);
                    screen.end(place);
                    let summary = progress.summary(schedule.jobs);
                    screen.line(&format!("{said}; {summary}"), progress.0[place].failed.is_some());
                    let is_last = progress.0.iter().all(RunProgress::has_ended);
                    if progress.0[place].has_ended()
                        && !is_last
                        && let Err(error) = has_ended(progress)
                    {
                        screen.line(&crate::sentence(&error), true);
                    }
                }
            }
        }
        let has_failed = || progress.0.iter().any(|run| run.failed.is_some());
        if !ends && (interrupt::requested() || is_full || schedule.fail_fast && has_failed()) {
            if is_full {
                screen.line(
                    "the disk is full: no other run is begun; free some space and run the same command",
                    true,
                );
            }
            ends = true;
            processes.iter_mut().for_each(|run| run.process.wind_up());
        }
        while !ends && processes.len() < schedule.jobs {
            let ready = ready(runs, progress);
            let Some(place) = ready.first().copied() else { break };
            let taken = processes.iter().map(|run| run.device);
            let Some(device) = schedule.free_device(taken, &failures) else { break };
            let share = schedule.share(&processes, ready.len());
            match Process::start(&runs[place], share, schedule.devices[device]) {
                Ok(process) => {
                    processes.push(Running {
                        place,
                        process,
                        started: Instant::now(),
                        share,
                        device,
                    });
                    progress.0[place].runs = true;
                    screen.start(place, &runs[place], &progress.0[place]);
                }
                Err(error) => {
                    let why = crate::sentence(&error);
                    screen.line(&format!("{}: {why}", runs[place].name), true);
                    progress.0[place].failed = Some(why);
                    break; // which may end the sweep
                }
            }
        }
        if processes.is_empty() && (ends || ready(runs, progress).is_empty()) {
            break;
        }
        if read.elapsed() >= READ {
            read = Instant::now();
            progress.0.iter_mut().filter(|run| run.runs).for_each(|run| run.pace.read());
            screen.show(runs, progress, schedule.jobs);
        }
        sleep(LOOK);
    }
    screen.clear();
    Ok(())
}

/// The runs that can begin now, round by round. One whose model could not be made never can.
fn ready(runs: &[PlannedRun], progress: &mut Progress) -> Vec<usize> {
    let mut ready = Vec::new();
    for place in 0..runs.len() {
        if progress.0[place].has_ended() || progress.0[place].runs {
            continue;
        }
        match runs[place].needs {
            Some(model) if progress.0[model].failed.is_some() => {
                let why = format!(
                    "the model that it begins with, {}, could not be made",
                    runs[model].name
                );
                progress.0[place].failed = Some(why);
            }
            Some(model) if progress.0[model].state != State::Done => {}
            _ => ready.push(place),
        }
    }
    ready.sort_by_key(|&place| runs[place].round);
    ready
}

/// Takes in how a run has ended, which the sweep may have asked it to, and says it.
fn said(
    run: &PlannedRun,
    progress: &mut RunProgress,
    ended: Ended,
    elapsed: Duration,
    asked: bool,
) -> String {
    let name = &run.name;
    let elapsed = shown(elapsed.as_secs_f64());
    match ended {
        Ended::Done => {
            progress.state = State::Done;
            format!("{name}: done, {} steps in {elapsed}", run.steps)
        }
        Ended::Interrupted => {
            let step = progress.pace.step;
            progress.state = if step == 0 { State::ToDo } else { State::Begun(step) };
            // Somebody has asked this run alone to end; it is not begun again behind their back.
            if !asked && !interrupt::requested() {
                progress.failed = Some("was asked to end".into());
            }
            format!("{name}: ended at step {step} of {}", run.steps)
        }
        Ended::Failed(why) => {
            let said = format!("{name}: failed after {elapsed}: {why}");
            progress.failed = Some(why);
            said
        }
    }
}

/// The display: a live line for each run and one for all, above them a line for each that has
/// ended.
struct Screen {
    all: MultiProgress,
    summary: ProgressBar,
    bars: Vec<Option<ProgressBar>>,
    is_terminal: bool,
    name: usize,
    told: Instant,
}

impl Screen {
    fn new(runs: &[PlannedRun]) -> Self {
        let is_terminal = stderr().is_terminal();
        let target =
            if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let all = MultiProgress::with_draw_target(target);
        let summary = all.add(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            summary.set_style(style);
        }
        let name = runs.iter().map(|run| run.name.len()).max().unwrap_or(0).clamp(8, 28);
        Self { all, summary, bars: vec![None; runs.len()], is_terminal, name, told: Instant::now() }
    }

    fn start(&mut self, place: usize, run: &PlannedRun, progress: &RunProgress) {
        if !self.is_terminal {
            let from = match progress.pace.step {
                0 => "begins".to_owned(),
                step => format!("goes on after step {step} of {}", run.steps),
            };
            return messages::say(&format!("{}: {from}", run.name));
        }
        let bar = self.all.insert_before(&self.summary, ProgressBar::new(run.steps));
        let template = format!("  {{prefix:{}!}} {{bar:16}} {{wide_msg}}", self.name);
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        bar.set_prefix(visible(&run.name).into_owned());
        self.bars[place] = Some(bar);
    }

    fn end(&mut self, place: usize) {
        if let Some(bar) = self.bars[place].take() {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
    }

    fn line(&self, text: &str, is_wrong: bool) {
        self.all.suspend(|| if is_wrong { messages::warning(text) } else { messages::say(text) });
    }

    fn show(&mut self, runs: &[PlannedRun], progress: &Progress, jobs: usize) {
        let paces = progress.paces();
        for ((bar, run), planned) in self.bars.iter().zip(&progress.0).zip(runs) {
            if let Some(bar) = bar {
                let left = match run.pace.step {
                    0 => String::new(),
                    _ => format!(", {} left", shown(run.left(&paces))),
                };
                bar.set_position(run.pace.step);
                bar.set_message(format!("step {} of {}{left}", run.pace.step, planned.steps));
            }
        }
        let summary = progress.summary(jobs);
        self.summary.set_message(summary.clone());
        if !self.is_terminal && self.told.elapsed() >= PLAIN {
            self.told = Instant::now();
            let at = |(run, progress): (&PlannedRun, &RunProgress)| {
                progress.runs.then(|| {
                    format!("{} at step {} of {}", run.name, progress.pace.step, run.steps)
                })
            };
            let at: Vec<String> = runs.iter().zip(&progress.0).filter_map(at).collect();
            messages::say(&format!("{}; {summary}", at.join(", ")));
        }
    }

    fn clear(&self) {
        self.summary.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_fails_again_and_again_gets_nothing_while_another_does_not() {
        let machine = Share { threads: 4, memory: 1 << 30 };
        let schedule = Schedule { jobs: 4, machine, devices: vec![None; 2], fail_fast: false };
        let of = |taken: &[usize], failures: [usize; 2]| {
            schedule.free_device(taken.iter().copied(), &failures)
        };
        assert_eq!(
            (of(&[], [0, 0]), of(&[0], [0, 0]), of(&[0, 1, 1], [0, 1])),
            (Some(0), Some(1), Some(0))
        );
        assert_eq!(
            (of(&[1], [2, 0]), of(&[1, 1], [2, 0])),
            (Some(1), None),
            "no more than its part, either"
        );
        assert_eq!(of(&[1], [2, 2]), Some(0), "then it is the runs");
    }
}
