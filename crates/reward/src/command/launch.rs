//! What a worker is and how it is started: a command, or an interpreter with the shim in front of a function.

use std::io::{self, ErrorKind};
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::time::Instant;

use super::VerifierError;
use super::processes::Process;

/// The workers of a verifier.
pub struct Workers {
    /// The recipe's key that names them, for messages.
    pub key: String,
    /// What the recipe has there, as it is written.
    pub value: String,
    /// How each is started.
    pub launch: Launch,
    /// How many there are.
    pub count: usize,
    /// Longest time for an answer, in seconds.
    pub timeout_s: f64,
    /// What a fresh worker's first answer may take beyond that, in seconds.
    pub startup_s: f64,
}

impl Workers {
    /// That they cannot judge.
    pub fn error(&self, problem: String, stderr: Option<String>) -> VerifierError {
        VerifierError { key: self.key.clone(), value: self.value.clone(), problem, stderr }
    }
}

/// How a worker is started.
pub enum Launch {
    /// As a program of the user's with its arguments.
    Command(Vec<String>),
    /// As a Python interpreter, with arguments by which it runs the shim in front of a function.
    Shim(Vec<String>),
}

/// A worker's process with its streams.
pub type Started = (Body, ChildStdin, ChildStdout, ChildStderr);

impl Launch {
    /// Starts a worker.
    ///
    /// # Errors
    /// As [`Command::spawn`](std::process::Command::spawn).
    pub fn start(&self) -> io::Result<Started> {
        let (Self::Command(command) | Self::Shim(command)) = self;
        let (program, arguments) =
            command.split_first().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it is empty"))?;
        let mut process = Process::start(program, arguments, |command| {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            // Else Python keeps an answer back until it has many.
            command.env("PYTHONUNBUFFERED", "1");
        })?;
        let (Some(stdin), Some(stdout), Some(stderr)) = process.streams() else {
            return Err(io::Error::other("its streams are not there"));
        };
        Ok((Body::Process(process), stdin, stdout, stderr))
    }

    /// Whether a fresh worker is asked to say that it can work, and how.
    pub fn greets(&self) -> bool {
        !matches!(self, Self::Command(_))
    }

    /// That a worker could not be started, and what to do.
    pub fn failed(&self, error: &io::Error) -> String {
        let missing = error.kind() == ErrorKind::NotFound;
        match self {
            Self::Command(command) => {
                let is_line = command.first().is_some_and(|program| program.contains(char::is_whitespace));
                let hint = if missing && is_line {
                    "; each word must be an entry of its own, as in [\"python3\", \"reward.py\"]"
                } else {
                    ""
                };
                format!("the command cannot be started: {error}{hint}")
            }
            Self::Shim(command) => {
                let interpreter = command.first().map_or("", String::as_str);
                let hint = if missing { "; install Python 3, or name it in `interpreter`" } else { "" };
                format!("the interpreter {interpreter:?} cannot be started: {error}{hint}")
            }
        }
    }
}

/// A worker's process.
pub enum Body {
    /// One with everything that the user may do.
    Process(Process),
}

impl Body {
    /// Waits for it to end by itself, until `deadline` at most.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        match self {
            Self::Process(process) => process.wait_until(deadline),
        }
    }

    /// Ends it, and everything that it has started.
    pub fn end(&mut self) {
        match self {
            Self::Process(process) => drop(process.end()),
        }
    }
}
