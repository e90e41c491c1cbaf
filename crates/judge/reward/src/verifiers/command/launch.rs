//! Starts and ends a worker: a command, or an interpreter with the shim in front of a function, in
//! a jail or not.

use std::fmt;
use std::io::{self, ErrorKind};
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::time::Instant;

use isentrope_sandbox::{Ending, Jail, Program, Sandbox};

use super::processes::Process;
use super::{VerifierError, WorkerSettings};

/// The workers of a verifier.
pub struct Workers {
    /// The recipe's key that names the workers, for messages.
    pub key: String,
    /// The recipe's text for that key.
    pub value: String,
    /// How each is started.
    pub launch: Launch,
    /// The number of workers, and their limits.
    pub settings: WorkerSettings,
}

impl Workers {
    /// That they cannot judge.
    pub fn error(&self, problem: String, stderr: Option<String>) -> VerifierError {
        VerifierError { key: self.key.clone(), value: self.value.clone(), problem, stderr }
    }
}

/// How a worker is started.
pub enum Launch {
    /// The user's program with its arguments.
    Command(Vec<String>),
    /// A Python interpreter, with arguments by which it runs the shim in front of a function.
    Shim(Vec<String>),
    /// A Python interpreter with the shim, in a jail.
    JailedShim(Sandbox, Box<Program>),
}

/// A worker's process with its streams.
pub type StartedWorker = (WorkerProcess, ChildStdin, ChildStdout, ChildStderr);

impl Launch {
    /// Starts a worker.
    ///
    /// # Errors
    /// As [`Command::spawn`](std::process::Command::spawn), or [`Jail::start`].
    pub fn start(&self) -> io::Result<StartedWorker> {
        match self {
            Self::Command(command) | Self::Shim(command) => start_process(command),
            Self::JailedShim(sandbox, program) => {
                let mut jail = Jail::start(sandbox, program).map_err(io::Error::other)?;
                let (stdin, stdout, stderr) = jail.streams().ok_or_else(unstreamed)?;
                Ok((WorkerProcess::Jail(jail), stdin, stdout, stderr))
            }
        }
    }

    /// Whether a fresh worker is asked whether it can work, and how.
    pub fn greets(&self) -> bool {
        !matches!(self, Self::Command(_))
    }

    /// Whether each question has a process of its own, of which nothing is left for the next.
    pub fn judges_apart(&self) -> bool {
        matches!(self, Self::JailedShim(..))
    }

    /// Describes the sandbox around a worker, as it follows a sentence about it.
    pub fn walls(&self) -> String {
        match self {
            Self::Command(_) | Self::Shim(_) => String::new(),
            Self::JailedShim(sandbox, _) => {
                format!("; it is in a sandbox ({})", sandbox.describe())
            }
        }
    }

    /// The error that a worker could not be started, with the remedy.
    pub fn failed(&self, error: &io::Error) -> String {
        match self {
            Self::Command(command) => {
                let is_line =
                    command.first().is_some_and(|program| program.contains(char::is_whitespace));
                let hint = if error.kind() == ErrorKind::NotFound && is_line {
                    "; each word must be an entry of its own, as in [\"python3\", \"reward.py\"]"
                } else {
                    ""
                };
                format!("the command cannot be started: {error}{hint}")
            }
            Self::Shim(command) => {
                interpreter_failed(command.first().map_or("", String::as_str), error)
            }
            Self::JailedShim(..) => error.to_string(),
        }
    }
}

fn start_process(command: &[String]) -> io::Result<StartedWorker> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it is empty"))?;
    let mut process = Process::start(program, arguments, |command| {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Without this variable, Python would buffer answers.
        command.env("PYTHONUNBUFFERED", "1");
    })?;
    let (Some(stdin), Some(stdout), Some(stderr)) = process.streams() else {
        return Err(unstreamed());
    };
    Ok((WorkerProcess::Process(process), stdin, stdout, stderr))
}

fn unstreamed() -> io::Error {
    io::Error::other("its streams are not there")
}

/// The error that an interpreter could not be started, with the remedy.
pub fn interpreter_failed(interpreter: &str, error: &io::Error) -> String {
    let missing = error.kind() == ErrorKind::NotFound;
    let hint = if missing { "; install Python 3, or name it in `interpreter`" } else { "" };
    format!("the interpreter {interpreter:?} cannot be started: {error}{hint}")
}

/// The process or jail of a worker.
pub enum WorkerProcess {
    /// A process with all rights of the user.
    Process(Process),
    Jail(Jail),
}

impl WorkerProcess {
    /// Waits until the worker ends, at most until `deadline`.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<Status> {
        match self {
            Self::Process(process) => process.wait_until(deadline).map(Status::Process),
            Self::Jail(jail) => {
                jail.wait_for(deadline.saturating_duration_since(Instant::now())).map(Status::Jail)
            }
        }
    }

    /// Ends the worker, and everything that it has started.
    pub fn end(&mut self) {
        match self {
            Self::Process(process) => drop(process.end()),
            Self::Jail(jail) => drop(jail.end()),
        }
    }
}

/// How a worker ended. `Display` follows "the worker ended" in parentheses.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// As a process does.
    Process(ExitStatus),
    /// As a jail does.
    Jail(Ending),
}

impl Status {
    /// The exit code, if the worker ended by itself.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Process(status) => status.code(),
            Self::Jail(Ending::Exited(code)) => Some(*code),
            Self::Jail(_) => None,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(status) => status.fmt(f),
            Self::Jail(Ending::Exited(code)) => write!(f, "exit status: {code}"),
            Self::Jail(Ending::Signaled(signal)) => write!(f, "signal: {signal}"),
            Self::Jail(Ending::MemoryLimit) => {
                f.write_str("it took more memory than its sandbox gives")
            }
            Self::Jail(Ending::ProcessLimit) => {
                f.write_str("it started more processes than its sandbox allows")
            }
            Self::Jail(Ending::TemporaryLimit) => {
                f.write_str("it made more files than its sandbox allows")
            }
            Self::Jail(Ending::Ended | Ending::Lost) => f.write_str("its sandbox was ended"),
        }
    }
}
