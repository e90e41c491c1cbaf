//! Measures what the processes of a jail use together, where the kernel does not count it.
//!
//! The watchdog counts the processes' private memory and that of sockets. Nothing else can grow:
//! there is no shared memory without a file, and files are counted by the file system that holds
//! them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::poll::PollTimeout;
use nix::sys::statvfs::statvfs;
use nix::unistd::{Pid, SysconfVar, sysconf};

use super::plan::{Method, Plan};
use crate::Ending;

/// Memory that one processor can fill in a second, in bytes: the kernel clears each page.
const FILLED_PER_SECOND: f64 = 8e9;

/// Number of processors that can fill memory at full speed together.
const FILLING: usize = 4;

/// Most bytes that wait in a socket, by the usual settings. Doubled, because the kernel counts its
/// bookkeeping too.
const SOCKET_BYTES: u64 = 2 * 212_992;

/// The shortest and the longest time between two looks.
const LOOKS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// Measures the distance of a jail's processes from its limits.
pub struct Watchdog {
    first: Pid,
    /// Whether the watchdog counts memory and processes, because no control group does.
    counts: bool,
    memory_bytes: u64,
    processes: u64,
    page: u64,
    processors: f64,
    next: Duration,
    /// Most files in `/tmp`, if the file system cannot limit them.
    temporary_files: Option<u64>,
}

/// Resources that processes take.
#[derive(Debug, Default, PartialEq, Eq)]
struct Usage {
    bytes: u64,
    threads: u64,
}

impl Watchdog {
    /// Watches a process and its descendants.
    pub fn new(first: Pid, plan: &Plan) -> Self {
        let limits = &plan.program.limits;
        let page =
            sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|bytes| bytes.try_into().ok());
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            first,
            counts: plan.cgroups.is_none(),
            memory_bytes: limits.memory_bytes,
            processes: limits.processes,
            page: page.unwrap_or(4096),
            processors: processors.min(FILLING) as f64,
            next: LOOKS.0,
            temporary_files: matches!(plan.method, Method::Bubblewrap(_))
                .then_some(limits.temporary_files),
        }
    }

    /// The time until the next look: shorter than all processors together need to fill the
    /// remaining memory.
    pub fn next_look(&self) -> PollTimeout {
        if !self.counts && self.temporary_files.is_none() {
            return PollTimeout::NONE;
        }
        PollTimeout::try_from(self.next).unwrap_or(PollTimeout::MAX)
    }

    /// Measures once. Returns the reason if the jail must end.
    pub fn look(&mut self) -> Option<Ending> {
        self.next = LOOKS.1;
        if let Some(files) = self.temporary_files {
            self.next = LOOKS.1 / 10;
            // The directory itself is one.
            if temporary_files(self.first) > files + 1 {
                return Some(Ending::TemporaryLimit);
            }
        }
        if !self.counts {
            return None;
        }
        let mut taken = usage(self.first, self.page);
        taken.bytes += sockets(self.first) * SOCKET_BYTES;
        let left = self.memory_bytes.saturating_sub(taken.bytes) as f64;
        let time = Duration::from_secs_f64(left / FILLED_PER_SECOND / self.processors);
        self.next = time.clamp(LOOKS.0, self.next);
        if taken.bytes > self.memory_bytes {
            return Some(Ending::MemoryLimit);
        }
        (taken.threads > self.processes).then_some(Ending::ProcessLimit)
    }
}

/// Files in `/tmp` of a process.
fn temporary_files(process: Pid) -> u64 {
    let found = statvfs(format!("/proc/{process}/root/tmp").as_str());
    found.map_or(0, |found| found.files() - found.files_free())
}

/// Sockets in the network of a process.
fn sockets(process: Pid) -> u64 {
    let table = fs::read_to_string(format!("/proc/{process}/net/sockstat")).unwrap_or_default();
    let used = table.lines().find_map(|line| line.strip_prefix("sockets: used "));
    used.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Counts the memory of a process and all its descendants. A process that ends meanwhile counts as
/// nothing.
fn usage(first: Pid, page: u64) -> Usage {
    let mut taken = Usage::default();
    let mut processes = vec![first.to_string()];
    while let Some(process) = processes.pop() {
        let directory = PathBuf::from("/proc").join(process);
        let statm = fs::read_to_string(directory.join("statm")).unwrap_or_default();
        let mut pages =
            statm.split_whitespace().skip(1).filter_map(|field| field.parse::<u64>().ok());
        let (resident, of_files) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
        taken.bytes += resident.saturating_sub(of_files) * page;
        for thread in fs::read_dir(directory.join("task")).into_iter().flatten().flatten() {
            taken.threads += 1;
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            processes.extend(children.split_whitespace().map(str::to_owned));
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn processes_are_counted_with_what_comes_from_them() {
        let script =
            "x=$(head -c 20000000 /dev/zero | tr '\\0' a); sleep 100 & sleep 100 & echo done; wait";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 5];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let pid = Pid::from_raw(shell.id().cast_signed());
        let found = usage(pid, 4096);
        assert_eq!(found.threads, 3);
        assert!((20_000_000..400_000_000).contains(&found.bytes), "{found:?}");
        for child in fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
            .unwrap()
            .split_whitespace()
        {
            nix::sys::signal::kill(
                Pid::from_raw(child.parse().unwrap()),
                nix::sys::signal::Signal::SIGKILL,
            )
            .unwrap();
        }
        shell.wait().unwrap();
        assert_eq!(usage(pid, 4096), Usage::default());
    }
}
