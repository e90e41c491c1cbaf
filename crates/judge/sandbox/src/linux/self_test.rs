//! Proves the sandbox by trying to leave it.

use std::fs;
use std::io::{self, Read};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::attempts::{EscapeTargets, Task, VARIABLE};
use super::excesses::LASTING;
use super::role::{self, Role};
use super::{Jail, Sandbox};
use crate::{Attempt, Ending, Limits, Program};

/// Limits that are soon reached.
fn limits() -> Limits {
    Limits {
        memory_bytes: 64 << 20,
        address_space_bytes: 512 << 20,
        processes: 16,
        open_files: 64,
        temporary_bytes: 8 << 20,
        temporary_files: 100,
        file_bytes: 1 << 20,
        cpu_s: None,
    }
}

/// Longest time of a step of the self-test.
const PATIENCE: Duration = Duration::from_secs(20);

impl Sandbox {
    /// Tries to leave a jail, to exceed its limits, and to leave a process behind. Returns each
    /// attempt's outcome. Takes about two seconds.
    pub fn self_test(&self) -> Vec<Attempt> {
        let mut attempts =
            self.escapes().unwrap_or_else(|problem| vec![failed("leave a jail", problem)]);
        let excesses = LASTING.iter().enumerate();
        let excesses = excesses.map(|(number, (name, _))| (*name, self.exceed(number)));
        let endings = [
            ("take more memory than all processes together may", self.fill_memory()),
            ("take more processor time than a process may", self.burn_time()),
            ("leave a process behind", self.outlive()),
        ];
        attempts.extend(excesses.chain(endings).map(|(name, outcome)| match outcome {
            Ok((held, how)) => Attempt { name: name.into(), held, how },
            Err(problem) => failed(name, problem),
        }));
        attempts
    }

    /// Starts this program in a jail to try something.
    fn try_to(&self, task: &Task, limits: Limits) -> Result<Jail, String> {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let task = serde_json::to_string(task).map_err(|error| error.to_string())?;
        let environment = vec![role::variable(Role::Attempts), (VARIABLE.into(), task.into())];
        let program = Program { program: this, environment, limits, ..Program::default() };
        Jail::start(self, &program).map_err(|error| error.to_string())
    }

    fn escapes(&self) -> Result<Vec<Attempt>, String> {
        let bait = Bait::lay(false).map_err(|error| error.to_string())?;
        let (attempts, ending) = self.attempts_of(&Task::Escape(bait.outside.clone()))?;
        attempts.ok_or_else(|| format!("it did not say what it found ({ending:?})"))
    }

    /// A jailed program's report on its attempts, if it lives to give one, and how it ended.
    fn attempts_of(&self, task: &Task) -> Result<(Option<Vec<Attempt>>, Ending), String> {
        let mut jail = self.try_to(task, limits())?;
        let (_, mut stdout, _) = jail.streams().ok_or("a jail has no streams")?;
        let mut said = Vec::new();
        stdout.read_to_end(&mut said).map_err(|error| error.to_string())?;
        let ending = jail.wait();
        Ok((serde_json::from_slice(&said).ok(), ending))
    }

    /// Makes an excess, which must be refused or end the jail.
    fn exceed(&self, number: usize) -> Result<(bool, String), String> {
        let (attempts, ending) = self.attempts_of(&Task::Exceed(number, limits()))?;
        Ok(match attempts.and_then(|mut attempts| attempts.pop()) {
            Some(attempt) => (attempt.held, attempt.how),
            None => {
                let held = matches!(ending, Ending::TemporaryLimit | Ending::ProcessLimit);
                (held, described(Some(ending)))
            }
        })
    }

    fn fill_memory(&self) -> Result<(bool, String), String> {
        let mut jail = self.try_to(&Task::FillMemory(3), limits())?;
        let ending = jail.wait_for(PATIENCE);
        Ok((ending == Some(Ending::MemoryLimit), described(ending)))
    }

    fn burn_time(&self) -> Result<(bool, String), String> {
        let mut jail = self.try_to(&Task::BurnTime, Limits { cpu_s: Some(1), ..limits() })?;
        let ending = jail.wait_for(PATIENCE);
        Ok((matches!(ending, Some(Ending::Signaled(_))), described(ending)))
    }

    fn outlive(&self) -> Result<(bool, String), String> {
        let name = format!("isentrope-outlives-{}", std::process::id());
        let mut jail = self.try_to(&Task::OutliveAs(name.clone()), limits())?;
        let started = Instant::now();
        while processes_with(&name) == 0 {
            if started.elapsed() > PATIENCE {
                return Err("the process that is to be left did not start".into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        jail.end();
        Ok(match processes_with(&name) {
            0 => (true, "it ended with the jail".into()),
            _ => (false, "it is still there".into()),
        })
    }
}

/// Targets outside of a jail that attempts try to reach.
struct Bait {
    outside: EscapeTargets,
    _listeners: (TcpListener, UnixListener),
}

impl Bait {
    fn lay(harmless: bool) -> io::Result<Self> {
        static LAID: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "isentrope-self-test-{}-{}",
            std::process::id(),
            LAID.fetch_add(1, Ordering::Relaxed)
        );
        let file = std::env::temp_dir().join(&name);
        let tcp = TcpListener::bind(("127.0.0.1", 0))?;
        let unix = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        fs::write(&file, "secret")?;
        let outside = EscapeTargets {
            file: file.display().to_string(),
            process: std::process::id().cast_signed(),
            port: tcp.local_addr()?.port(),
            socket: name,
            limits: limits(),
            harmless,
        };
        Ok(Self { outside, _listeners: (tcp, unix) })
    }
}

impl Drop for Bait {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.outside.file);
    }
}

fn failed(name: &str, problem: String) -> Attempt {
    Attempt { name: name.into(), held: false, how: format!("the self-test failed: {problem}") }
}

fn described(ending: Option<Ending>) -> String {
    match ending {
        Some(Ending::MemoryLimit | Ending::ProcessLimit | Ending::TemporaryLimit) => {
            "the jail was ended".into()
        }
        Some(Ending::Signaled(signal)) => format!("it died of signal {signal}"),
        Some(other) => format!("it ended otherwise ({other:?})"),
        None => "it still ran".into(),
    }
}

/// Processes of this machine that have this among their arguments.
fn processes_with(argument: &str) -> usize {
    let has = |entry: &fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().filter(has).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    /// Without a jail the attempts succeed, so their failure in a jail proves something.
    #[test]
    fn nothing_holds_where_there_is_no_jail() {
        let bait = Bait::lay(true).unwrap();
        let task = serde_json::to_string(&Task::Escape(bait.outside.clone())).unwrap();
        let mut command = role::command(Role::Attempts).unwrap();
        let (name, value) = role::variable_below(Role::Attempts);
        command.env(name, value).env(VARIABLE, task).env("SECRET", "1").stdin(Stdio::null());
        let output = command.output().unwrap();
        let attempts: Vec<Attempt> = serde_json::from_slice(&output.stdout).unwrap();
        let mut held: Vec<_> = attempts.iter().filter(|attempt| attempt.held).collect();
        // A user who is not root has no privileges anyway, and some systems forbid tracing and
        // reading others.
        let depends = [
            "have privileges",
            "raise a limit",
            "trace a process outside",
            "read the memory of a process outside",
        ];
        held.retain(|attempt| !depends.contains(&attempt.name.as_str()));
        assert!(held.is_empty(), "{held:?}");
        assert_eq!(attempts.len(), 13);
    }
}
