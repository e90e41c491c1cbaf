//! One jail and the Python server in it (`python/server.py`), which forks a process for each run.

use std::io;
use std::time::{Duration, Instant};

use isentrope_sandbox::{Ending, Jail, Sandbox};
use serde::Serialize;
use serde_json::json;

use super::launch::{self, Role};
use super::pipes::Pipes;
use super::run_report::RunReport;
use super::{End, RunLimits, WorkerLimits};
use crate::wire::{Frame, Incoming, TooLong, append};
use crate::{JudgeError, Python};

/// Longest time that an interpreter may take to start. On an idle machine it takes at most half a
/// second.
const START: Duration = Duration::from_secs(60);

/// Longest time that a server may take to end all processes of a run.
const GRACE: Duration = Duration::from_secs(10);

/// Longest frame that a server sends: the report of a run, or a part of its output.
const LONGEST: usize = 1 << 17;

/// An order for a run, with its limits.
#[derive(Clone, Debug, Serialize)]
pub struct Order {
    /// How the content is run: `script`, `session` or `test`.
    pub mode: &'static str,
    /// Processor time, in seconds.
    pub cpu_s: u64,
    /// Address space, in bytes.
    pub memory_bytes: u64,
    /// Bytes on the standard output of a script, or of one message.
    pub output_bytes: usize,
}

impl Order {
    /// The order for a run that is asked a number of questions. Each may take the time of
    /// `limits`.
    pub fn new(mode: &'static str, limits: &RunLimits, questions: usize) -> Self {
        let questions = u32::try_from(questions).unwrap_or(u32::MAX);
        // The wall clock ends a run in time. This also ends processes that only compute.
        let cpu = limits.wall.saturating_mul(questions.max(1));
        let RunLimits { memory_bytes, output_bytes, .. } = *limits;
        Self {
            mode,
            cpu_s: cpu.as_secs().saturating_add(1).min(1 << 30),
            memory_bytes,
            output_bytes,
        }
    }
}

/// An event of a run.
#[derive(Debug)]
pub enum Event {
    /// The process has written these bytes: a script's standard output, otherwise a part of a
    /// message.
    Output(Vec<u8>),
    /// The process has ended, and all its children with it.
    Ended(RunReport),
    /// Nothing has come before the deadline.
    Late,
}

/// A message of a run's process, or the reason why none comes.
#[derive(Debug)]
pub enum Reply {
    /// A message.
    Message(Frame),
    /// The process has ended, and all its children with it.
    Ended(RunReport),
    /// Nothing in time.
    Late,
    /// More than it may.
    TooLong,
}

/// The server no longer works. Holds the end of the run that it was busy with. Any call that waits
/// for the server may return this.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerFailure(pub End);

/// A jail with its server. The jail ends with this value.
#[derive(Debug)]
pub struct Server {
    jail: Jail,
    pipes: Pipes,
    /// From the server.
    frames: Incoming,
    /// Messages from the run's process.
    messages: Incoming,
    /// The order of the run, until it has ended.
    running: Option<Order>,
    /// Whether it has failed.
    broken: bool,
}

impl Server {
    /// Starts a jail, and waits until the interpreter in it is ready.
    pub fn start(
        sandbox: &Sandbox,
        python: &Python,
        limits: &WorkerLimits,
        role: Role,
    ) -> Result<Self, JudgeError> {
        let program = launch::program(python, limits);
        let failed =
            |what: String| JudgeError(format!("a worker for programs cannot be started: {what}"));
        let mut jail = Jail::start(sandbox, &program).map_err(|error| failed(error.to_string()))?;
        let streams = jail.streams().ok_or_else(|| failed("the jail has no streams".into()))?;
        let pipes = Pipes::new(streams).map_err(|error| failed(error.to_string()))?;
        let (frames, messages) = (Incoming::default(), Incoming::default());
        let mut server = Self { jail, pipes, frames, messages, running: None, broken: false };
        server.send(b'S', launch::first_frame(role).to_string().as_bytes());
        match server.frame(Instant::now() + START) {
            Ok(Some(Frame { kind: b'H', .. })) => Ok(server),
            Ok(_) => Err(failed("the interpreter is not ready in time".into())),
            Err(ServerFailure(end)) => Err(failed(match end {
                End::Fault(what) | End::RuntimeError(what) => what,
                end => format!("the interpreter ends at once ({end:?})"),
            })),
        }
    }

