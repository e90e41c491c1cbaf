//! The starter's end of a jail.

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::message::{receive, send};
use super::plan::{Plan, Report, Task};
use super::role::{self, Role};
use super::{Problem, Sandbox, attempt, cgroup};
use crate::{Ending, Error, Program};

/// Time for the outer process to end a jail, before it is killed itself.
const ENDING: Duration = Duration::from_secs(5);

/// The jails of this process that have not been ended.
static RUNNING: Mutex<Running> = Mutex::new(Running { jails: BTreeMap::new(), closed: false });

struct Running {
    /// The sockets to the outer processes, by process id.
    jails: BTreeMap<u32, UnixStream>,
    /// Whether this program is about to end, so that no jail may be started.
    closed: bool,
}

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program in a jail. The program and its descendants end when this value is dropped.
#[derive(Debug)]
pub struct Jail {
    outer: Child,
    control: UnixStream,
    streams: Option<(ChildStdin, ChildStdout, ChildStderr)>,
    ending: Option<Ending>,
    /// The version of Landlock that it has, 0 for none.
    landlock: u8,
    /// The directory of the jail's control group, if it has one.
    cgroups: Option<PathBuf>,
}

impl Jail {
    /// Starts a program, and returns once it runs.
    ///
    /// # Errors
    /// When it cannot be started, or [`kill_all`] has been called.
    pub fn start(sandbox: &Sandbox, program: &Program) -> Result<Self, Error> {
        Self::with(sandbox.plan(program, Task::Run))
            .map_err(|problem| Error { program: program.program.display().to_string(), problem })
    }

    /// Starts what a plan says.
    pub(super) fn with(plan: Plan) -> Result<Self, Problem> {
        let pipe = || attempt("a pipe cannot be made", io::pipe());
        let ((stdin, to_stdin), (from_stdout, stdout), (from_stderr, stderr)) =
            (pipe()?, pipe()?, pipe()?);
        let (control, theirs) = attempt("a socket cannot be made", UnixStream::pair())?;
        let outer = attempt("this program cannot start itself", start_outer(theirs, &control))?;
        let streams = (
            ChildStdin::from(OwnedFd::from(to_stdin)),
            ChildStdout::from(OwnedFd::from(from_stdout)),
            ChildStderr::from(OwnedFd::from(from_stderr)),
        );
        // The jail ends when this value is dropped.
        let cgroups = plan.cgroups.clone();
        let mut jail =
            Self { outer, control, streams: Some(streams), ending: None, landlock: 0, cgroups };
        let theirs = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let report = send(&jail.control, &plan, &theirs).and_then(|()| receive(&jail.control));
        match report {
            Ok((Report::Started(landlock), _)) => {
                jail.landlock = landlock;
                Ok(jail)
            }
            Ok((Report::Failed(problem), _)) => Err(problem),
            Ok((Report::Ended(ending), _)) => Err(format!("it ended before it began ({ending:?})")),
            Err(error) => Err(format!("the process in front of it does not answer: {error}")),
        }
    }

    /// The version of Landlock that it has, 0 for none.
    pub(super) fn landlock(&self) -> u8 {
        self.landlock
    }

    /// The program's standard input, output and error; None after the first call. A caller that
    /// writes much must read meanwhile, or both sides block.
    pub fn streams(&mut self) -> Option<(ChildStdin, ChildStdout, ChildStderr)> {
        self.streams.take()
    }

    /// Waits until the program ends, or the jail is ended because of a limit.
    pub fn wait(&mut self) -> Ending {
        self.ending.clone().unwrap_or_else(|| self.hear())
    }

    /// Like [`wait`](Self::wait), but waits at most this time.
    pub fn wait_for(&mut self, time: Duration) -> Option<Ending> {
        let ended = self.ending.is_some() || is_readable(&self.control, time);
        ended.then(|| self.wait())
    }

    /// Ends the jail and all its processes, unless it has ended already, and returns how it ended.
    pub fn end(&mut self) -> Ending {
        if self.ending.is_none() {
            let _ = self.control.shutdown(Shutdown::Write);
            if !is_readable(&self.control, ENDING) {
                let _ = self.outer.kill(); // the kernel kills the rest
            }
        }
        self.wait()
    }

    /// Reads from the outer process how the jail ended, and waits for that process.
    fn hear(&mut self) -> Ending {
        let ending = match receive(&self.control) {
            Ok((Report::Ended(ending), _)) => ending,
            _ => Ending::Lost,
        };
        let _ = self.control.shutdown(Shutdown::Both);
        running().jails.remove(&self.outer.id());
        let _ = self.outer.wait();
        if let (Ending::Lost, Some(place)) = (&ending, &self.cgroups) {
            cgroup::remove_after(place, self.outer.id());
        }
        self.ending = Some(ending.clone());
        ending
    }
}

impl Drop for Jail {
    fn drop(&mut self) {
        self.end();
    }
}

fn start_outer(theirs: UnixStream, ours: &UnixStream) -> io::Result<Child> {
    let mut command = role::command(Role::Outer)?;
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    let ours = ours.try_clone()?;
    let mut running = running();
    if running.closed {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "the program is ending"));
    }
    let outer = command.spawn()?;
    running.jails.insert(outer.id(), ours);
    Ok(outer)
}

/// Whether bytes, or the end of the stream, can be read within this time.
fn is_readable(socket: &UnixStream, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // The time is rounded up, because poll would not wait at all with less than a millisecond.
        let timeout =
            PollTimeout::try_from(left + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) | Err(_) if Instant::now() < deadline => {}
            Ok(ready) => return ready > 0,
            Err(_) => return false,
        }
    }
}

/// Ends all jails of this process and forbids new ones, for a program that ends without unwinding.
pub fn kill_all() {
    let mut running = running();
    running.closed = true;
    for control in running.jails.values() {
        let _ = control.shutdown(Shutdown::Write);
    }
    let deadline = Instant::now() + ENDING;
    for control in running.jails.values() {
        // The message is left for the jail's owner to read; the end of the stream comes after it.
        is_readable(control, deadline.saturating_duration_since(Instant::now()));
    }
}
