//! The context of a GPU, and a stream of its work.

use super::Error;
use super::calls::{Calls, DriverError};
use super::timeline::Timeline;
use crate::failure::DeviceFailure;
use cudarc::driver::sys::{self, CUdevice_attribute, CUstream_flags};
use std::ffi::c_int;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of recent launches that are named when the GPU fails.
const REMEMBERED: usize = 6;

/// The context of a GPU, and a stream of its work.
pub(super) struct Stream {
    calls: Calls,
    device: sys::CUdevice,
    context: sys::CUcontext,
    pub handle: sys::CUstream,
    /// The most recently launched kernels, until the host has waited for them.
    launched: Mutex<Vec<&'static str>>,
    /// Times of the GPU's work, while a trace is recorded.
    pub timeline: Timeline,
    /// Whether its work is timed: not that of a second stream, which overlaps with the first one's.
    pub is_timed: bool,
    ordinal: usize,
}

// SAFETY: the driver's functions may be called from any thread on any of its handles, once the
// thread has the context, which each method ensures. State that the methods change is behind locks.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub fn new(calls: Calls, ordinal: usize) -> Result<Self, Error> {
        let check = |result: Result<(), DriverError>| {
            result.map_err(|failed| {
                Error::Driver(match failed.code {
                    DriverError::OUT_OF_MEMORY => {
                        format!(
                            "GPU {ordinal} has no memory left even for a context; `nvidia-smi` \
                             shows who has it"
                        )
                    }
                    _ => format!("GPU {ordinal} cannot be used: {failed}"),
                })
            })
        };
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: the driver is initialised, has named this device, and writes through the
        // pointers.
        unsafe {
            check(calls.check((calls.cuDeviceGet)(&raw mut device, as_int(ordinal))))?;
            check(calls.check((calls.cuDevicePrimaryCtxRetain)(&raw mut context, device)))?;
        }
        // From here on, any failure releases the context.
        let mut stream = Self {
            calls,
            device,
            context,
            handle: ptr::null_mut(),
            launched: Mutex::default(),
            timeline: Timeline::default(),
            is_timed: true,
            ordinal,
        };
        // SAFETY: the context is retained as long as the stream lives, and the driver writes one
        // handle.
        unsafe {
            check(stream.calls.check((stream.calls.cuCtxSetCurrent)(context)))?;
            let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            let created = (stream.calls.cuStreamCreate)(&raw mut stream.handle, flags);
            check(stream.calls.check(created))?;
        }
        Ok(stream)
    }

    /// Another stream of this context.
    pub fn second(&self) -> Result<Self, Error> {
        let mut second = Self::new(self.calls, self.ordinal)?;
        second.is_timed = false;
        Ok(second)
    }

    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<usize, Error> {
        let mut value = 0;
        // SAFETY: the device is the driver's, which writes one number.
        let code = unsafe {
            (self.calls.cuDeviceGetAttribute)(&raw mut value, attribute as u32, self.device)
        };
        self.calls.check(code).map_err(|error| Error::Driver(error.to_string()))?;
        Ok(usize::try_from(value).unwrap_or(0))
    }

    /// Calls the driver in this context.
    pub fn call(&self, f: impl FnOnce(&Calls) -> c_int) -> Result<(), DriverError> {
        // SAFETY: the context is retained as long as this lives.
        self.calls.check(unsafe { (self.calls.cuCtxSetCurrent)(self.context) })?;
        self.calls.check(f(&self.calls))
    }

    /// Like [`call`](Self::call), for calls that fail only if the GPU cannot be used any more.
    pub fn expect(&self, f: impl FnOnce(&Calls) -> c_int) {
        self.call(f).unwrap_or_else(|error| self.fail(&error));
    }

    /// Gives the calling thread the context.
    pub fn enter(&self) {
        self.expect(|_| 0);
    }

    /// Copies bytes from the host, after all earlier work of the stream.
    ///
    /// # Safety
    /// Until then the bytes stay as they are, and there is as much memory at the address.
    pub unsafe fn upload(&self, to: sys::CUdeviceptr, bytes: &[u8]) {
        let _timed = self.timed("upload", Some(bytes.len()));
        // SAFETY: the caller promises it.
        self.expect(|calls| unsafe {
            (calls.cuMemcpyHtoDAsync_v2)(to, bytes.as_ptr().cast(), bytes.len(), self.handle)
        });
    }

    /// Copies bytes to the host, after all earlier work of the stream.
    ///
    /// # Safety
    /// Until then nobody uses the bytes, and there is as much memory at the address.
    pub unsafe fn download(&self, from: sys::CUdeviceptr, bytes: &mut [u8]) {
        let _timed = self.timed("download", Some(bytes.len()));
        // SAFETY: the caller promises it.
        self.expect(|calls| unsafe {
            (calls.cuMemcpyDtoHAsync_v2)(bytes.as_mut_ptr().cast(), from, bytes.len(), self.handle)
        });
    }

    /// Waits for everything in the stream.
    pub fn wait(&self) {
        // SAFETY: the stream lives as long as this.
        self.expect(|calls| unsafe { (calls.cuStreamSynchronize)(self.handle) });
        self.launched().clear();
        self.has_waited();
    }

    /// Whether everything in the stream has been carried out.
    pub fn is_idle(&self) -> bool {
        // SAFETY: the stream lives as long as this.
        match self.call(|calls| unsafe { (calls.cuStreamQuery)(self.handle) }) {
            Ok(()) => true,
            Err(DriverError { code: DriverError::NOT_DONE, .. }) => false,
            Err(error) => self.fail(&error),
        }
    }

    /// Call this after the host has waited for something in the stream.
    pub fn has_waited(&self) {
        if isentrope_trace::is_on() {
            self.report_times();
        }
    }

    fn launched(&self) -> MutexGuard<'_, Vec<&'static str>> {
        self.launched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a launch, to name it if the GPU fails.
    pub fn note(&self, kernel: &'static str) {
        let mut launched = self.launched();
        if launched.last() != Some(&kernel) {
            if launched.len() == REMEMBERED {
                launched.remove(0);
            }
            launched.push(kernel);
        }
    }

    /// Ends with the driver's message. Most failures of kernels are reported by a later call, and
    /// by every call after that; lack of memory is reported at once.
    pub fn fail(&self, error: &DriverError) -> ! {
        if error.code == DriverError::OUT_OF_MEMORY {
            DeviceFailure::of_memory(format!("the GPU has no memory left: {error}")).end();
        }
        DeviceFailure::of_device(failure(&error.to_string(), &self.launched())).end()
    }
}

