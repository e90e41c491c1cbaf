//! The outer process's end of the inner one.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, getegid, geteuid};
use rustix::net::SendFlags;
use rustix::process::{PidfdFlags, Signal as SignalByHandle, pidfd_open, pidfd_send_signal};

use super::message::{receive, send};
use super::plan::{Answer, Method, Plan};
use super::role::{self, Role};
use super::{Problem, attempt, bubblewrap, identity};
use crate::Ending;

/// The inner process and its descendants. They end when this value is dropped.
pub struct Inner {
    /// The child of this process: the inner process itself, or `bwrap` in front of it.
    child: Pid,
    /// The complaints of `bwrap`.
    complaints: Option<io::PipeReader>,
    /// The socket whose end shows the inner process that this one is gone.
    control: UnixStream,
    /// The first process of the jail, once it is known.
    first: Option<(Pid, OwnedFd)>,
    /// How the child ended, once known. From then on another process may have its id.
    status: Option<nix::Result<WaitStatus>>,
}

impl Inner {
    /// Starts the inner process, which waits for its plan.
    pub fn start(plan: &Plan) -> Result<Self, Problem> {
        let (control, theirs) = attempt("a socket cannot be made", UnixStream::pair())?;
        let (mut command, complaints) = match &plan.method {
            Method::Bubblewrap(bwrap) => {
                let (complaints, stderr) = attempt("a pipe cannot be made", io::pipe())?;
                let mut command = bubblewrap::command(bwrap, plan)?;
                command.stderr(stderr);
                (command, Some(complaints))
            }
            method => (own_namespaces(method)?, None),
        };
        let started = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).spawn();
        let child: Child = attempt("the inner process cannot be started", started)?;
        let child = Pid::from_raw(child.id().cast_signed());
        Ok(Self { child, complaints, control, first: None, status: None })
    }

    /// The child of this process.
    pub fn child(&self) -> Pid {
        self.child
    }

    /// The jail's first process, once started, with a descriptor that is readable when the process
    /// has ended.
    pub fn first(&self) -> Option<&(Pid, OwnedFd)> {
        self.first.as_ref()
    }

    /// Sends the plan, and waits until the inner process has become the program. Returns the
    /// version of Landlock that it found.
    pub fn become_program(&mut self, plan: &Plan, streams: Vec<OwnedFd>) -> Result<u8, Problem> {
        let (answers, theirs) = attempt("a socket cannot be made", UnixStream::pair())?;
        let beside: Vec<_> = streams.iter().map(AsFd::as_fd).chain([theirs.as_fd()]).collect();
        let told = send(&self.control, plan, &beside);
        drop(beside);
        drop((streams, theirs));
        let answer = told.and_then(|()| receive(&answers));
        let landlock = match answer {
            Ok((Answer::Ready(landlock), _)) => landlock,
            Ok((Answer::Failed(problem), _)) => return Err(problem),
            Err(error) => return Err(self.silence(&error)),
        };
        self.first = Some(self.find_first()?);
        attempt(
            "the inner process has gone",
            rustix::net::send(&self.control, &[1], SendFlags::NOSIGNAL),
        )?;
        match receive(&answers) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(landlock),
            Err(error) => Err(self.silence(&error)),
            Ok((Answer::Failed(problem), _)) => Err(problem),
            Ok((Answer::Ready(_), _)) => Err("the inner process is ready twice".into()),
        }
    }

    /// Why there is no answer.
    fn silence(&mut self, error: &io::Error) -> Problem {
        self.end();
        let said =
            self.complaints.take().and_then(|complaints| io::read_to_string(complaints).ok());
        match said.unwrap_or_default().lines().last() {
            Some(line) => line.replace(char::is_control, " "),
            None => format!("the inner process does not answer: {error}"),
        }
    }

    fn find_first(&self) -> Result<(Pid, OwnedFd), Problem> {
        let mut first = self.child.as_raw();
        if self.complaints.is_some() {
            let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children"));
            first = children
                .ok()
                .and_then(|list| list.trim().parse().ok())
                .ok_or("bwrap has no child")?;
        }
        let pid = rustix::process::Pid::from_raw(first).ok_or("there is no inner process")?;
        let handle = attempt("a process cannot be watched", pidfd_open(pid, PidfdFlags::empty()))?;
        // When the machine runs out of memory, the kernel kills the jail first.
        let _ = fs::write(format!("/proc/{first}/oom_score_adj"), "1000");
        Ok((Pid::from_raw(first), handle))
    }

    /// Kills the whole jail, unless it has ended, and waits until its process namespace is empty.
    /// Returns how the jail ended.
    pub fn end(&mut self) -> Option<Ending> {
        if let Some((_, first)) = &self.first {
            // The first process ends only after the last process of its namespace.
            let _ = pidfd_send_signal(first, SignalByHandle::KILL);
            let mut event = [PollFd::new(first.as_fd(), PollFlags::POLLIN)];
            while poll(&mut event, PollTimeout::NONE) == Err(Errno::EINTR) {}
        }
        while self.status.is_none() {
            if self.complaints.is_none() || self.first.is_none() {
                let _ = kill(self.child, Signal::SIGKILL); // others end by themselves now
            }
            self.status =
                Some(waitpid(self.child, None)).filter(|status| *status != Err(Errno::EINTR));
        }
        match self.status?.ok()? {
            // Like a shell, bwrap reports the signal that its child died of.
            WaitStatus::Exited(_, code) if code > 128 && self.complaints.is_some() => {
                Some(Ending::Signaled(code - 128))
            }
            WaitStatus::Exited(_, code) => Some(Ending::Exited(code)),
            WaitStatus::Signaled(_, signal, _) => Some(Ending::Signaled(signal as i32)),
            _ => None,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end();
    }
}

/// Enters a new process namespace, whose first process will be the next child.
fn own_namespaces(method: &Method) -> Result<Command, Problem> {
    let mut command = attempt("this program's file is not known", role::command(Role::Inner))?;
    command.stderr(Stdio::null());
    if *method == Method::UserNamespace {
        let (user, group) = (geteuid(), getegid()); // nobody in the new namespace, at first
        let new = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID;
        attempt("a user namespace cannot be made (unshare)", unshare(new))?;
        identity::enter_user_namespace(user, group)?;
    } else {
        attempt("a process namespace cannot be made (unshare)", unshare(CloneFlags::CLONE_NEWPID))?;
    }
    Ok(command)
}