    /// Whether it still runs.
    pub fn is_there(&mut self) -> bool {
        !self.broken && self.running.is_none() && self.jail.wait_for(Duration::ZERO).is_none()
    }

    /// Begins a run. `content` is the input of its process.
    pub fn order(&mut self, order: Order, content: &serde_json::Value) {
        self.messages.clear();
        self.send(b'R', json!(order).to_string().as_bytes());
        self.send(b'C', content.to_string().as_bytes());
        self.running = Some(order);
        let _ = self.pipes.flush(); // an error is found again when it is asked for what happens
    }

    /// Tells the process of the run something.
    pub fn tell(&mut self, kind: u8, body: &[u8]) {
        let mut message = Vec::with_capacity(body.len() + 5);
        append(&mut message, kind, body);
        self.send(b'M', &message);
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        append(self.pipes.outgoing(), kind, body);
    }

    /// Waits for the next event of the run.
    pub fn event(&mut self, deadline: Instant) -> Result<Event, ServerFailure> {
        let Some(frame) = self.frame(deadline)? else { return Ok(Event::Late) };
        match frame.kind {
            b'O' => Ok(Event::Output(frame.body)),
            b'E' if self.running.is_some() => match RunReport::read(&frame.body) {
                Ok(ended) => {
                    self.running = None;
                    self.broken = ended.left.is_some();
                    Ok(Event::Ended(ended))
                }
                Err(error) => Err(self.broken(&error.to_string())),
            },
            kind => Err(self.broken(&format!("a frame of the kind {kind}"))),
        }
    }

    /// The next message of the run's process, of `longest` bytes at most.
    pub fn message(&mut self, longest: usize, deadline: Instant) -> Result<Reply, ServerFailure> {
        loop {
            match self.messages.next(longest) {
                Ok(Some(message)) => return Ok(Reply::Message(message)),
                Err(TooLong) => return Ok(Reply::TooLong),
                Ok(None) => {}
            }
            match self.event(deadline)? {
                Event::Output(bytes) => self.messages.push(&bytes),
                Event::Ended(ended) => return Ok(Reply::Ended(ended)),
                Event::Late => return Ok(Reply::Late),
            }
        }
    }

    /// Ends the run and all processes that it has started, if it has not ended already.
    pub fn finish(&mut self) -> Result<(), ServerFailure> {
        if self.broken {
            return Err(ServerFailure(End::Fault(String::new())));
        }
        if self.running.is_some() {
            self.send(b'K', b"");
        }
        let deadline = Instant::now() + GRACE;
        while self.running.is_some() {
            if let Event::Late = self.event(deadline)? {
                return Err(self.broken("a run does not end"));
            }
        }
        Ok(())
    }

    fn frame(&mut self, deadline: Instant) -> Result<Option<Frame>, ServerFailure> {
        loop {
            match self.frames.next(LONGEST) {
                Ok(Some(frame)) => return Ok(Some(frame)),
                Err(TooLong) => return Err(self.broken("a frame without end")),
                Ok(None) => {}
            }
            match self.pipes.read(deadline) {
                Ok([]) => return Ok(None),
                Ok(bytes) => self.frames.push(bytes),
                Err(error) => return Err(self.ended(&error)),
            }
        }
    }

    /// The server talks nonsense.
    fn broken(&mut self, what: &str) -> ServerFailure {
        self.broken = true;
        self.jail.end();
        ServerFailure(End::Fault(format!(
            "the server in the jail does not do as it should: {what}"
        )))
    }

    /// The server's streams have ended.
    fn ended(&mut self, error: &io::Error) -> ServerFailure {
        self.broken = true;
        let ending = self.jail.wait_for(Duration::from_secs(1)).unwrap_or_else(|| self.jail.end());
        ServerFailure(match ending {
            Ending::MemoryLimit => End::MemoryLimit,
            Ending::ProcessLimit => {
                End::RuntimeError("it started more processes than it may".into())
            }
            Ending::TemporaryLimit => End::RuntimeError("it made more files than it may".into()),
            ending => {
                let said = self.pipes.errors();
                let said = if said.is_empty() { error.to_string() } else { said };
                End::Fault(format!("the server in the jail has ended ({ending:?}): {said}"))
            }
        })
    }
}
