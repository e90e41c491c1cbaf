//! What the kernel counts for each process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::{Problem, attempt};
use crate::Limits;

/// Signals that may wait to be delivered, each of which takes memory of the kernel's.
const PENDING_SIGNALS: u64 = 256;

/// Limits this process and all that come from it. `others` are processes of the same user outside of the jail.
pub fn set(limits: &Limits, others: u64) -> Result<(), Problem> {
    let mut all = vec![
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_MEMLOCK, 0),
        (Resource::RLIMIT_MSGQUEUE, 0),
        (Resource::RLIMIT_NICE, 0),
        (Resource::RLIMIT_RTPRIO, 0),
        (Resource::RLIMIT_SIGPENDING, PENDING_SIGNALS),
        (Resource::RLIMIT_NPROC, limits.processes.saturating_add(others)),
        (Resource::RLIMIT_NOFILE, limits.open_files),
        (Resource::RLIMIT_FSIZE, limits.file_bytes),
        (Resource::RLIMIT_AS, limits.address_space_bytes),
    ];
    all.extend(limits.cpu_s.map(|seconds| (Resource::RLIMIT_CPU, seconds)));
    for (resource, limit) in all {
        let lowered = getrlimit(resource).and_then(|(_, hard)| {
            let limit = limit.min(hard);
            setrlimit(resource, limit, limit)
        });
        attempt(format_args!("{resource:?} cannot be set"), lowered)?;
    }
    Ok(())
}
