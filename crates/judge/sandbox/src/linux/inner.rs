//! The first process of a jail: it builds the walls around itself and then becomes the program.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::{set_no_new_privs, set_pdeathsig};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, sethostname, setsid};

use super::message::{receive, send};
use super::plan::{Answer, Method, Plan, Task};
use super::{
    Problem, attempt, bubblewrap, identity, landlock_rules, new_root, resource_limits, system_calls,
};

/// Every program's environment.
const ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", "/usr/bin:/bin"), ("HOME", "/tmp"), ("TMPDIR", "/tmp"), ("LANG", "C.UTF-8")];

/// Does the work of this process.
pub fn run() -> io::Result<()> {
    SigSet::empty().thread_set_mask()?; // the outer process blocks some for itself
    // This socket, like all that this process opens, is closed when the process becomes the
    // program.
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (plan, mut streams): (Plan, _) = receive(&control)?;
    let answers = UnixStream::from(streams.pop().ok_or(io::ErrorKind::InvalidInput)?);
    let landlock = match enter(&plan, &streams) {
        Ok(landlock) => landlock,
        Err(problem) => return send(&answers, &Answer::Failed(problem), &[]),
    };
    send(&answers, &Answer::Ready(landlock), &[])?;
    // Waits until the outer process has found this one. If the outer process is gone, this one ends
    // too.
    let mut go = [0];
    (&control).read_exact(&mut go)?;
    match plan.task {
        Task::Probe => Ok(()),
        Task::Run => send(&answers, &Answer::Failed(become_program(&plan)), &[]),
    }
}

/// Builds the walls around this process for good. Returns the version of Landlock.
fn enter(plan: &Plan, streams: &[OwnedFd]) -> Result<u8, Problem> {
    umask(Mode::from_bits_truncate(0o022));
    let limits = &plan.program.limits;
    let owner = plan.user.unwrap_or(identity::USER);
    match plan.method {
        Method::Root | Method::UserNamespace => {
            let _ = setsid(); // this process may be at the head of a session already
            let new = CloneFlags::CLONE_NEWNS
                | CloneFlags::CLONE_NEWNET
                | CloneFlags::CLONE_NEWIPC
                | CloneFlags::CLONE_NEWUTS;
            attempt("namespaces cannot be made (unshare)", unshare(new))?;
            new_root::enter(&plan.shown, limits, (owner, owner))?;
            attempt("the host cannot be named", sethostname("jail"))?;
        }
        Method::Bubblewrap(_) => bubblewrap::limit_files(limits),
    }
    let [stdin, stdout, stderr] = streams else { return Err("there are not three streams".into()) };
    let taken =
        dup2_stdin(stdin).and_then(|()| dup2_stdout(stdout)).and_then(|()| dup2_stderr(stderr));
    attempt("the standard streams cannot be taken", taken)?;
    identity::give_up(plan.user, matches!(plan.method, Method::Bubblewrap(_)))?;
    attempt("the end of the outer process cannot be followed", set_pdeathsig(Signal::SIGKILL))?;
    attempt("privileges cannot be given up", set_no_new_privs())?;
    let landlock = landlock_rules::restrict(&plan.shown)?;
    resource_limits::set(limits, &plan.method)?;
    system_calls::restrict()?;
    Ok(landlock)
}

/// Becomes the program. Returns only if that fails, with the reason.
fn become_program(plan: &Plan) -> Problem {
    let program = &plan.program;
    let environment = program.environment.iter().map(|(name, value)| (name, value));
    let error = Command::new(&program.program)
        .args(&program.arguments)
        .env_clear()
        .envs(ENVIRONMENT)
        .envs(environment)
        .exec();
    match error.kind() {
        io::ErrorKind::PermissionDenied if plan.method == Method::Root => format!(
            "{error} (run by root, it must be readable for all users, with its directory and the \
             libraries it needs)"
        ),
        _ => error.to_string(),
    }
}
