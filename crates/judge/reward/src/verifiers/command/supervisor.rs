//! The process between this program and a worker. It ends when either ends, and ends everything
//! that the worker has started.
//!
//! A program cannot do this for itself: when it is killed it does nothing any more, and a process
//! that its worker's child has put into a session of its own is in no group that it knows. So this
//! program starts itself once more in front of each worker. That process adopts whatever loses its
//! parent below it, so that nothing gets away, and the kernel tells it when the program has gone.
//! If it is killed itself, the kernel kills the worker.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use isentrope_files::{is_ignored, this_program};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill, killpg, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, dup2_stderr, dup2_stdout, getppid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// The argument by which the program supervises the command that follows.
const SUPERVISE: &str = "__worker";
/// The argument by which the program becomes the command, which follows the id of its supervisor's
/// process.
const BECOME: &str = "__worker-command";

/// A child of the supervisor has ended.
const ENDED: i32 = SIGCHLD;
/// The program asks the supervisor to end its worker, by [`ask`].
const ASKED: i32 = SIGUSR2;
/// Signals that schedulers send to every process of a job. The program handles them, and may still
/// need the worker.
const PASSED_OVER: [i32; 4] = [SIGHUP, SIGINT, SIGTERM, SIGUSR1];

/// Time that a worker may go on when nobody can ask it any more.
const ABANDONED: Duration = Duration::from_secs(3);
/// Time for a worker's descendants to die.
const DYING: Duration = Duration::from_secs(2);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The program that supervises workers: this one, if its `main` begins with [`supervision`].
static SUPERVISOR: OnceLock<PathBuf> = OnceLock::new();

/// If this program was started as a supervisor, does the supervisor's work and returns its exit
/// code. In any other process returns `None`, and workers are supervised from then on. Call it at
/// the beginning of `main`: without it workers still end with their verifier, but not when the
/// program is killed, and processes that have left a worker's group go on.
pub fn supervision() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next();
    let command: Vec<OsString> = arguments.collect();
    match (role.as_deref().and_then(OsStr::to_str), command.split_first()) {
        (Some(SUPERVISE), Some(_)) => Some(supervise(&command)),
        (Some(BECOME), Some((supervisor, [program, arguments @ ..]))) => {
            Some(become_command(supervisor, program, arguments))
        }
        _ => {
            if let Ok(program) = this_program() {
                let _ = SUPERVISOR.set(program);
            }
            None
        }
    }
}

/// The command that starts `program` with a supervisor in front of it, if there is one in this
/// process.
///
/// # Errors
/// When the program cannot be started, which nobody could tell later.
pub fn supervised(program: &str, arguments: &[String]) -> io::Result<Option<Command>> {
    let Some(supervisor) = SUPERVISOR.get() else { return Ok(None) };
    check_program(program)?;
    let mut command = Command::new(supervisor);
    command.arg0("isentrope").arg(SUPERVISE).arg(program).args(arguments);
    Ok(Some(command))
}

/// Asks a supervisor to end its worker.
pub fn ask(supervisor: Pid) {
    let _ = kill(supervisor, Signal::SIGUSR2); // it may have ended
}

/// Looks for a program as the system does.
fn check_program(program: &str) -> io::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let places: Vec<PathBuf> = match program.contains('/') {
        true => vec![program.into()],
        false => std::env::split_paths(&path).map(|dir| dir.join(program)).collect(),
    };
    let mut error = io::Error::from_raw_os_error(Errno::ENOENT as i32);
    for place in places {
        use std::os::unix::fs::PermissionsExt;
        match place.metadata() {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => {
                return Ok(());
            }
            Ok(_) => error = io::Error::from_raw_os_error(Errno::EACCES as i32),
            Err(other) if program.contains('/') => error = other,
            Err(_) => {}
        }
    }
    Err(error)
}

/// An event that a supervisor waits for.
enum Event {
    /// A child has ended.
    Ended,
    /// The program wants the worker to end now.
    Asked,
    /// The worker's standard input is closed.
    Closed,
}

