//! The system calls that a jail's processes may make: those on a list, and no others.
//!
//! A call that is not listed answers as on a kernel that does not have it (ENOSYS), so that
//! libraries fall back to an older one: `clone` for `clone3`, whose flags a filter cannot see. What
//! is refused for its arguments answers EPERM. A new session is not begun, but answered as if it
//! had been.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter,
};

use super::{Problem, attempt};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that are allowed with any arguments, except those refused below.
#[rustfmt::skip]
const ALLOWED: &[c_long] = &[
    // Files. Mounts and Landlock decide which files may be opened.
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64, libc::SYS_pwrite64,
    libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_preadv2, libc::SYS_pwritev2, libc::SYS_lseek,
    libc::SYS_openat, libc::SYS_openat2, libc::SYS_close, libc::SYS_close_range,
    libc::SYS_dup, libc::SYS_dup3, libc::SYS_pipe2,
    libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs,
    libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_getdents64, libc::SYS_getcwd, libc::SYS_chdir, libc::SYS_fchdir,
    libc::SYS_readlinkat, libc::SYS_mkdirat, libc::SYS_unlinkat, libc::SYS_renameat2, libc::SYS_linkat, libc::SYS_symlinkat,
    libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_umask, libc::SYS_utimensat,
    libc::SYS_truncate, libc::SYS_ftruncate, libc::SYS_fallocate, libc::SYS_fsync, libc::SYS_fdatasync,
    libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr,
    libc::SYS_listxattr, libc::SYS_llistxattr, libc::SYS_flistxattr,
    // Memory.
    libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_madvise, libc::SYS_brk, libc::SYS_mincore,
    libc::SYS_msync, libc::SYS_membarrier,
    // Processes and threads.
    libc::SYS_execve, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_wait4, libc::SYS_waitid,
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_gettid, libc::SYS_getpgid,
    libc::SYS_setpgid, libc::SYS_getsid, libc::SYS_setsid,
    libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getresuid, libc::SYS_getresgid,
    libc::SYS_getgroups, libc::SYS_set_tid_address, libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_rseq,
    libc::SYS_futex, libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min, libc::SYS_getpriority,
    libc::SYS_getrusage, libc::SYS_times,
    libc::SYS_getcpu, libc::SYS_capget,
    // Signals.
    libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend, libc::SYS_rt_sigpending, libc::SYS_rt_sigtimedwait, libc::SYS_sigaltstack, libc::SYS_restart_syscall,
    // Time and chance.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep, libc::SYS_nanosleep, libc::SYS_gettimeofday,
    libc::SYS_setitimer, libc::SYS_getitimer, libc::SYS_timer_create, libc::SYS_timer_settime, libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun, libc::SYS_timer_delete, libc::SYS_getrandom,
    // Waiting.
    libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2, libc::SYS_eventfd2,
    // These calls describe the system, or serve socket pairs, which lead nowhere else.
    libc::SYS_uname, libc::SYS_sysinfo, libc::SYS_recvfrom, libc::SYS_shutdown,
];

/// Older forms of allowed calls, which only this architecture has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_HERE: &[c_long] = &[
    libc::SYS_open, libc::SYS_creat, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_getdents, libc::SYS_readlink,
    libc::SYS_mkdir, libc::SYS_rmdir, libc::SYS_unlink, libc::SYS_rename, libc::SYS_renameat, libc::SYS_link, libc::SYS_symlink,
    libc::SYS_chmod, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat, libc::SYS_dup2, libc::SYS_pipe,
    libc::SYS_fork, libc::SYS_vfork, libc::SYS_getpgrp, libc::SYS_getrlimit, libc::SYS_setrlimit, libc::SYS_arch_prctl,
    libc::SYS_time, libc::SYS_alarm, libc::SYS_pause,
    libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_eventfd,
];

#[cfg(target_arch = "aarch64")]
const ALLOWED_HERE: &[c_long] = &[libc::SYS_renameat];

/// Restricts this process and its descendants.
pub fn restrict() -> Result<(), Problem> {
    let problem = "the system calls cannot be restricted (seccomp)";
    for filter in attempt(problem, filters())? {
        attempt(problem, apply_filter(&filter))?;
    }
    Ok(())
}

