//! The process that stands outside of a jail: it starts the inner one, ends it when its owner is
//! gone or a limit is exceeded, and reports how it ended.
//!
//! When it is killed itself, the kernel kills the inner process, with which the kernel kills all
//! others of its process namespace, and with the last of them go the mounts.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{close, dup2_stdin, setsid};

use super::cgroup::Cgroup;
use super::inner_process::Inner;
use super::message::{receive, send};
use super::plan::{Method, Plan, Report};
use super::watchdog::Watchdog;
use super::{Problem, attempt, identity, layout};
use crate::Ending;

/// Does the work of this process.
pub fn run() -> io::Result<()> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    close_inherited(&control)?;
    let _ = setsid(); // away from the terminal, whose Ctrl-C is for the program
    // Schedulers send these signals to every process of a job, but the main program should handle
    // them.
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

/// Closes inherited descriptors, so that the jail does not have them.
fn close_inherited(control: &UnixStream) -> io::Result<()> {
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

fn supervise(
    control: &UnixStream,
    mut plan: Plan,
    streams: Vec<OwnedFd>,
) -> Result<Ending, Problem> {
    let limits = plan.program.limits.clone();
    let cgroup = plan.cgroups.as_deref().map(|place| Cgroup::make(place, &limits)).transpose()?;
    plan.shown = layout::visible_paths(&plan.program)?;
    plan.user = match plan.method {
        Method::Root => Some(identity::unused_user()?),
        Method::UserNamespace | Method::Bubblewrap(_) => None,
    };
    let mut inner = Inner::start(&plan)?;
    if let Some(cgroup) = &cgroup {
        cgroup.add(inner.child())?;
    }
    let landlock = inner.become_program(&plan, streams)?;
    attempt("the starter has gone", send(control, &Report::Started(landlock), &[]))?;
    let mut watchdog = inner.first().map(|(first, _)| Watchdog::new(*first, &plan));
    let excess = watch(control, &inner, watchdog.as_mut())?;
    let ending = inner.end();
    Ok(match (excess, ending) {
        (Some(excess), _) => excess,
        // The kernel ended it, if a control group counts the memory.
        (None, _) if cgroup.as_ref().is_some_and(Cgroup::was_short_of_memory) => {
            Ending::MemoryLimit
        }
        (None, ending) => ending.unwrap_or(Ending::Lost),
    })
}

/// Waits until the program ends, or must be ended. Returns the reason if it must.
fn watch(
    control: &UnixStream,
    inner: &Inner,
    mut watchdog: Option<&mut Watchdog>,
) -> Result<Option<Ending>, Problem> {
    let (_, first) = inner.first().ok_or("there is no inner process")?;
    loop {
        let next = watchdog.as_ref().map_or(PollTimeout::NONE, |dog| dog.next_look());
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut events = [readable(first.as_fd()), readable(control.as_fd())];
        match poll(&mut events, next) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(format!("the jail cannot be watched: {error}")),
        }
        if events[0].any() == Some(true) {
            return Ok(None);
        }
        if events[1].any() == Some(true) {
            return Ok(Some(Ending::Ended));
        }
        if let Some(excess) = watchdog.as_mut().and_then(|dog| dog.look()) {
            return Ok(Some(excess));
        }
    }
}
