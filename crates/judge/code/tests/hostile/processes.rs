//! Counts the processes in a thread's jails, and this process's memory.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How long the kernel may take to bury what was killed.
const BURIAL: Duration = Duration::from_secs(5);

/// The processes that the jails of this thread have beside their servers: nobody should be there
/// when nothing is judged.
pub fn of_runs() -> Option<String> {
    let deadline = Instant::now() + BURIAL;
    loop {
        let left = of_runs_now();
        if left.is_none() || Instant::now() > deadline {
            return left;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn of_runs_now() -> Option<String> {
    let this = fs::read_link("/proc/thread-self").unwrap();
    let outer = children(&format!("/proc/{}", this.display()));
    assert!(!outer.is_empty(), "this thread has no jails");
    let left: Vec<String> = outer
        .iter()
        .flat_map(|outer| {
            let servers = all_children(outer);
            let more = servers.iter().skip(1).cloned();
            more.chain(servers.iter().flat_map(|server| all_children(server))).collect::<Vec<_>>()
        })
        .map(|process| fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default())
        .collect();
    (!left.is_empty()).then(|| left.join(", "))
}

fn children(task: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("{task}/children")).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn all_children(process: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.flat_map(|task| children(&task.path().display().to_string())).collect()
}

/// The most memory that this process has ever had, in KiB.
pub fn most_memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
