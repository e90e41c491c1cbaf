//! Shows runs again whenever they have grown, until they end.

use super::{check_metrics, look, print_lines};
use crate::interrupt::{self, Interrupted};
use crate::standard_output::draw;
use crate::visible::visible;
use anyhow::Result;
use isentrope_lab::run::{Condition, Run};
use isentrope_lab::show::{PageOptions, Trace, heading, law, news, page, screen};
use std::collections::HashMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Time between two checks of signals and of the terminal's size; then the time between two looks
/// at the files.
const TICK: Duration = Duration::from_millis(50);
const INTERVAL: Duration = Duration::from_millis(500);
/// Reading takes at most 1 / IDLE of the time.
const IDLE: u32 = 10;
/// Longest time that a run may be unreadable, for instance while another run overwrites it.
const PATIENCE: Duration = Duration::from_secs(3);
/// The screen is drawn again after this time even without news: a run may have become silent.
const REDRAWN: Duration = Duration::from_secs(15);
/// Escapes that move the cursor to the top and clear the terminal.
const CLEAR: &str = "\x1b[H\x1b[J";
/// Number of past steps printed at the start, if the output is no terminal.
const BEFORE: u64 = 10;

/// Follows runs until all of them have ended.
pub fn follow(paths: &[PathBuf], options: &PageOptions) -> Result<()> {
    interrupt::wind_up_quietly();
    let mut runs = Runs::read(paths)?;
    let mut view = match look().1 {
        Some(_) => View::Screen { size: (0, 0), drawn: Instant::now() },
        None => View::Lines { printed: HashMap::new() },
    };
    loop {
        check_metrics_measured(&runs.shown, &options.metrics)?;
        view.show(&runs.shown, options)?;
        if runs.have_ended() {
            return view.end(&runs.shown, options);
        }
        loop {
            if interrupt::requested() {
                if matches!(view, View::Screen { .. }) {
                    print_lines(&[String::new()])?; // below what was drawn
                }
                print_lines(&heading(&runs.shown, &look().0))?;
                let kept = "the runs themselves go on as they were".into();
                return Err(Interrupted { kept }.into());
            }
            if runs.update(paths)? || view.is_stale() {
                break;
            }
            thread::sleep(TICK);
        }
    }
}

/// Checks the metrics' names once a run has made steps: only then is it known what it measures.
fn check_metrics_measured(runs: &[Run], metrics: &[String]) -> Result<()> {
    let have_begun = runs.iter().all(|run| run.log.last_step().is_some_and(|step| step > 0));
    if have_begun { check_metrics(runs, metrics) } else { Ok(()) }
}

/// Runs in their state at the last reading.
struct Runs {
    shown: Vec<Run>,
    traces: Vec<Trace>,
    looked: Instant,
    interval: Duration,
    unreadable: Option<Instant>,
}

impl Runs {
    fn read(paths: &[PathBuf]) -> Result<Self> {
        // The traces are taken before reading, so that lines written meanwhile count as new.
        let traces = paths.iter().map(|path| Trace::of(path)).collect();
        let shown = Run::read_all(paths)?;
        Ok(Self { shown, traces, looked: Instant::now(), interval: INTERVAL, unreadable: None })
    }

    /// Reads the runs again if it is time and they have changed. Returns whether they have changed.
    fn update(&mut self, paths: &[PathBuf]) -> Result<bool> {
        if self.looked.elapsed() < self.interval {
            return Ok(false);
        }
        let begin = Instant::now();
        let traces: Vec<Trace> = paths.iter().map(|path| Trace::of(path)).collect();
        let has_changed = traces != self.traces;
        if has_changed {
            match Run::read_all(paths) {
                Ok(shown) => (self.shown, self.traces, self.unreadable) = (shown, traces, None),
                Err(error) => {
                    if self.unreadable.get_or_insert(begin).elapsed() > PATIENCE {
                        return Err(error.into());
                    }
                }
            }
        }
        self.looked = Instant::now();
        self.interval = INTERVAL.max(begin.elapsed() * IDLE);
        Ok(has_changed && self.unreadable.is_none())
    }

    fn have_ended(&self) -> bool {
        let has_ended =
            |run: &Run| matches!(run.state.condition, Condition::Complete | Condition::Stopped);
        self.shown.iter().all(has_ended)
    }
}

/// How runs are shown.
enum View {
    /// Drawn in place.
    Screen {
        /// Columns and lines of the terminal when the screen was last drawn.
        size: (usize, usize),
        drawn: Instant,
    },
    /// A line per step.
    Lines {
        /// Each run's last printed step, by the path of its log.
        printed: HashMap<PathBuf, u64>,
    },
}

impl View {
    fn show(&mut self, runs: &[Run], options: &PageOptions) -> Result<()> {
        let (look, height) = look();
        match self {
            Self::Screen { size, drawn } => {
                let height = height.unwrap_or(size.1);
                (*size, *drawn) = ((look.width, height), Instant::now());
                draw(&format!("{CLEAR}{}", screen(runs, options, height, &look).join("\r\n")))
            }
            Self::Lines { printed } => {
                let mut lines = Vec::new();
                if printed.is_empty() && runs.iter().any(|run| run.log.last_step().is_some()) {
                    lines.extend(heading(runs, &look));
                }
                for run in runs {
                    let Some(last) = run.log.last_step() else { continue };
                    let mut after = printed.insert(run.log.path.clone(), last);
                    if after.is_some_and(|after| after > last) {
                        let name = visible(&run.name);
                        lines.push(format!("{name}: goes on after step {last} again"));
                        after = Some(last);
                    }
                    let after = after.or_else(|| last.checked_sub(BEFORE));
                    lines.extend(news(run, after, runs.len() > 1, &options.metrics, &look));
                }
                print_lines(&lines)
            }
        }
    }

    /// Whether the screen must be drawn again although the runs have not grown.
    fn is_stale(&self) -> bool {
        let Self::Screen { size, drawn } = self else { return false };
        let (look, height) = look();
        (look.width, height.unwrap_or(size.1)) != *size || drawn.elapsed() > REDRAWN
    }

    /// Shows everything about the runs that have ended.
    fn end(self, runs: &[Run], options: &PageOptions) -> Result<()> {
        let (look, _) = look();
        if matches!(self, Self::Screen { .. }) {
            draw(CLEAR)?;
            return print_lines(&page(runs, options, &look));
        }
        print_lines(&heading(runs, &look))?;
        print_lines(&law(runs, &look))
    }
}
