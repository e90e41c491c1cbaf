//! The settings that ranks begin with, and the library that they found.

use crate::pulse::{Tell, Watch};

/// A rank's description of itself, and its patience with others.
#[derive(Clone)]
pub struct Settings {
    /// Threads that it computes with.
    pub threads: usize,
    /// The program and its version. All ranks must have the same, from the same build.
    pub program: String,
    /// When silent ranks are given up.
    pub watch: Watch,
    /// Shows a message at once, such as why all ranks are being ended.
    pub tell: Tell,
}

/// The library that moves bytes between the ranks, or TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The library's name and version, such as `Open MPI v4.1.4`, or `TCP`.
    pub version: String,
    /// The path of the library, or the address where the ranks met.
    pub path: String,
    /// Its binary interface.
    pub abi: &'static str,
    /// The launcher that has started the ranks.
    pub launcher: String,
}
