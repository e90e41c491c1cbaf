//! Messages to the processes in front of a jail, and their answers.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Problem;
use crate::{Ending, Program};

/// How a process that may do nothing becomes one that can build walls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// This process is root, and the jail becomes a user that owns nothing.
    Root,
    /// This process is an ordinary user, and the jail has a user namespace of its own.
    UserNamespace,
    /// This program, `bwrap`, does it.
    Bubblewrap(PathBuf),
}

/// The starter's message to the outer process, and that one's to the inner one. The program's three
/// standard streams come beside it, and for the inner process a socket for its [`Answer`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    pub method: Method,
    pub task: Task,
    pub program: Program,
    /// Where control groups can be made, if anywhere.
    pub cgroups: Option<PathBuf>,
    /// The paths that can be seen; the outer process finds them, and the next field.
    pub shown: Vec<VisiblePath>,
    /// The user and the group that the inner process must become, if another.
    pub user: Option<u32>,
}

/// A part of the file system that can be seen in the jail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VisiblePath {
    /// A symbolic link at the first path, to the second.
    Link(OsString, OsString),
    /// A directory with all that it holds.
    Directory(OsString),
    /// A file.
    File(OsString),
}

/// The task once the walls stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Become the program.
    Run,
    /// Nothing: it is to be seen whether they can be built.
    Probe,
}

/// The inner process's message to the outer one. The end of the stream after `Ready` says that it
/// has become the program.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The walls stand; the version of Landlock among them, 0 for none.
    Ready(u8),
    /// It cannot go on.
    Failed(Problem),
}

/// The outer process's message to the starter.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The program runs; the version of Landlock, 0 for none.
    Started(u8),
    /// It could not be started.
    Failed(Problem),
    /// The jail is no more.
    Ended(Ending),
}
