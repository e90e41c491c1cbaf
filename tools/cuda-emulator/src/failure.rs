//! Failures of launches, as sentences and as values to compare.

use isentrope_cuda::Dim;
use std::fmt;

/// Kinds of mistakes in a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The launch asks for more than the device has, or contradicts the kernel's declaration.
    Launch,
    /// An access outside of all memory.
    OutOfBounds,
    /// An address that is not aligned for the instruction.
    Misaligned,
    /// Threads of a block wait at different barriers, or have returned while others wait.
    Barrier,
    /// Lanes of a warp are not at one collective together, or it is used wrongly.
    Collective,
    /// Two threads use the same memory, at least one of them to write, and nothing orders them.
    Race,
    /// Shared memory is read that nothing has been written to.
    Uninitialised,
    /// Memory is used while an asynchronous copy to it is under way.
    Unfinished,
    /// An instruction without a result, or undefined behaviour of C++.
    Undefined,
    /// More local memory than a thread has here.
    Stack,
}

/// A launch that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchFailure {
    /// The kind of mistake.
    pub mistake: Mistake,
    /// The kernel.
    pub kernel: &'static str,
    /// The file with the kernel.
    pub file: &'static str,
    /// The line, if it is known.
    pub line: Option<u32>,
    /// The block, if it was in one.
    pub block: Option<Dim>,
    /// The thread, if it was one.
    pub thread: Option<u32>,
    /// The end of the sentence, which stands behind the fields above.
    pub what: String,
    /// The seed that the schedule came from.
    pub seed: u64,
}

impl fmt::Display for LaunchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {} ({}", self.kernel, self.file)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        f.write_str(")")?;
        if let Some([x, y, z]) = self.block {
            write!(f, ", block ({x}, {y}, {z})")?;
        }
        if let Some(thread) = self.thread {
            write!(f, ", thread {thread}")?;
        }
        write!(f, ": {} [seed {}]", self.what, self.seed)
    }
}

impl std::error::Error for LaunchFailure {}
