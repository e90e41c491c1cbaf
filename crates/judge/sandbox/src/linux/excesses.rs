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

/// How much more than allowed is tried.
const BEYOND: u64 = 2;

/// After how long what is counted from outside has been counted.
const NOTICED: Duration = Duration::from_secs(1);

/// All of which the end can be survived.
pub fn all(limits: &Limits) -> impl Iterator<Item = (&'static str, Outcome)> {
    [
        ("write a file that is too long", long_file(limits)),
        ("open too many files", open_files(limits)),
        ("take too much address space", take_space(limits)),
    ]
    .into_iter()
}

/// Held if what was taken is within the limit and something said why there is no more.
fn within(taken: u64, limit: u64, stopped: Option<impl std::fmt::Display>) -> Outcome {
    match stopped {
        Some(error) if taken <= limit => Ok(format!("{error} after {taken} of {limit}")),
        _ => Err(format!("{taken} were taken, and there are {limit}")),
    }
}

fn long_file(limits: &Limits) -> Outcome {
    // Without the signal there is an error instead.
    let _ = SigSet::from_iter([Signal::SIGXFSZ]).thread_block();
    let path = Path::new("/tmp/long");
    let set = File::create(path).and_then(|file| file.set_len(limits.file_bytes * BEYOND));
    let length = path.metadata().map_or(0, |found| found.len());
    let _ = fs::remove_file(path);
    within(length, limits.file_bytes, set.err())
}

/// Writes to `/tmp` as long as there is room.
pub fn fill_temporary(limits: &Limits) -> Outcome {
    let piece = vec![1; usize::try_from(limits.file_bytes.min(1 << 20)).unwrap_or(1 << 20)];
    let pieces = limits.temporary_bytes * BEYOND / piece.len() as u64;
    let (written, stopped) = fill(pieces, |path| fs::write(path, &piece));
    within(written * piece.len() as u64, limits.temporary_bytes, stopped)
}

/// Makes files in `/tmp` as long as there may be more.
pub fn fill_with_files(limits: &Limits) -> Outcome {
    let (made, stopped) =
        fill(limits.temporary_files * BEYOND, |path| File::create(path).map(drop));
    within(made, limits.temporary_files, stopped)
}

/// Makes so many files in `/tmp`; how many there could be, and why not more.
fn fill(files: u64, make: impl Fn(String) -> io::Result<()>) -> (u64, Option<io::Error>) {
    for number in 0..files {
        if let Err(error) = make(format!("/tmp/{number}")) {
            return (number, Some(error));
        }
    }
    thread::sleep(NOTICED);
    (files, None)
}

fn open_files(limits: &Limits) -> Outcome {
    let mut open = Vec::new();
    let mut stopped = None;
    while (open.len() as u64) < limits.open_files * BEYOND && stopped.is_none() {
        match File::open("/dev/null") {
            Ok(file) => open.push(file),
            Err(error) => stopped = Some(error),
        }
    }
    within(open.len() as u64, limits.open_files, stopped)
}

/// Starts threads, which are counted as processes are, as long as there may be more.
pub fn start_threads(limits: &Limits) -> Outcome {
    let mut started = 0;
    let mut stopped = None;
    while started < limits.processes * BEYOND && stopped.is_none() {
        match thread::Builder::new().stack_size(64 << 10).spawn(thread::park) {
            Ok(_) => started += 1,
            Err(error) => stopped = Some(error),
        }
    }
    if stopped.is_none() {
        thread::sleep(NOTICED);
    }
    within(started, limits.processes, stopped)
}

fn take_space(limits: &Limits) -> Outcome {
    let mut space = Vec::<u8>::new();
    let length = usize::try_from(limits.address_space_bytes).unwrap_or(usize::MAX);
    match space.try_reserve_exact(length) {
        Ok(()) => Err(format!("{length} bytes were taken")),
        Err(error) => Ok(error.to_string()),
    }
}

/// Takes memory as long as there is any, in this process and so many others, each of which keeps
/// within its own limit.
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

/// Starts a process that has let go of everything, and ends.
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
