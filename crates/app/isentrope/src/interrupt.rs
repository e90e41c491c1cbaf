//! Signals: the first asks the work to wind up; a SIGINT after it, or a second SIGTERM, ends the
//! process at once.
//!
//! Ctrl-C is SIGINT. Schedulers such as Slurm send SIGTERM and SIGUSR1 before they end a job.
//! Programs get SIGHUP when their terminal is closed.

use crate::messages;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{io, thread};

/// Exit status of a process that was asked to end.
pub const EXIT_STATUS: u8 = 130;
/// The words for how the current work winds up, once such work has begun.
static WINDING_UP: OnceLock<&str> = OnceLock::new();
/// The last sentence of a process that ends before such work has begun.
static NOTHING_LOST: OnceLock<&str> = OnceLock::new();
static REQUESTED: AtomicBool = AtomicBool::new(false);
/// Whether SIGINT ends an answer and not the process.
static CONVERSES: AtomicBool = AtomicBool::new(false);
/// Whether an answer is under way that SIGINT has not ended.
static ANSWERS: AtomicBool = AtomicBool::new(false);
/// The temporary file to remove when the process ends at once.
static TEMPORARY: Mutex<Option<PathBuf>> = Mutex::new(None);
/// Processes to kill when this process ends at once.
static CHILDREN: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The outlook that the first signal's message mentions.
static OUTLOOK: Mutex<Option<Outlook>> = Mutex::new(None);

/// The time that winding up takes, and the cost of ending at once.
pub struct Outlook {
    /// When the current step is likely to end.
    pub ends: Option<Instant>,
    /// The work that a second signal loses, as in "the steps after 40".
    pub loss: String,
}

/// Sets the outlook that the first signal's message mentions.
pub fn set_outlook(outlook: Outlook) {
    *OUTLOOK.lock().unwrap_or_else(PoisonError::into_inner) = Some(outlook);
}

/// The work stopped because it was asked to.
#[derive(Debug, thiserror::Error)]
#[error("interrupted: {kept}")]
pub struct Interrupted {
    /// The results that were kept.
    pub kept: String,
}

/// Starts listening. Until [`wind_up_first`] the first signal ends the process; where there are no
/// Unix signals, every one does.
pub fn listen() {
    #[cfg(unix)]
    signals::listen();
}

/// From now on the first signal makes [`requested`] true, which the work polls. The message to the
/// user contains `told`, as in "finishing the current step".
pub fn wind_up_first(told: &'static str) {
    let _ = WINDING_UP.set(told); // a process has one command
}

/// Until [`wind_up_first`] the first signal ends the process with this sentence.
pub fn end_saying(nothing_lost: &'static str) {
    let _ = NOTHING_LOST.set(nothing_lost);
}

/// Like [`wind_up_first`], without a message, for work that ends at once.
pub fn wind_up_quietly() {
    wind_up_first("");
}

/// From now on SIGINT ends the current answer of a conversation, and never the process.
pub fn converse() {
    CONVERSES.store(true, Ordering::Relaxed);
}

/// Begins or ends an answer.
pub fn set_answering(answers: bool) {
    ANSWERS.store(answers, Ordering::Relaxed);
}

/// Whether the current answer may go on.
pub fn may_answer() -> bool {
    ANSWERS.load(Ordering::Relaxed)
}

/// Whether the work has been asked to end.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Registers a temporary file, to be removed if the process ends at once.
pub fn clean_up(path: &Path) {
    *TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner) = Some(path.to_owned());
}

/// Registers a process, to be killed if this one ends at once, until [`has_ended`].
pub fn ends_with_this(process: u32) {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner).push(process);
}

/// Notes that a process has ended, so that its id may be another's.
pub fn has_ended(process: u32) {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner).retain(|child| *child != process);
}

/// Makes the work wind up, as the first signal does, when standard input ends. The parent process
/// closes it to request that, or by ending itself.
pub fn end_with_standard_input() {
    let wait = || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink()); // an error is an end, too
        REQUESTED.store(true, Ordering::Relaxed);
        match WINDING_UP.get() {
            Some(told) => messages::say(&format!("standard input has ended: {told}")),
            None => end_before_work(),
        }
    };
    // This fails only for want of threads; then signals still end the process.
    let _ = thread::Builder::new().name("standard input".into()).spawn(wait);
}

/// Ends the process, which has nothing to keep yet.
fn end_before_work() -> ! {
    if let Some(&nothing_lost) = NOTHING_LOST.get() {
        // If nobody reads standard error, the message blocks, and the end must not wait for it.
        let (sender, is_said) = mpsc::channel();
        thread::spawn(move || {
            if stderr().is_terminal() {
                messages::say(""); // the live line ends
            }
            messages::error(nothing_lost);
            let _ = sender.send(());
        });
        let _ = is_said.recv_timeout(Duration::from_secs(1));
    }
    #[cfg(unix)]
    signals::end_at_once();
    #[cfg(not(unix))]
    std::process::exit(130);
}