/// The sentence for a GPU that has failed.
fn failure(what: &str, launched: &[&str]) -> String {
    match launched {
        [] => format!("the GPU has failed: {what}"),
        [only] => format!("the GPU has failed while it ran {only}: {what}"),
        [earlier @ .., last] => format!(
            "the GPU has failed: {what}; while it ran {last}, or what it was given before that \
             ({}): CUDA_LAUNCH_BLOCKING=1 \
             tells which",
            earlier.iter().rev().copied().collect::<Vec<_>>().join(", ")
        ),
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: every user of the stream keeps this alive, so nothing uses the stream any more.
        // The context was retained once.
        unsafe {
            (self.calls.cuCtxSetCurrent)(self.context);
            // A null handle means that the stream was never made. The driver would take it for the
            // default stream.
            if !self.handle.is_null() {
                (self.calls.cuStreamSynchronize)(self.handle);
                self.timeline.destroy(&self.calls);
                (self.calls.cuStreamDestroy_v2)(self.handle);
            }
            (self.calls.cuDevicePrimaryCtxRelease_v2)(self.device);
        }
    }
}

/// A number that the driver takes as an `int`, which all sizes here fit.
pub(super) fn as_int(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_what_may_be_the_cause() {
        for launched in ["norm", "a captured step"] {
            assert_eq!(
                failure("an illegal memory access was encountered", &[launched]),
                format!(
                    "the GPU has failed while it ran {launched}: an illegal memory access was \
                     encountered"
                )
            );
        }
        let said = failure("x", &["a", "b", "c"]);
        assert!(
            said.contains("while it ran c, ")
                && said.contains("(b, a)")
                && said.contains("CUDA_LAUNCH_BLOCKING=1"),
            "{said}"
        );
    }
}