/// Three filters: calls that do nothing, arguments that are refused, and calls that are allowed.
/// The kernel takes the strictest answer. The last filter forbids adding filters, so it comes last.
fn filters() -> Result<[BpfProgram; 3], BackendError> {
    let mut allowed: Rules =
        ALLOWED.iter().chain(ALLOWED_HERE).map(|call| (*call, Vec::new())).collect();
    allowed.extend(allowed_with()?);
    let errno = |number: i32| SeccompAction::Errno(number.cast_unsigned());
    let filter = |rules, otherwise, matched| {
        SeccompFilter::new(rules, otherwise, matched, std::env::consts::ARCH.try_into()?)?
            .try_into()
    };
    // The scheduler gives each session a share of its own (autogroups): with many sessions a jail
    // would take other programs' shares. Programs that start others in new sessions still work.
    let undone = Rules::from([(libc::SYS_setsid, Vec::new())]);
    Ok([
        filter(undone, SeccompAction::Allow, errno(0))?,
        filter(refused()?, SeccompAction::Allow, errno(libc::EPERM))?,
        filter(allowed, errno(libc::ENOSYS), SeccompAction::Allow)?,
    ])
}

/// Commands of fcntl. The others choose who gets a file's signals, change the size of a pipe, or
/// lock records, even of /dev/null, by which jails could communicate.
#[rustfmt::skip]
const FCNTL: &[c_int] = &[
    libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL,
    libc::F_GETPIPE_SZ,
];

/// New libraries ask by this ioctl whether something is a terminal.
const TCGETS2: u64 = 0x802C_542A;

/// Questions of libraries about files and pipes.
#[rustfmt::skip]
const IOCTL: &[u64] = &[
    libc::TCGETS, TCGETS2, libc::TIOCGWINSZ, libc::FIONREAD, libc::FIONBIO, libc::FIOCLEX, libc::FIONCLEX,
];

#[rustfmt::skip]
const PRCTL: &[c_int] = &[
    libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_GET_DUMPABLE, libc::PR_GET_PDEATHSIG,
    libc::PR_CAPBSET_READ, libc::PR_SET_NO_NEW_PRIVS, libc::PR_GET_NO_NEW_PRIVS, libc::PR_SET_VMA,
];

const NAMESPACES: c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// Calls with many functions, of which some are allowed.
fn allowed_with() -> Result<Rules, BackendError> {
    let each = |argument, values: &[u64]| {
        let rule = |value: &u64| rule(condition(argument, SeccompCmpOp::Eq, *value)?);
        values.iter().map(rule).collect::<Result<Vec<SeccompRule>, BackendError>>()
    };
    let numbers = |values: &[c_int]| values.iter().map(|value| bits(*value)).collect::<Vec<u64>>();
    let no_namespaces = condition(0, SeccompCmpOp::MaskedEq(bits(NAMESPACES)), 0)?;
    let no_address = SeccompCondition::new(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
    Ok(Rules::from([
        (libc::SYS_clone, vec![rule(no_namespaces)?]),
        (libc::SYS_fcntl, each(1, &numbers(FCNTL))?),
        (libc::SYS_ioctl, each(1, IOCTL)?),
        (libc::SYS_prctl, each(0, &numbers(PRCTL))?),
        // Limits of the caller alone.
        (libc::SYS_prlimit64, each(0, &[0])?),
        (libc::SYS_socketpair, each(0, &[bits(libc::AF_UNIX)])?),
        // Sends to the other end of a socket pair, never to an address.
        (libc::SYS_sendto, vec![rule(no_address)?]),
    ]))
}

/// Arguments with which allowed calls are refused.
fn refused() -> Result<Rules, BackendError> {
    let first_as =
        |argument| Ok::<_, BackendError>(vec![rule(condition(argument, SeccompCmpOp::Eq, 1)?)?]);
    let all_of = |flags| {
        let flags = bits(flags);
        rule(condition(3, SeccompCmpOp::MaskedEq(flags), flags)?)
    };
    // Shared memory without a file outlives its mappings, and then no process is charged for it. No
    // process is charged for reserved huge pages either.
    let maps = vec![all_of(libc::MAP_SHARED | libc::MAP_ANONYMOUS)?, all_of(libc::MAP_HUGETLB)?];
    Ok(Rules::from([
        // The first process keeps the others in order: they cannot signal it, nor join its group.
        (libc::SYS_kill, first_as(0)?),
        (libc::SYS_tkill, first_as(0)?),
        (libc::SYS_tgkill, first_as(0)?),
        (libc::SYS_setpgid, first_as(1)?),
        (libc::SYS_mmap, maps),
    ]))
}

fn bits(flags: c_int) -> u64 {
    u64::from(flags.cast_unsigned())
}

fn rule(condition: SeccompCondition) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![condition])
}

/// A condition on the lower half of an argument: the kernel reads these as numbers of 32 bits.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}
