//! Taking more than a jail gives.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::setsid;

use super::attempts::{Outcome, Task, VARIABLE};
use super::role::{self, Role};
use crate::Limits;

/// The time in which the watchdog outside notices an excess.
const NOTICED: Duration = Duration::from_secs(1);

/// An excess and its name.
type Excess = (&'static str, fn(&Limits) -> Outcome);

/// Excesses that end with an error, after which this process goes on.
pub const SURVIVED: [Excess; 3] = [
    ("write a file that is too long", long_file),
    ("open too many files", open_files),
    ("take too much address space", take_space),
];

/// Excesses that leave a jail full, or end it: each needs a jail of its own.
pub const LASTING: [Excess; 3] = [
    ("fill /tmp", fill_temporary),
    ("fill /tmp with files", fill_with_files),
    ("start too many processes", start_threads),
];

/// Takes one resource after another, up to twice the limit. Held if an error stops it before.
fn take<T>(limit: u64, mut one: impl FnMut(u64) -> io::Result<T>) -> Outcome {
    let mut taken = Vec::new();
    for number in 0..2 * limit {
        match one(number) {
            Ok(thing) => taken.push(thing),
            Err(error) if number <= limit => {
                return Ok(format!("{error} after {number} of {limit}"));
            }
            Err(_) => break,
        }
    }
    thread::sleep(NOTICED);
    Err(format!("{} were taken, and there are {limit}", taken.len()))
}

fn long_file(limits: &Limits) -> Outcome {
    // With the signal blocked, the call returns an error instead.
    let _ = SigSet::from_iter([Signal::SIGXFSZ]).thread_block();
    let path = Path::new("/tmp/long");
    let set = File::create(path).and_then(|file| file.set_len(2 * limits.file_bytes));
    let length = path.metadata().map_or(0, |found| found.len());
    let _ = fs::remove_file(path);
    match set {
        Err(error) if length <= limits.file_bytes => Ok(error.to_string()),
        _ => Err(format!("{length} bytes were written")),
    }
}

fn fill_temporary(limits: &Limits) -> Outcome {
    let piece = vec![1; usize::try_from(limits.file_bytes.min(1 << 20)).unwrap_or(1 << 20)];
    let pieces = limits.temporary_bytes / piece.len() as u64;
    take(pieces, |number| fs::write(format!("/tmp/{number}"), &piece))
}

fn fill_with_files(limits: &Limits) -> Outcome {
    take(limits.temporary_files, |number| File::create(format!("/tmp/{number}")).map(drop))
}

fn open_files(limits: &Limits) -> Outcome {
    take(limits.open_files, |_| File::open("/dev/null"))
}

/// Threads are counted as processes are.
fn start_threads(limits: &Limits) -> Outcome {
    take(limits.processes, |_| thread::Builder::new().stack_size(64 << 10).spawn(thread::park))
}

fn take_space(limits: &Limits) -> Outcome {
    let mut space = Vec::<u8>::new();
    let length = usize::try_from(limits.address_space_bytes).unwrap_or(usize::MAX);
    match space.try_reserve_exact(length) {
        Ok(()) => Err(format!("{length} bytes were taken")),
        Err(error) => Ok(error.to_string()),
    }
}

/// Takes memory until none is left, in this process and a number of others. Each stays within its
/// own limit.
pub fn fill_memory(others: u32) -> io::Result<()> {
    let mut children = Vec::new();
    for _ in 0..others {
        children.extend(this_with(&Task::FillMemory(0)).and_then(|mut command| command.spawn()));
    }
    let mut taken = Vec::new();
    loop {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(1 << 20).is_err() {
            thread::park();
        }
        piece.resize(1 << 20, 1_u8);
        taken.push(piece);
    }
}

/// Starts a detached process, and ends.
pub fn outlive_as(name: &str) -> io::Result<()> {
    let mut command = this_with(&Task::Outlive)?;
    command.arg(name).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = command.spawn();
    let _ = setsid();
    let said = started.map_or_else(|error| error.to_string(), |_| "started".to_owned());
    io::stdout().write_all(said.as_bytes())?;
    io::stdout().flush()?;
    loop {
        thread::park();
    }
}

/// This program, with another task.
fn this_with(task: &Task) -> io::Result<Command> {
    let this = std::env::args_os().next().unwrap_or_default();
    let mut command = Command::new(this);
    let (name, value) = role::variable_below(Role::Attempts);
    command.env(name, value).env(VARIABLE, serde_json::to_string(task)?);
    Ok(command)
}
