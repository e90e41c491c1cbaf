//! A program that tries to leave the jail in which it runs, and reports the outcome.
//!
//! It is this program once more, so that the self-test needs no other. What it tries is in
//! `escapes`; what it takes is in `excesses`. Its starter passes it the targets outside.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::escapes::ESCAPES;
use super::excesses;
use crate::{Attempt, Limits};

/// The environment variable of such a process, which holds its [`Task`].
pub const VARIABLE: &str = "ISENTROPE_SANDBOX_ATTEMPTS";

/// The attempts to make.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    /// Try to leave, and exceed every limit whose excess the process survives.
    Escape(EscapeTargets),
    /// Commit the excess with this index in [`excesses::LASTING`].
    Exceed(usize, Limits),
    /// Take more memory than the limit, with this number of other processes.
    FillMemory(u32),
    /// Take more processor time than the limit.
    BurnTime,
    /// Leave behind a detached process that has this text among its arguments.
    OutliveAs(String),
    /// To be that process.
    Outlive,
}

/// Things outside of the jail.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EscapeTargets {
    /// A file that the starter can read.
    pub file: String,
    /// The starter's process.
    pub process: i32,
    /// A port of this machine on which a process listens.
    pub port: u16,
    /// An abstract socket on which a process listens.
    pub socket: String,
    /// The limits of the jail.
    pub limits: Limits,
    /// Whether to make only the attempts that do no harm if nothing stops them.
    pub harmless: bool,
}

/// An attempt's outcome: what stopped it, or what it got.
pub type Outcome = Result<String, String>;

/// Does the work of this process.
pub fn run() -> io::Result<()> {
    let task = std::env::var(VARIABLE).map_err(io::Error::other)?;
    match serde_json::from_str(&task)? {
        Task::Escape(outside) => {
            let mut made = Vec::new();
            for escape in ESCAPES.iter().filter(|escape| escape.harmless || !outside.harmless) {
                made.push(attempt(escape.name, (escape.attempt)(&outside)));
            }
            for (name, exceed) in excesses::SURVIVED.iter().filter(|_| !outside.harmless) {
                made.push(attempt(name, exceed(&outside.limits)));
            }
            say(&made)
        }
        Task::Exceed(number, limits) => {
            let (name, exceed) =
                excesses::LASTING.get(number).ok_or(io::ErrorKind::InvalidInput)?;
            say(&[attempt(name, exceed(&limits))])
        }
        Task::FillMemory(others) => excesses::fill_memory(others),
        Task::BurnTime => loop {
            std::hint::spin_loop();
        },
        Task::OutliveAs(name) => excesses::outlive_as(&name),
        Task::Outlive => loop {
            std::thread::park();
        },
    }
}

fn say(made: &[Attempt]) -> io::Result<()> {
    io::stdout().write_all(&serde_json::to_vec(made)?)
}

fn attempt(name: &str, outcome: Outcome) -> Attempt {
    let (held, how) = match outcome {
        Ok(stopped) => (true, stopped),
        Err(got) => (false, got),
    };
    Attempt { name: name.to_owned(), held, how }
}
