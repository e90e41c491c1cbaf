//! Draws runs again whenever they have grown, until they end.

use super::{check_metrics, look, print_lines};
use crate::interrupt::{self, Interrupted};
use crate::standard_output::draw;
use anyhow::{Result, bail};
use isentrope_lab::run::{Condition, Run};
use isentrope_lab::show::{PageOptions, Trace, heading, page, screen};
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

/// Follows runs on a terminal until all of them have ended.
pub fn follow(paths: &[PathBuf], options: &PageOptions) -> Result<()> {
    if look().1.is_none() {
        bail!(
            "--follow needs a terminal that it can draw on: without it runs are shown as they are \
             now, and `tail -f RUN/metrics.jsonl` has the steps to come"
        );
    }
    interrupt::wind_up_quietly();
    let mut runs = Runs::read(paths)?;
    let mut view = Screen { size: (0, 0), drawn: Instant::now() };
    loop {
        check_metrics_measured(&runs.shown, &options.metrics)?;
        view.draw(&runs.shown, options)?;
        if runs.have_ended() {
            draw(CLEAR)?;
            return print_lines(&page(&runs.shown, options, &look().0));
        }
        loop {
            if interrupt::requested() {
                print_lines(&[String::new()])?; // below what was drawn
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

/// Runs drawn in place on the terminal.
struct Screen {
    /// Columns and lines of the terminal when it was last drawn.
    size: (usize, usize),
    drawn: Instant,
}

impl Screen {
    fn draw(&mut self, runs: &[Run], options: &PageOptions) -> Result<()> {
        let (look, height) = look();
        let height = height.unwrap_or(self.size.1);
        *self = Self { size: (look.width, height), drawn: Instant::now() };
        draw(&format!("{CLEAR}{}", screen(runs, options, height, &look).join("\r\n")))
    }

    /// Whether it must be drawn again although the runs have not grown.
    fn is_stale(&self) -> bool {
        let (look, height) = look();
        (look.width, height.unwrap_or(self.size.1)) != self.size || self.drawn.elapsed() > REDRAWN
    }
}
