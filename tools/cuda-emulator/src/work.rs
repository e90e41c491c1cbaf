//! The device's work in traces. Its time is when a kernel or a copy was carried out here, which may
//! be after the request.

use isentrope_trace::{Argument, is_on, on_device};
use std::time::Instant;

/// Work under way, if a trace is recorded.
pub(crate) struct TracedWork(Option<(&'static str, Instant)>);

impl TracedWork {
    /// Work that begins now.
    pub fn begin(name: &'static str) -> Self {
        Self(is_on().then(|| (name, Instant::now())))
    }

    /// The work ends now. A copy gives its number of bytes.
    pub fn end(self, bytes: Option<usize>) {
        if let Some((name, began)) = self.0 {
            let bytes = bytes.map(|bytes| ("bytes", Argument::Number(bytes as u64)));
            on_device(name, began, began.elapsed(), [bytes, None]);
        }
    }
}
