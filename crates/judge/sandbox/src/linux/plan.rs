//! Messages to the processes in front of a jail, and their answers.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Problem;
use crate::{Ending, Program};

/// How the inner process gets the capabilities to build walls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// This process is root, and the jail becomes a user that owns nothing.
    Root,
    /// This process is an ordinary user, and the jail has a user namespace of its own.
    UserNamespace,
    /// This program, `bwrap`, does it.
    Bubblewrap(PathBuf),
}

/// The starter's message to the outer process, and the outer process's to the inner one. The
/// program's three standard streams come with it, and for the inner process a socket for its
/// [`Answer`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    pub method: Method,
    pub task: Task,
    pub program: Program,
    /// The directory in which control groups can be made, if there is one.
    pub cgroups: Option<PathBuf>,
    /// The paths that can be seen; the outer process finds them, and the next field.
    pub shown: Vec<VisiblePath>,
    /// The user and group that the inner process must become, if it must change.
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
    /// No program: only test whether the walls can be built.
    Probe,
}

/// The inner process's message to the outer one. The end of the stream after `Ready` means that it
/// has become the program.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The walls are built; this is the version of Landlock, 0 for none.
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
