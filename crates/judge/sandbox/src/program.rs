//! Messages to a jail, and its answers.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The maker of the namespaces. Both tiers add Landlock (if the kernel has it), seccomp and
/// resource limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// The program `bwrap`, which may have rights that this one lacks.
    Bubblewrap,
    /// This program.
    Namespaces,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Namespaces => "namespaces",
        })
    }
}

/// A program to run in a jail. It is the first process of the jail: orphans become its children,
/// and the jail ends when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The program's file, an absolute path. It is readable in the jail.
    pub program: PathBuf,
    /// The program's arguments, without its name.
    pub arguments: Vec<OsString>,
    /// The program's environment variables, besides `PATH`, `HOME`, `TMPDIR` and `LANG`, which are
    /// always the same. None is inherited from this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Files and directories that the program can read besides the system's libraries, as absolute
    /// paths. Targets of symbolic links on the way are readable too. If this process is root, files
    /// that only their owner may read are not.
    pub readable: Vec<PathBuf>,
    /// Its limits.
    pub limits: Limits,
}

/// Limits of all processes of a jail. The starter limits the wall-clock time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of all processes together, in bytes, `/tmp` not included. Beyond it the jail is
    /// ended.
    pub memory_bytes: u64,
    /// Address space of each process, in bytes. Beyond it allocations fail.
    pub address_space_bytes: u64,
    /// Processes and threads at a time. Beyond it none can be started.
    pub processes: u64,
    /// Open files of each process.
    pub open_files: u64,
    /// Size of `/tmp`, in bytes. It is memory.
    pub temporary_bytes: u64,
    /// Files and directories in `/tmp`.
    pub temporary_files: u64,
    /// The longest file, in bytes. A process that writes more gets SIGXFSZ.
    pub file_bytes: u64,
    /// Processor time of each process, in seconds. Beyond it the process is killed.
    pub cpu_s: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            address_space_bytes: 2 << 30,
            processes: 64,
            open_files: 256,
            temporary_bytes: 64 << 20,
            temporary_files: 4096,
            file_bytes: 64 << 20,
            cpu_s: None,
        }
    }
}

/// How a jail ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The program has exited with this code.
    Exited(i32),
    /// The program has died of this signal.
    Signaled(i32),
    /// The program's processes together exceeded its limit of memory.
    MemoryLimit,
    /// The program exceeded its limit of processes, on a kernel that does not refuse them.
    ProcessLimit,
    /// The program exceeded its limit of files in `/tmp`, where nothing refuses them.
    TemporaryLimit,
    /// This program ended it.
    Ended,
    /// The jail's outer process was killed, and the program with it.
    Lost,
}

/// An attempt to leave a jail, or to take more than it gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The attempt.
    pub name: String,
    /// Whether the attempt failed, as it should.
    pub held: bool,
    /// The evidence: the system's error, or what the attempt got.
    pub how: String,
}

/// A jail cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program {program} cannot be started in a jail: {problem}")]
pub struct Error {
    /// The program's file.
    pub program: String,
    /// The problem.
    pub problem: String,
}

/// This machine has no sandbox.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("programs cannot be run safely here: {problem}. {remedy}")]
pub struct Unavailable {
    /// The ways tried, and the system's answers.
    pub problem: String,
    /// The things to install or enable.
    pub remedy: String,
}
