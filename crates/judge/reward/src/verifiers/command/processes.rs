//! The processes of all workers of this program. Each is the head of a process group, so that
//! Ctrl-C in the terminal does not reach it, and what it starts ends with it.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::supervisor;

/// Time for a supervisor to end its worker, before it is killed itself.
const ENDING: Duration = Duration::from_secs(3);
/// Time between two checks whether a process has ended.
const LOOK: Duration = Duration::from_millis(2);

/// Processes that have not been ended.
static RUNNING: Mutex<Running> = Mutex::new(Running { heads: BTreeSet::new(), closed: false });

struct Running {
    heads: BTreeSet<Head>,
    /// Whether this program is about to end, so that no process may be started.
    closed: bool,
}

/// The process at the head of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    id: u32,
    /// Whether the process is a supervisor, which ends its worker on request.
    supervises: bool,
}

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process. It ends, with all that it has started, when this is dropped.
pub struct Process {
    child: Child,
    head: Head,
}

impl Process {
    /// Starts a program, behind a supervisor if this program has called
    /// [`supervision`](super::supervision).
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn start(
        program: &str,
        arguments: &[String],
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        let (mut command, supervises) = command(program, arguments)?;
        prepare(&mut command);
        command.process_group(0);
        let mut running = running();
        if running.closed {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the program is ending"));
        }
        let child = command.spawn()?;
        let head = Head { id: child.id(), supervises };
        running.heads.insert(head);
        Ok(Self { child, head })
    }

    /// The piped streams that have not been taken.
    pub fn streams(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits until the process ends, at most until `deadline`.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        while Instant::now() < deadline {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            thread::sleep(LOOK);
        }
        None
    }

    /// The process's status, if it has ended; everything that it has started is ended too.
    fn ended(&mut self) -> Option<ExitStatus> {
        let mut running = running();
        let status = self.child.try_wait().ok()??;
        if running.heads.remove(&self.head) && !self.head.supervises {
            kill_group(self.head);
        }
        Some(status)
    }

    /// Ends the process with all that it has started. Returns its status.
    pub fn end(&mut self) -> Option<ExitStatus> {
        if self.head.supervises {
            // Until the process has been waited for, no other process can have its id.
            let running = running();
            if running.heads.contains(&self.head) {
                ask(self.head);
            }
            drop(running);
            if let Some(status) = self.wait_until(Instant::now() + ENDING) {
                return Some(status);
            }
        }
        if running().heads.remove(&self.head) {
            kill_group(self.head);
        }
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends all processes and forbids new ones, for a program that ends without unwinding.
pub fn kill_all() {
    let mut running = running();
    running.closed = true;
    for &head in &running.heads {
        if head.supervises { ask(head) } else { kill_group(head) }
    }
    let deadline = Instant::now() + ENDING;
    for &head in running.heads.iter().filter(|head| head.supervises) {
        while Instant::now() < deadline && !has_ended(head) {
            thread::sleep(LOOK);
        }
    }
}

/// Prefixes of the variables that launchers set for their ranks.
const LAUNCHERS: [&str; 8] =
    ["OMPI_", "PMI_", "PMI2_", "PMIX_", "MPI_LOCAL", "HYD", "TORCHELASTIC_", "SLURM_STEP_"];
/// Further variables of ranks. `ISENTROPE_KEY` is a secret, too.
const OF_RANKS: [&str; 16] = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "ISENTROPE_RANKS",
    "ISENTROPE_PORT",
    "ISENTROPE_KEY",
    "ISENTROPE_PARENT",
];

/// The command without the launcher's variables: a worker that uses MPI or torch.distributed, or
/// starts this program, must not take itself for this rank.
fn command(program: &str, arguments: &[String]) -> io::Result<(Command, bool)> {
    let supervised = supervisor::supervised(program, arguments)?;
    let is_supervised = supervised.is_some();
    let mut command = supervised.unwrap_or_else(|| {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    });
    let is_of_ranks = |name: &str| {
        OF_RANKS.contains(&name) || LAUNCHERS.iter().any(|start| name.starts_with(start))
    };
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in names.filter(|name| is_of_ranks(name)) {
        command.env_remove(name);
    }
    Ok((command, is_supervised))
}

fn pid(head: Head) -> Pid {
    Pid::from_raw(head.id.cast_signed())
}

/// Asks a supervisor to end.
fn ask(head: Head) {
    supervisor::ask(pid(head));
}

fn kill_group(head: Head) {
    let _ = killpg(pid(head), Signal::SIGKILL); // it may have ended
}

/// Whether a child has ended. If so, it has been waited for.
fn has_ended(head: Head) -> bool {
    !matches!(waitpid(pid(head), Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Variables that the launchers were seen to set.
    const RANK: [&str; 20] = [
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_SIZE",
        "MPI_LOCALNRANKS",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "ROLE_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_USE_AGENT_STORE",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "ISENTROPE_RANKS",
        "ISENTROPE_PORT",
        "ISENTROPE_KEY",
        "ISENTROPE_PARENT",
    ];
    const OTHERS: [&str; 4] = ["ISENTROPE_API_KEY", "SLURM_JOB_ID", "RANKING", "CUDA_HOME"];

    /// A process has an environment of its own, so this test runs itself in one of a rank.
    #[test]
    fn workers_of_a_rank_do_not_have_its_variables() {
        if std::env::var_os("RANKING").is_none() {
            let mut rank = Command::new(std::env::current_exe().unwrap());
            rank.arg("workers_of_a_rank_do_not_have_its_variables");
            rank.envs([&RANK[..], &OTHERS].concat().into_iter().map(|name| (name, "7")));
            let output = rank.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        assert!(RANK.iter().all(|name| std::env::var_os(name).is_some()));
        let mut worker = Process::start("env", &[], |worker| {
            worker.stdout(std::process::Stdio::piped());
        })
        .unwrap();
        let printed = io::read_to_string(worker.streams().1.unwrap()).unwrap();
        let has = |name: &&&str| printed.lines().any(|line| line.starts_with(&format!("{name}=")));
        assert_eq!(RANK.iter().filter(has).collect::<Vec<_>>(), [] as [&&str; 0]);
        assert_eq!(OTHERS.iter().filter(has).count(), OTHERS.len(), "{printed}");
    }
}
