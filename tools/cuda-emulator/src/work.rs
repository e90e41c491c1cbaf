//! The device's work in traces: when a kernel or a copy has run here, which is when it was carried
//! out and not when it was asked for.

use isentrope_trace::{Argument, is_on, on_device};
use std::time::Instant;

/// Work under way, if a trace is recorded.
pub(crate) struct Work(Option<(&'static str, Instant)>);

impl Work {
    /// It begins now.
    pub fn begin(name: &'static str) -> Self {
        Self(is_on().then(|| (name, Instant::now())))
    }

    /// Ends it now. A copy gives its number of bytes.
    pub fn end(self, bytes: Option<usize>) {
        if let Some((name, began)) = self.0 {
            let bytes = bytes.map(|bytes| ("bytes", Argument::Number(bytes as u64)));
            on_device(name, began, began.elapsed(), [bytes, None]);
        }
    }
}
