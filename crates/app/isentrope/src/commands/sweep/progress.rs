//! A sweep's progress and remaining time.

use super::runs::PlannedRun;
use super::state::{Pace, State};
use crate::messages::counted;
use isentrope_lab::show::duration;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Widest column of names.
const NAME: usize = 40;

/// A run's progress.
pub struct RunProgress {
    pub state: State,
    pub pace: Pace,
    /// Whether a process is making it.
    pub runs: bool,
    /// The reason why the run failed or was not begun, if so.
    pub failed: Option<String>,
    /// Seconds that a step was expected to take before the sweep began.
    expected: f64,
    steps: u64,
}

impl RunProgress {
    /// Whether the run will make no more steps.
    pub fn has_ended(&self) -> bool {
        self.state == State::Done || self.failed.is_some()
    }

    /// Seconds that the run still takes: at its own pace, or the expected time multiplied by
    /// `ratio`, the mean ratio of measured to expected times.
    fn left(&self, ratio: f64) -> f64 {
        if self.has_ended() {
            return 0.0;
        }
        let of_step = self.pace.of_step().unwrap_or(self.expected * ratio);
        self.steps.saturating_sub(self.pace.step) as f64 * of_step
    }
}

/// All runs of a sweep.
pub struct Progress(pub Vec<RunProgress>);

impl Progress {
    /// The progress of runs in these states, each expected to take `expected` seconds.
    pub fn new(runs: &[PlannedRun], states: &[State], expected: &[f64]) -> Self {
        let of_run = |((run, state), expected): ((&PlannedRun, &State), &f64)| RunProgress {
            state: *state,
            pace: Pace::read(run.dir()),
            runs: false,
            failed: None,
            expected: *expected / run.steps.max(1) as f64,
            steps: run.steps,
        };
        Self(runs.iter().zip(states).zip(expected).map(of_run).collect())
    }

    /// `3 done, 2 running, 10 left, about 38 min`.
    pub fn summary(&self, jobs: usize) -> String {
        let count = |is: &dyn Fn(&RunProgress) -> bool| self.0.iter().filter(|run| is(run)).count();
        let done = count(&|run| run.state == State::Done);
        let running = count(&|run| run.runs);
        let failed = count(&|run| run.failed.is_some());
        let left = self.0.len() - done - running - failed;
        let mut parts = vec![format!("{done} done")];
        if running > 0 {
            parts.push(format!("{running} running"));
        }
        if failed > 0 {
            parts.push(format!("{failed} failed"));
        }
        parts.push(format!("{left} left"));
        if running + left > 0 {
            parts.push(format!("about {}", duration(self.left(jobs))));
        }
        parts.join(", ")
    }

    /// The mean ratio of measured to expected times of steps.
    fn ratio(&self) -> f64 {
        let ratios = self.0.iter().filter_map(|run| Some(run.pace.of_step()? / run.expected));
        let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
        match ratios.len() {
            0 => 1.0,
            count => ratios.iter().sum::<f64>() / count as f64,
        }
    }

    /// Seconds until the last run ends, with `jobs` at a time.
    fn left(&self, jobs: usize) -> f64 {
        let ratio = self.ratio();
        let mut slots: Vec<f64> = vec![0.0; jobs.max(1)];
        let (running, waiting): (Vec<&RunProgress>, Vec<&RunProgress>) =
            self.0.iter().partition(|run| run.runs);
        for run in running.into_iter().chain(waiting) {
            if let Some(first) = slots.iter_mut().min_by(|a, b| a.total_cmp(b)) {
                *first += run.left(ratio);
            }
        }
        slots.into_iter().fold(0.0, f64::max)
    }

    /// The table of all runs, and a line below it.
    pub fn table(&self, runs: &[PlannedRun], jobs: usize, threads: usize) -> String {
        let ratio = self.ratio();
        let width = runs.iter().map(|run| run.name.width()).max().unwrap_or(0).clamp(3, NAME);
        let mut text = format!("  {:width$}  {:22}  time\n", "run", "state");
        for (run, progress) in runs.iter().zip(&self.0) {
            let left = duration(progress.left(ratio));
            let (state, time) = match progress.state {
                State::Done => {
                    let done = format!("done, {}", counted(run.steps, "step"));
                    (done, duration(progress.pace.seconds))
                }
                State::Begun(step) => {
                    (format!("step {step} of {}", run.steps), format!("about {left} left"))
                }
                State::ToDo => {
                    (format!("to do, {}", counted(run.steps, "step")), format!("about {left}"))
                }
            };
            let _ = writeln!(text, "  {:width$}  {state:22}  {time}", run.name);
        }
        let jobs_said = if jobs == 1 { "one".to_owned() } else { jobs.to_string() };
        let threads = counted(threads, "thread");
        let each = if jobs == 1 { "" } else { " each" };
        let summary = self.summary(jobs);
        let _ = writeln!(
            text,
            "{}: {summary}; {jobs_said} at a time, {threads}{each}",
            counted(runs.len(), "run")
        );
        text
    }
}
