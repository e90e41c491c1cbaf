//! The emulated device's stream, as libraries see it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Pause between two looks at work that is under way.
const POLL_PAUSE: Duration = Duration::from_micros(50);

/// A stream that the device's own calls leave empty, since each is carried out at once, and that
/// libraries put work into. A library gets the address of this value, and finds a `u32` there: it
/// adds one before it returns, and subtracts one when its work is done. Every later call of the
/// device waits until the number is 0.
#[repr(C)]
#[derive(Default)]
pub(crate) struct LibraryStream {
    under_way: AtomicU32,
}

impl LibraryStream {
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    pub(crate) fn wait(&self) {
        while !self.is_idle() {
            thread::sleep(POLL_PAUSE);
        }
    }
}
