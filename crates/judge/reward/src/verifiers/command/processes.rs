//! The processes of all workers of this program. Each is the head of a process group, so that Ctrl-C
//! in the terminal does not reach it, and what it starts ends with it.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How often it is looked at whether a process has ended.
const LOOK: Duration = Duration::from_millis(2);

/// Processes that have not been ended.
static RUNNING: Mutex<Running> = Mutex::new(Running { heads: BTreeSet::new(), closed: false });

struct Running {
    /// Process numbers of the heads of groups.
    heads: BTreeSet<u32>,
    /// Whether the program is about to end, so that no more may be started.
    closed: bool,
}

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that ends with this value, and with it its group.
pub struct Process(Child);

impl Process {
    /// Starts a program.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn start(
        program: &str,
        arguments: &[String],
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments);
        // A command that a rank starts is no rank: a worker that uses MPI itself must not take the
        // rank's place.
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for name in names.filter(|name| LAUNCHERS.iter().any(|start| name.starts_with(start))) {
            command.env_remove(name);
        }
        prepare(&mut command);
        command.process_group(0);
        let mut running = running();
        if running.closed {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the program is ending"));
        }
        let child = command.spawn()?;
        running.heads.insert(child.id());
        Ok(Self(child))
    }

    /// The streams that were asked for and have not been taken.
    pub fn streams(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.0.stdin.take(), self.0.stdout.take(), self.0.stderr.take())
    }

    /// Waits for it to end by itself, until `deadline` at most.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        while Instant::now() < deadline {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            thread::sleep(LOOK);
        }
        None
    }

    /// How it has ended, if it has. Its group is ended then.
    fn ended(&mut self) -> Option<ExitStatus> {
        let mut running = running();
        let status = self.0.try_wait().ok()??;
        if running.heads.remove(&self.0.id()) {
            kill_group(self.0.id());
        }
        Some(status)
    }

    /// Ends it with its group; how it ended, by itself or now.
    pub fn end(&mut self) -> Option<ExitStatus> {
        if running().heads.remove(&self.0.id()) {
            kill_group(self.0.id());
        }
        let _ = self.0.kill();
        self.0.wait().ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends all of them and lets none be started any more: for a program that ends without unwinding.
pub fn kill_all() {
    let mut running = running();
    running.closed = true;
    running.heads.iter().copied().for_each(kill_group);
}

/// How the variables begin that launchers of MPI set for their ranks.
const LAUNCHERS: [&str; 6] = ["OMPI_", "PMI_", "PMI2_", "PMIX_", "MPI_LOCAL", "HYD"];

fn kill_group(head: u32) {
    let _ = killpg(Pid::from_raw(head.cast_signed()), Signal::SIGKILL); // it may have ended
}
