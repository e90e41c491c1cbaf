//! What is recorded.

use std::time::Duration;

/// The number of the thread that stands for the device.
pub const DEVICE_THREAD: u32 = 1_000_000;

/// A number or a name that says more of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number.
    Number(u64),
    /// A name, of a kernel.
    Name(&'static str),
}

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part of a step.
    Phase,
    /// A part of a pass through a model.
    Operation,
    /// A call of the host's that asks something of the device.
    Call,
    /// Work of the device's.
    Device,
    /// A number that has changed.
    Counter,
}

impl Kind {
    /// The category that a trace file gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Phase => "phase",
            Self::Operation => "operation",
            Self::Call => "call",
            Self::Device => "device",
            Self::Counter => "counter",
        }
    }

    /// Whether there may be millions of it in a step.
    pub(crate) fn is_fine(self) -> bool {
        self != Self::Phase
    }
}

/// Something that took time, or a number that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: &'static str,
    /// The thread's number, or [`DEVICE_THREAD`].
    pub thread: u32,
    /// When it began, from the trace's beginning on.
    pub began: Duration,
    /// How long it took; nothing of a counter.
    pub took: Duration,
    /// What else is known of it.
    pub arguments: [Option<(&'static str, Argument)>; 2],
}
