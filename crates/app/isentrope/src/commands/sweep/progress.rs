//! How far a sweep is, and how long it will take.

use super::runs::PlannedRun;
use super::state::{Pace, State};
use crate::terminal::duration;
use isentrope_lab::seeds::without_seed;
use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// Widest column of names.
const NAME: usize = 40;

/// A run's progress.
pub struct RunProgress {
    pub state: State,
    pub pace: Pace,
    /// Whether a process is at it.
    pub runs: bool,
    /// Why it has failed or was not begun, if so.
    pub failed: Option<String>,
    /// Seconds that it was expected to take before anything was measured.
    expected: f64,
    steps: u64,
    /// The number of its group, whose runs go at the same pace.
    group: usize,
}

impl RunProgress {
    /// Whether there is nothing more to come of it.
    pub fn has_ended(&self) -> bool {
        self.state == State::Done || self.failed.is_some()
    }

    fn expected_of_step(&self) -> f64 {
        self.expected / self.steps.max(1) as f64
    }

    /// Seconds that it still takes: at its own pace, else at that of its group, else as expected,
    /// corrected by how runs were expected and are.
    pub fn left(&self, paces: &Paces) -> f64 {
        if self.has_ended() {
            return 0.0;
        }
        let of_step = self.pace.of_step().or(paces.of_groups[self.group]);
        let of_step = of_step.unwrap_or_else(|| self.expected_of_step() * paces.ratio);
        self.steps.saturating_sub(self.pace.step) as f64 * of_step
    }
}

/// How fast runs go, so far.
pub struct Paces {
    /// Seconds that a step takes in the runs of each group, where any has made one.
    of_groups: Vec<Option<f64>>,
    /// How many times as long as expected steps take.
    ratio: f64,
}

/// All runs of a sweep.
pub struct Progress(pub Vec<RunProgress>);

impl Progress {
    /// The progress of runs in these states.
    pub fn new(runs: &[PlannedRun], states: &[State], expected: &[f64]) -> Self {
        let mut groups = HashMap::new();
        let of_run = |((run, state), expected): ((&PlannedRun, &State), &f64)| {
            let number = groups.len();
            let mut pace = Pace::new(run.dir());
            pace.read();
            RunProgress {
                state: *state,
                pace,
                runs: false,
                failed: None,
                expected: *expected,
                steps: run.steps,
                group: *groups.entry(without_seed(run.recipe()).to_string()).or_insert(number),
            }
        };
        Self(runs.iter().zip(states).zip(expected).map(of_run).collect())
    }

    /// How many are done, under way, failed, and left to do.
    fn counts(&self) -> [usize; 4] {
        let count = |is: &dyn Fn(&RunProgress) -> bool| self.0.iter().filter(|run| is(run)).count();
        let done = count(&|run| run.state == State::Done);
        let runs = count(&|run| run.runs);
        let failed = count(&|run| run.failed.is_some());
        [done, runs, failed, self.0.len() - done - runs - failed]
    }

    /// `3 done, 2 running, 10 left, about 38 min`.
    pub fn summary(&self, jobs: usize) -> String {
        let [done, runs, failed, left] = self.counts();
        let mut parts = vec![format!("{done} done")];
        if runs > 0 {
            parts.push(format!("{runs} running"));
        }
        if failed > 0 {
            parts.push(format!("{failed} failed"));
        }
        parts.push(format!("{left} left"));
        if runs + left > 0 {
            parts.push(format!("about {}", shown(self.left(jobs))));
        }
        parts.join(", ")
    }

    /// How fast runs go.
    pub fn paces(&self) -> Paces {
        let groups = self.0.iter().map(|run| run.group + 1).max().unwrap_or(0);
        let mut of_groups = vec![Vec::new(); groups];
        for run in &self.0 {
            of_groups[run.group].extend(run.pace.of_step());
        }
        let ratio =
            self.0.iter().filter_map(|run| Some(run.pace.of_step()? / run.expected_of_step()));
        Paces {
            of_groups: of_groups.into_iter().map(|steps| mean(steps.into_iter())).collect(),
            ratio: mean(ratio.filter(|ratio| ratio.is_finite())).unwrap_or(1.0),
        }
    }

    /// Seconds until the last run ends, with so many at a time.
    fn left(&self, jobs: usize) -> f64 {
        let paces = self.paces();
        let mut slots: Vec<f64> = vec![0.0; jobs.max(1)];
        let (running, waiting): (Vec<&RunProgress>, Vec<&RunProgress>) =
            self.0.iter().partition(|run| run.runs);
        for run in running.into_iter().chain(waiting) {
            if let Some(first) = slots.iter_mut().min_by(|a, b| a.total_cmp(b)) {
                *first += run.left(&paces);
            }
        }
        slots.into_iter().fold(0.0, f64::max)
    }

    /// The table of all runs, and a line below it.
    pub fn table(&self, runs: &[PlannedRun], jobs: usize, threads: usize) -> String {
        let paces = self.paces();
        let width = runs.iter().map(|run| run.name.width()).max().unwrap_or(0).clamp(3, NAME);
        let mut text = format!("  {:width$}  {:22}  time\n", "run", "state");
        for (run, progress) in runs.iter().zip(&self.0) {
            let (state, time) = match progress.state {
                _ if progress.failed.is_some() => ("failed".into(), String::new()),
                State::Done => (format!("done, {} steps", run.steps), shown(progress.pace.seconds)),
                State::Begun(step) => (
                    format!("step {step} of {}", run.steps),
                    format!("about {} left", shown(progress.left(&paces))),
                ),
                State::ToDo => (
                    format!("to do, {} steps", run.steps),
                    format!("about {}", shown(progress.left(&paces))),
                ),
            };
            let _ = writeln!(
                text,
                "{}",
                format!("  {:width$}  {state:22}  {time}", run.name).trim_end()
            );
        }
        let at_once = match (jobs, threads) {
            (1, 1) => "one at a time, 1 thread".into(),
            (1, threads) => format!("one at a time, {threads} threads"),
            (jobs, 1) => format!("{jobs} at a time, 1 thread each"),
            (jobs, threads) => format!("{jobs} at a time, {threads} threads each"),
        };
        let _ = writeln!(text, "{} runs: {}; {at_once}", runs.len(), self.summary(jobs));
        text
    }
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0), |(sum, count), x| (sum + x, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// A time for people.
pub fn shown(seconds: f64) -> String {
    duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
