//! Progress of long work on stderr: bars on a terminal, elsewhere only important lines.

use crate::messages;
use crate::visible::capped;
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use isentrope_hub as hub;
use std::cell::RefCell;
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two lines if there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Work that takes longer is announced.
const SLOW: Duration = Duration::from_secs(1);

/// Runs `work`, and says `what` it is if it takes more than a second.
pub fn announce_if_slow<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (under_way, ended) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if ended.recv_timeout(SLOW) == Err(RecvTimeoutError::Timeout) {
                messages::say(what);
            }
        });
        let done = work();
        drop(under_way);
        done
    })
}

/// Work that is counted in items and has a speed worth showing.
pub struct Work {
    bar: ProgressBar,
    what: &'static str,
    total: Option<u64>,
    lines: Option<Instant>,
}

impl Work {
    /// Begins work on `total` items of `what`, if their number is known. With `hidden` nothing is
    /// shown.
    pub fn new(what: &'static str, total: Option<u64>, hidden: bool) -> Self {
        let terminal = stderr().is_terminal();
        let target = if hidden || !terminal {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let lines = (!hidden && !terminal).then(Instant::now);
        Self { bar: bar(total, target), what, total, lines }
    }

    /// Shows that `done` items are done, with a `detail`.
    pub fn advance(&mut self, done: u64, detail: &str) {
        self.bar.set_position(done);
        self.bar.set_message(capped(&format!("{}  {detail}", self.what)));
        if let Some(last) = &mut self.lines
            && last.elapsed() >= LINE_INTERVAL
        {
            *last = Instant::now();
            let of = self.total.map_or(String::new(), |total| format!("/{total}"));
            messages::say(&format!("{done}{of} {}  {detail}", self.what));
        }
    }

    /// A note beside the bar.
    pub fn note(&self, text: &str) {
        self.bar.suspend(|| messages::note(text));
    }

    /// Takes the bar away.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

fn bar(total: Option<u64>, target: ProgressDrawTarget) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, target);
    let template = match total {
        Some(_) => "{bar:20} {pos}/{len} {wide_msg} {elapsed} (left: {eta})",
        None => "{pos} {wide_msg} {elapsed}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Downloads of large files.
#[derive(Default)]
pub struct Download {
    current: RefCell<Option<(String, ProgressBar)>>,
}

/// Downloads of NVIDIA's libraries are shown in the same way.
impl isentrope_cuda::gpu::Progress for Download {
    fn advance(&self, file: &str, done: u64, total: u64) {
        hub::Progress::advance(self, file, done, total);
    }

    fn warn(&self, message: &str) {
        hub::Progress::warn(self, message);
    }
}

impl hub::Progress for Download {
    fn advance(&self, file: &str, done: u64, total: u64) {
        let mut current = self.current.borrow_mut();
        if current.as_ref().is_none_or(|(name, _)| name != file) {
            let bar = ProgressBar::new(total);
            if let Ok(style) =
                ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}")
            {
                bar.set_style(style);
            }
            bar.set_message(capped(file));
            if !stderr().is_terminal() {
                messages::say(&format!("downloading {file} ({})", HumanBytes(total)));
            }
            *current = Some((file.to_owned(), bar));
        }
        if let Some((_, bar)) = &*current {
            bar.set_position(done);
            if done >= total {
                bar.finish();
            }
        }
    }

    fn say(&self, message: &str) {
        messages::say(message);
    }

    fn warn(&self, message: &str) {
        messages::warning(message);
    }
}