#[cfg(unix)]
mod signals {
    use super::{
        ANSWERS, CHILDREN, CONVERSES, OUTLOOK, Outlook, REQUESTED, TEMPORARY, WINDING_UP,
        end_before_work,
    };
    use crate::messages;
    use crate::standard_output::draw;
    use isentrope_files::is_ignored;
    use isentrope_lab::show::duration;
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
    use signal_hook::flag;
    use signal_hook::iterator::Signals;
    use std::io::{IsTerminal, stdout};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, PoisonError};
    use std::thread;
    use std::time::{Duration, Instant};

    /// Time in which a further signal counts as an echo of the first: `timeout` signals the process
    /// and then its group.
    const ECHO: Duration = Duration::from_millis(100);

    pub fn listen() {
        // SIGXFSZ (a file has reached its size limit) must not end the process: the write returns
        // an error, as on a full disk.
        let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
        // A shell without job control makes background programs ignore SIGINT. It is handled all
        // the same, because a user who sends one wants the process to end.
        let others = [SIGTERM, SIGHUP, SIGUSR1].into_iter().filter(|signal| !is_ignored(*signal));
        // This fails only for want of memory or threads; then the signals end the process at once.
        if let Ok(signals) = Signals::new(others.chain([SIGINT])) {
            let _ = thread::Builder::new().name("signals".into()).spawn(move || heed(signals));
        }
    }

    /// Only SIGINT, or a second SIGTERM, ends the process at once. Other signals are warnings that
    /// SIGTERM follows: Slurm sends it after SIGUSR1, a system that shuts down after SIGHUP.
    fn heed(mut signals: Signals) {
        let (mut first, mut first_term) = (None, None);
        for signal in signals.forever() {
            if signal == SIGINT && CONVERSES.load(Ordering::Relaxed) {
                if !ANSWERS.swap(false, Ordering::Relaxed) {
                    messages::say("\nCtrl-D or /exit ends the conversation");
                    if stdout().is_terminal() {
                        let _ = draw("> "); // the conversation finds out what is wrong
                    }
                }
                continue;
            }
            let Some(told) = WINDING_UP.get() else { end_before_work() };
            let before: Option<Instant> = match signal {
                SIGINT => first,
                SIGTERM => first_term,
                _ => None,
            };
            if before.is_some_and(|before| before.elapsed() >= ECHO) {
                end_at_once();
            }
            if signal == SIGTERM {
                first_term.get_or_insert_with(Instant::now);
            }
            if first.is_none() {
                first = Some(Instant::now());
                REQUESTED.store(true, Ordering::Relaxed);
                if told.is_empty() {
                    continue;
                }
                let (left, loss) = outlook();
                let said = match signal {
                    SIGINT => format!("\n{told}{left}; Ctrl-C again ends at once{loss}"),
                    _ => format!(
                        "{}: {told}{left}; SIGINT or another SIGTERM ends at once{loss}",
                        name(signal)
                    ),
                };
                // If nobody reads standard error, the message blocks, and the second signal must
                // not wait for it.
                thread::spawn(move || messages::say(&said));
            }
        }
    }

    /// The time left and the loss, as parts of the message.
    fn outlook() -> (String, String) {
        match &*OUTLOOK.lock().unwrap_or_else(PoisonError::into_inner) {
            None => (String::new(), String::new()),
            Some(Outlook { ends, loss }) => {
                let left = ends.map_or(String::new(), |ends| {
                    let left = ends.saturating_duration_since(Instant::now());
                    format!(", about {}", duration(left.as_secs_f64()))
                });
                (left, format!(" and loses {loss}"))
            }
        }
    }

    pub fn end_at_once() -> ! {
        if let Some(path) = &*TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = std::fs::remove_file(path); // it may have got its final name by now
        }
        for child in &*CHILDREN.lock().unwrap_or_else(PoisonError::into_inner) {
            // The child may have ended. Nobody has waited for it, so no other process can have its
            // id.
            let _ = kill(Pid::from_raw((*child).cast_signed()), Signal::SIGKILL);
        }
        isentrope_reward::command::kill_all();
        isentrope_sandbox::kill_all();
        std::process::exit(130)
    }

    fn name(signal: i32) -> &'static str {
        match signal {
            SIGTERM => "SIGTERM",
            SIGHUP => "SIGHUP",
            _ => "SIGUSR1",
        }
    }
}
