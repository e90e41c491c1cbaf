//! The settings that ranks begin with, and the library that they found.

use crate::pulse::{Tell, Watch};
use std::fmt;

/// A rank's description of itself, and when it gives others up.
#[derive(Clone)]
pub struct Settings {
    /// Threads that it computes with.
    pub threads: usize,
    /// Bytes of memory that its machine has available.
    pub memory: u64,
    /// The program and its version, which all ranks must have.
    pub program: String,
    /// When others are given up.
    pub watch: Watch,
    /// Takes what must be said at once, such as why all ranks are being ended.
    pub tell: Tell,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, memory, program, watch, .. } = self;
        let mut debug = f.debug_struct("Settings");
        debug.field("threads", threads).field("memory", memory).field("program", program);
        debug.field("watch", watch).finish_non_exhaustive()
    }
}

/// The library that moves bytes between the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// As it calls itself, such as `Open MPI v4.1.4`.
    pub version: String,
    /// The path of the library.
    pub path: String,
    /// Which binary interface it has.
    pub abi: &'static str,
    /// The launcher that has started the ranks.
    pub launcher: String,
}
