//! The process that stands outside of a jail: it starts the inner one, ends it when nobody wants it any more or it has taken too
//! much, and says how it ended.
//!
//! It is the only one of the three that the jail cannot reach and that outlives it. When it is killed, the kernel kills the inner
//! process, with which the kernel kills all others of its process namespace, and with the last of them go the mounts.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, close, dup2_stdin, setsid};
use rustix::process::{PidfdFlags, pidfd_open};

use super::message::{receive, send};
use super::plan::{Plan, Report, Way};
use super::role::{self, Role};
use super::watchdog::Watchdog;
use super::{Problem, attempt, identity, layout};
use crate::Ending;

/// Does the work of this process.
pub fn run() -> io::Result<()> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    close_inherited(&control)?;
    let _ = setsid(); // away from the terminal, whose Ctrl-C is for the program
    // What schedulers send to every process of a job is for the program too.
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2]
        .into_iter()
        .collect::<SigSet>()
        .thread_block()?;
    let (plan, streams) = receive(&control)?;
    let report = match supervise(&control, plan, streams) {
        Ok(ending) => Report::Ended(ending),
        Err(problem) => Report::Failed(problem),
    };
    send(&control, &report, &[])
}

/// Closes what this process was not meant to have, so that nothing behind it has it.
fn close_inherited(control: &UnixStream) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let own = control.as_raw_fd();
    let open: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2 && *number != own)
        .collect();
    for number in open {
        let _ = close(number); // the directory's own is closed already
    }
    Ok(dup2_stdin(fs::File::open("/dev/null")?)?)
}

fn supervise(control: &UnixStream, mut plan: Plan, streams: Vec<OwnedFd>) -> Result<Ending, Problem> {
    plan.shown = layout::shown(&plan.program)?;
    plan.user = match plan.way {
        Way::Root => Some(identity::unused_user()?),
        Way::UserNamespace | Way::Bubblewrap(_) => None,
    };
    let (inner, answer) = start_inner(&plan)?;
    let mut inner = Inner { pid: Pid::from_raw(inner.id().cast_signed()), status: None };
    let beside: Vec<_> = streams.iter().map(AsFd::as_fd).collect();
    attempt("the inner process takes no plan", send(&answer, &plan, &beside))?;
    drop(beside);
    drop(streams);
    match receive::<Problem>(&answer) {
        Ok((problem, _)) => return Err(problem),
        // Its end was closed as it became the program.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
        Err(error) => return Err(format!("the inner process does not answer: {error}")),
    }
    drop(answer);
    attempt("the starter has gone", send(control, &Report::Started, &[]))?;
    let watchdog = Watchdog::new(inner.pid, &plan.program.limits);
    let ending = watch(control, &inner, watchdog)?;
    let status = inner.end();
    Ok(match (ending, status) {
        (Some(ending), _) => ending,
        (None, Some(WaitStatus::Exited(_, code))) => Ending::Exited(code),
        (None, Some(WaitStatus::Signaled(_, signal, _))) => Ending::Signaled(signal as i32),
        (None, _) => Ending::Lost,
    })
}

/// The inner process and its answers, before it has the plan.
fn start_inner(plan: &Plan) -> Result<(Child, UnixStream), Problem> {
    let (ours, theirs) = attempt("a socket cannot be made", UnixStream::pair())?;
    let mut command = match &plan.way {
        Way::Bubblewrap(_) => return Err("not yet".into()),
        way => own_namespaces(way)?,
    };
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    Ok((attempt("this program cannot start itself", command.spawn())?, ours))
}

/// Leaves for a new process namespace, in which the next process is the first.
fn own_namespaces(way: &Way) -> Result<Command, Problem> {
    let new = match way {
        Way::UserNamespace => CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID,
        _ => CloneFlags::CLONE_NEWPID,
    };
    let command = attempt("this program's file is not known", role::command(Role::Inner))?;
    if *way == Way::UserNamespace {
        let map = identity::Map::of_this_user();
        attempt("a user namespace cannot be made (unshare)", unshare(new))?;
        map.apply()?;
    } else {
        attempt("a process namespace cannot be made (unshare)", unshare(new))?;
    }
    Ok(command)
}

/// The inner process, which ends with this value.
struct Inner {
    pid: Pid,
    /// How it ended, once it is known; then its number can be another's.
    status: Option<nix::Result<WaitStatus>>,
}

impl Inner {
    /// Kills it, and waits until nothing of its process namespace is left; how it had ended, if it had.
    fn end(&mut self) -> Option<WaitStatus> {
        while self.status.is_none() {
            let _ = kill(self.pid, Signal::SIGKILL);
            self.status = Some(waitpid(self.pid, None)).filter(|status| *status != Err(Errno::EINTR));
        }
        self.status?.ok()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until the program ends, or must; how it must.
fn watch(control: &UnixStream, inner: &Inner, mut watchdog: Watchdog) -> Result<Option<Ending>, Problem> {
    let pid = rustix::process::Pid::from_raw(inner.pid.as_raw()).ok_or("there is no inner process")?;
    let handle = attempt("a process cannot be watched", pidfd_open(pid, PidfdFlags::empty()))?;
    loop {
        let timeout = PollTimeout::try_from(watchdog.next_look()).unwrap_or(PollTimeout::MAX);
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut events = [readable(handle.as_fd()), readable(control.as_fd())];
        match poll(&mut events, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(format!("the jail cannot be watched: {error}")),
        }
        if events[0].any() == Some(true) {
            return Ok(None);
        }
        if events[1].any() == Some(true) {
            return Ok(Some(Ending::Ended));
        }
        if let Some(excess) = watchdog.look() {
            return Ok(Some(excess));
        }
    }
}
