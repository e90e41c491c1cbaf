//! A position in the stream, which the host can wait for alone.

use super::calls::DriverError;
use super::stream::Stream;
use cudarc::driver::sys::{CUevent, CUevent_flags};
use std::ptr;
use std::sync::Arc;

/// An event of the driver's.
pub(super) struct Event {
    stream: Arc<Stream>,
    handle: CUevent,
}

// SAFETY: the driver's functions take its events on any thread that has the context, as
// `Stream::call` sees to.
unsafe impl Send for Event {}
// SAFETY: as above; the handle is not changed.
unsafe impl Sync for Event {}

impl Event {
    /// A new event, which is not in the stream yet.
    pub(super) fn new(stream: &Arc<Stream>) -> Result<Self, DriverError> {
        let mut handle = ptr::null_mut();
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the driver writes the event.
        stream.call(|calls| unsafe { (calls.cuEventCreate)(&raw mut handle, flags) })?;
        Ok(Self { stream: Arc::clone(stream), handle })
    }

    /// Puts the event into the stream, behind all earlier work. Its former position is forgotten.
    pub(super) fn record(&self) {
        let stream = &self.stream;
        // SAFETY: event and stream are of one context, and live as long as this.
        stream.expect(|calls| unsafe { (calls.cuEventRecord)(self.handle, stream.handle) });
    }

    /// Holds another stream's later work until the stream has passed the event where it was
    /// recorded last.
    pub(super) fn hold(&self, other: &Stream) {
        // SAFETY: the event and both streams are of one context, and live as long as this call; the
        // driver keeps what the other stream waits for.
        other.expect(|calls| unsafe { (calls.cuStreamWaitEvent)(other.handle, self.handle, 0) });
    }

    /// Waits until the stream has passed the event.
    pub(super) fn wait(&self) {
        // SAFETY: the event lives as long as this.
        self.stream.expect(|calls| unsafe { (calls.cuEventSynchronize)(self.handle) });
        self.stream.has_waited();
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // The driver destroys an event that is still to come once it has been passed.
        // SAFETY: the event was created in this context, and is not used again.
        let _ = self.stream.call(|calls| unsafe { (calls.cuEventDestroy_v2)(self.handle) });
    }
}
