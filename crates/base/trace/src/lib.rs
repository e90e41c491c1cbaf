//! Traces of where time goes: spans of work on threads and on the device.
//!
//! A [`span`] starts where it is made and ends with its scope. While no trace is recorded it costs
//! one atomic read. A process has one recorder, from [`begin`] to [`end`]; `chrome.rs` writes its
//! events in Chrome's trace event format. No result depends on any of it.

mod chrome;
mod event;
mod recorder;
mod span;

pub use chrome::Origin;
pub use event::{Argument, Arguments, DEVICE_THREAD, Event, Kind};
pub use recorder::{Trace, begin, count, end, events, is_on, name_thread, on_device, untimed};
pub use span::{Span, call, operation, span};
