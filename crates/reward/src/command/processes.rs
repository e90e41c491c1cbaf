//! The processes of all workers of this program, each the head of a process group, so that whatever it starts ends with
//! it and Ctrl-C in the terminal does not reach it.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Process groups that have not been ended.
static RUNNING: Mutex<Running> = Mutex::new(Running { groups: BTreeSet::new(), closed: false });

struct Running {
    groups: BTreeSet<u32>,
    /// Whether the program is about to end, so that no more may be started.
    closed: bool,
}

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process at the head of a group of its own, which ends with this value.
pub struct Process(Child);

impl Process {
    /// # Errors
    /// As [`Command::spawn`].
    pub fn start(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut running = running();
        if running.closed {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the program is ending"));
        }
        let child = command.spawn()?;
        running.groups.insert(child.id());
        Ok(Self(child))
    }

    /// The streams that were asked for and have not been taken.
    pub fn streams(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.0.stdin.take(), self.0.stdout.take(), self.0.stderr.take())
    }

    /// Kills it with its whole group; how it ended, by itself or now.
    pub fn end(&mut self) -> Option<ExitStatus> {
        let mut running = running();
        // Before it is waited for: until then no other process can have its number.
        if running.groups.remove(&self.0.id()) {
            kill_group(self.0.id());
        }
        drop(running);
        let _ = self.0.kill(); // for systems without groups
        self.0.wait().ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Kills all of them and lets none be started any more: for a program that ends without unwinding.
pub fn kill_all() {
    let mut running = running();
    running.closed = true;
    for &group in &running.groups {
        kill_group(group);
    }
}

#[cfg(unix)]
fn kill_group(group: u32) {
    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;

    if let Ok(group) = i32::try_from(group) {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL); // it may have ended
    }
}

#[cfg(not(unix))]
fn kill_group(_: u32) {}