fn supervise(command: &[OsString]) -> ExitCode {
    let program = getppid();
    adopt_orphans();
    // Handlers are set before the worker starts, so that its end is not missed. An ignored signal
    // stays ignored, and the worker inherits that.
    let heeded = PASSED_OVER.into_iter().filter(|signal| !is_ignored(*signal));
    let Ok(signals) = Signals::new([ENDED, ASKED].into_iter().chain(heeded)) else {
        return ExitCode::FAILURE;
    };
    let worker = match start(command) {
        Ok(worker) => Pid::from_raw(worker.id().cast_signed()),
        Err(_) => return ExitCode::FAILURE, // this program could not start itself
    };
    if let_go_of_output().is_err() {
        kill_group(worker);
        return ExitCode::FAILURE;
    }
    let (events, happened) = mpsc::channel();
    let closed = events.clone();
    thread::spawn(move || listen(signals, &events));
    thread::spawn(move || watch_input(&closed));

    let mut deadline: Option<Instant> = None;
    let status = loop {
        match happened.recv_timeout(if deadline.is_some() { LOOK } else { Duration::MAX }) {
            Ok(Event::Ended) => {}
            // The program's files are closed a moment before the program is gone.
            Ok(Event::Closed) => deadline = Some(Instant::now() + ABANDONED),
            Err(RecvTimeoutError::Timeout)
                if getppid() == program
                    && deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
            Ok(Event::Asked) | Err(_) => kill_group(worker),
        }
        if let Some(status) = reap(worker) {
            break status;
        }
    };
    kill_group(worker);
    kill_adopted();
    end_like(status)
}

/// Starts the worker at the head of a group of its own.
fn start(command: &[OsString]) -> io::Result<Child> {
    let mut worker = Command::new(this_program()?);
    worker.arg(BECOME).arg(std::process::id().to_string()).args(command).process_group(0).spawn()
}

/// Closes standard output and standard error, so that their reader sees the end when the worker
/// closes them.
fn let_go_of_output() -> io::Result<()> {
    let nothing = File::options().write(true).open("/dev/null")?;
    dup2_stdout(&nothing)?;
    Ok(dup2_stderr(&nothing)?)
}

/// Becomes the command, after asking the kernel to kill it when its supervisor is killed.
fn become_command(supervisor: &OsStr, program: &OsStr, arguments: &[OsString]) -> ExitCode {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL); // never refused for a signal that there is
    if getppid().to_string() != supervisor.to_string_lossy() {
        return ExitCode::FAILURE; // it is gone already
    }
    let error = Command::new(program).args(arguments).exec();
    let said = format!("{}: the command cannot be started: {error}\n", program.to_string_lossy());
    let _ = io::Write::write_all(&mut io::stderr(), said.as_bytes());
    ExitCode::from(126)
}

fn listen(mut signals: Signals, events: &Sender<Event>) {
    for signal in signals.forever() {
        let _ = match signal {
            ASKED => events.send(Event::Asked),
            ENDED => events.send(Event::Ended),
            _ => Ok(()),
        };
    }
}

/// Waits until the other end of standard input is closed, without reading the worker's input.
fn watch_input(events: &Sender<Event>) {
    let stdin = io::stdin();
    let mut input = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
    while poll(&mut input, PollTimeout::NONE) == Err(Errno::EINTR) {}
    let _ = events.send(Event::Closed);
}

/// Waits for the children that have ended. Returns the worker's status, if it is one of them.
fn reap(worker: Pid) -> Option<ExitStatus> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == worker => {
                return Some(ExitStatus::from_raw(code << 8));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == worker => {
                return Some(ExitStatus::from_raw(signal as i32));
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

fn kill_group(worker: Pid) {
    let _ = killpg(worker, Signal::SIGKILL); // it may have ended
}

/// Kills the worker's descendants. An orphan becomes a child of this process, and is killed in the
/// next round.
fn kill_adopted() {
    let started = Instant::now();
    while started.elapsed() < DYING {
        let left = children();
        if left.is_empty() {
            return;
        }
        for child in left {
            let _ = kill(child, Signal::SIGKILL);
            let _ = waitpid(child, Some(WaitPidFlag::WNOHANG)); // a dead one is there until it is waited for
        }
        thread::sleep(LOOK);
    }
}

#[cfg(target_os = "linux")]
fn adopt_orphans() {
    let _ = nix::sys::prctl::set_child_subreaper(true); // since Linux 3.4
}

/// On other systems orphans go to the first process, so those that have left the worker's group
/// cannot be found.
#[cfg(not(target_os = "linux"))]
fn adopt_orphans() {}

/// The children of this process.
#[cfg(target_os = "linux")]
fn children() -> Vec<Pid> {
    let this = std::process::id().to_string();
    let is_child = |pid: &i32| {
        // The name, in parentheses, may contain anything; state and parent follow.
        let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        let stat = String::from_utf8_lossy(&stat);
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        after.split_whitespace().nth(1) == Some(&this)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(is_child).map(Pid::from_raw).collect()
}

#[cfg(not(target_os = "linux"))]
fn children() -> Vec<Pid> {
    Vec::new()
}

/// Ends as the worker has, so that the program that started the supervisor sees how the worker
/// ended.
fn end_like(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal().and_then(|signal| Signal::try_from(signal).ok()) {
        // The worker has left its core file; one of this process must not replace it.
        if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_CORE) {
            let _ = setrlimit(Resource::RLIMIT_CORE, 0, hard);
        }
        let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
        let _ = raise(signal);
    }
    ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
}
