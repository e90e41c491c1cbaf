//! Ranks that this process starts on its own machine, beside itself: it is rank 0.

use crate::error::{Error, Result};
use crate::launch::{KEY_VARIABLE, Launch, PORT_VARIABLE, RANKS_VARIABLE, Way};
use crate::tcp::{Meeting, random};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Names the process that has started this one as a rank.
pub(crate) const PARENT_VARIABLE: &str = "ISENTROPE_PARENT";
/// The name of this launcher ([`Library::launcher`](crate::Library::launcher)).
pub const LOCAL_LAUNCHER: &str = "isentrope --ranks";
/// Longest wait for processes whose ranks have taken leave.
const PATIENCE: Duration = Duration::from_secs(10);

/// The processes of the other ranks, in rank order from 1.
pub(crate) type Children = Arc<Mutex<Vec<Child>>>;

/// The processes of ranks that this one has started. They are gone when this is dropped.
#[derive(Debug)]
pub struct LocalRanks(Children);

impl LocalRanks {
    /// Starts the other ranks of `size`, each as `command` makes it. They are in process groups of
    /// their own, so that a terminal's Ctrl-C reaches rank 0 alone.
    ///
    /// # Errors
    /// [`Error::Start`] when there is no port, or the program cannot be started.
    pub fn start(size: usize, command: impl Fn() -> Command) -> Result<(Self, Launch)> {
        if std::env::var_os(PARENT_VARIABLE).is_some() {
            return Err(Error::Start("a rank that --ranks has started starts no more".into()));
        }
        let here = Ipv4Addr::LOCALHOST;
        let cannot = |error| Error::Start(format!("ranks cannot be started here: {error}"));
        let listener = TcpListener::bind((here, 0)).map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        let key: String = random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let local = Self(Arc::default());
        for rank in 1..size {
            let mut command = command();
            command.env(RANKS_VARIABLE, "on").env("RANK", rank.to_string());
            command.env("LOCAL_RANK", rank.to_string()).env("WORLD_SIZE", size.to_string());
            command.env("MASTER_ADDR", here.to_string()).env(PORT_VARIABLE, port.to_string());
            command.env(KEY_VARIABLE, &key).env(PARENT_VARIABLE, std::process::id().to_string());
            #[cfg(unix)]
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            let child = command.stdin(Stdio::null()).spawn().map_err(|error| {
                local.kill(); // those that run would wait for the others
                cannot(error)
            })?;
            local.0.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        }
        let meeting = Meeting {
            launcher: LOCAL_LAUNCHER,
            rank: 0,
            size,
            host: here.to_string(),
            port,
            key,
            listener: Some(listener),
            children: Arc::clone(&local.0),
        };
        Ok((local, Launch(Way::Tcp(meeting))))
    }

    /// The processes, to be killed if this one ends at once.
    pub fn processes(&self) -> Vec<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Child::id).collect()
    }

    /// Ends the processes, because the ranks have not come together.
    pub fn kill(&self) {
        for child in &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = child.kill(); // it may have ended
        }
    }
}

impl Drop for LocalRanks {
    fn drop(&mut self) {
        let begun = Instant::now();
        for child in &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            while matches!(child.try_wait(), Ok(None)) {
                if begun.elapsed() > PATIENCE {
                    let _ = child.kill(); // it has ended by itself, then
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// The first rank whose process has ended.
pub(crate) fn first_ended(children: &Children) -> Option<usize> {
    let mut children = children.lock().unwrap_or_else(PoisonError::into_inner);
    let place = children.iter_mut().position(|child| !matches!(child.try_wait(), Ok(None)));
    place.map(|place| place + 1)
}

/// Has this process end when the one that started it as a rank does.
#[cfg(target_os = "linux")]
pub(crate) fn end_with(parent: &str) {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    // Where that is refused, the connection to rank 0 tells of its end.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // It may have ended before.
    if getppid().is_none_or(|now| now.as_raw_nonzero().to_string() != parent) {
        std::process::exit(1);
    }
}

/// Elsewhere the connection to rank 0 tells of its end.
#[cfg(not(target_os = "linux"))]
pub(crate) fn end_with(_: &str) {}
