//! Recorded events.

use std::time::Duration;

/// Thread number that stands for the device.
pub const DEVICE_THREAD: u32 = 1_000_000;

/// Detail of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number.
    Number(u64),
    /// A name, of a kernel.
    Name(&'static str),
}

/// Details of an event, by name.
pub type Arguments = [Option<(&'static str, Argument)>; 2];

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part of a step.
    Phase,
    /// A part of a pass through a model.
    Operation,
    /// A call of the host to the device.
    Call,
    /// Work of the device.
    Device,
    /// A counter that has changed.
    Counter,
}

impl Kind {
    /// Category in a trace file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Phase => "phase",
            Self::Operation => "operation",
            Self::Call => "call",
            Self::Device => "device",
            Self::Counter => "counter",
        }
    }

    /// Whether a step may have millions of such events.
    pub(crate) fn is_fine(self) -> bool {
        self != Self::Phase
    }
}

/// A piece of work, or a change of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kind.
    pub kind: Kind,
    /// Its name.
    pub name: &'static str,
    /// The thread's number, or [`DEVICE_THREAD`].
    pub thread: u32,
    /// Start, from the start of the trace.
    pub began: Duration,
    /// Duration; zero for a counter.
    pub took: Duration,
    /// Details.
    pub arguments: Arguments,
}
