//! Limits that the kernel counts for each process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::plan::Method;
use super::{Problem, attempt};
use crate::Limits;

/// Most signals that may wait to be delivered. Each takes kernel memory.
const PENDING_SIGNALS: u64 = 256;

/// The first kernel that counts a user's processes per user namespace. Older kernels count all
/// processes of the user on the machine.
const COUNTS_BY_NAMESPACE: (u32, u32) = (5, 14);

/// Limits this process and its descendants.
pub fn set(limits: &Limits, method: &Method) -> Result<(), Problem> {
    let mut all = vec![
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_MEMLOCK, 0),
        (Resource::RLIMIT_MSGQUEUE, 0),
        (Resource::RLIMIT_NICE, 0),
        (Resource::RLIMIT_RTPRIO, 0),
        (Resource::RLIMIT_SIGPENDING, PENDING_SIGNALS),
        (Resource::RLIMIT_NOFILE, limits.open_files),
        (Resource::RLIMIT_FSIZE, limits.file_bytes),
        (Resource::RLIMIT_AS, limits.address_space_bytes),
    ];
    all.extend(
        most_processes(limits, method, counts_by_namespace())
            .map(|most| (Resource::RLIMIT_NPROC, most)),
    );
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

/// Whether this kernel counts a user's processes per user namespace.
pub fn counts_by_namespace() -> bool {
    version(&rustix::system::uname().release().to_string_lossy())
        .is_some_and(|it| it >= COUNTS_BY_NAMESPACE)
}

/// The limit on processes of the jail's user. None if the kernel would count processes outside of
/// the jail too; then the watchdog or a control group counts.
fn most_processes(limits: &Limits, method: &Method, counts_by_namespace: bool) -> Option<u64> {
    match method {
        Method::Root => Some(limits.processes),
        // The outer process has the same user in the same namespace.
        Method::UserNamespace => counts_by_namespace.then(|| limits.processes.saturating_add(1)),
        Method::Bubblewrap(_) => counts_by_namespace.then_some(limits.processes),
    }
}

/// The first two numbers of a kernel's release, such as `5.10.0-32-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_apart() {
        let counts = |release| version(release).is_some_and(|it| it >= COUNTS_BY_NAMESPACE);
        assert!(["5.14.0", "6.1-rc3"].into_iter().all(counts));
        assert!(!["4.18.0-553.el8", "5.10.0-32-amd64", "unknown"].into_iter().any(counts));
    }

    #[test]
    fn processes_outside_of_the_jail_do_not_count() {
        let limits = Limits { processes: 20, ..Limits::default() };
        for (method, on_old_kernels, on_new_ones) in [
            (Method::Root, Some(20), Some(20)),
            (Method::UserNamespace, None, Some(21)),
            (Method::Bubblewrap("bwrap".into()), None, Some(20)),
        ] {
            assert_eq!(most_processes(&limits, &method, false), on_old_kernels);
            assert_eq!(most_processes(&limits, &method, true), on_new_ones);
        }
    }
}
