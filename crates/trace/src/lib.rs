//! Where time goes: spans of work on the threads that do it, and of the device's, while they are recorded.
//!
//! A [`span`] is one line where the work begins, and ends with its scope. While nothing is recorded it costs the read of one
//! atomic. There is one recorder in a process, from [`begin`] to [`end`]; `chrome.rs` writes what it has, in Chrome's trace
//! event format. No result depends on any of it.

mod chrome;
mod event;
mod recorder;
mod span;

pub use chrome::Origin;
pub use event::{Argument, DEVICE_THREAD, Event, Kind};
pub use recorder::{Trace, begin, count, end, is_on, name_thread, on_device, untimed};
pub use span::{Span, call, operation, span};
