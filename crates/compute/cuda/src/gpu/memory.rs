//! Memory of a GPU, and locked memory of the host that a GPU accesses directly.

use super::Error;
use super::calls::{Calls, DriverError};
use super::event::Event;
use super::stream::Stream;
use cudarc::driver::sys;
use isentrope_kernels::OutOfMemory;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Transfers of up to this many bytes go through locked memory, so that the host need not wait for
/// an upload.
pub(super) const STAGED: usize = 4 << 20;
/// Bytes of each half of the locked memory.
const HALF: usize = 8 << 20;

/// Memory on a GPU, which is freed when this is dropped.
pub(super) struct GpuMemory {
    pub stream: Arc<Stream>,
    pub address: sys::CUdeviceptr,
    pub bytes: usize,
}

/// Locked memory of the host, which the GPU accesses directly.
pub(super) struct LockedMemory {
    stream: Arc<Stream>,
    /// The holder of the lock puts copies from or to the memory into the stream; or it waits for
    /// all copies, and then reads or writes the memory.
    address: Mutex<*mut u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value, and to no thread in particular.
unsafe impl Send for LockedMemory {}
// SAFETY: only the lock's holder uses the bytes behind the address, and the stream, which the
// holder waits for.
unsafe impl Sync for LockedMemory {}

/// Memory of the host that the GPU accesses directly, in two halves. Each half is written from
/// beginning to end, and written again once the stream has passed its last copy. By then the other
/// half has been written, so there is seldom anything to wait for.
pub(super) struct Staging {
    pub address: *mut u8,
    /// The half that is being written.
    half: usize,
    /// Bytes of the current half written so far.
    used: usize,
    /// The event behind the copies from and to each half.
    passed: [Event; 2],
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        let _call = isentrope_trace::call("free").with("bytes", self.bytes);
        // Earlier calls may still use it. A GPU that has failed frees nothing; the failure is
        // reported elsewhere. SAFETY: the memory was allocated in this context, and is not used
        // again.
        let _ = self.stream.call(|calls| unsafe {
            (calls.cuStreamSynchronize)(self.stream.handle);
            (calls.cuMemFree_v2)(self.address)
        });
    }
}

impl LockedMemory {
    /// Locks memory of the host, and zeros it.
    pub fn new(stream: &Arc<Stream>, bytes: usize) -> Result<Self, OutOfMemory> {
        let mut address = ptr::null_mut();
        if bytes > 0 {
            // SAFETY: the driver writes the address of as many bytes.
            let code =
                |calls: &Calls| unsafe { (calls.cuMemHostAlloc)(&raw mut address, bytes, 0) };
            match stream.call(code) {
                Ok(()) => {}
                Err(DriverError { code: DriverError::OUT_OF_MEMORY, .. }) => {
                    let why = "the host has no such memory that can be locked for the GPU".into();
                    return Err(OutOfMemory { asked: bytes, why });
                }
                Err(error) => stream.fail(&error),
            }
            // SAFETY: the allocation has `bytes` bytes and no other user yet.
            unsafe { address.cast::<u8>().write_bytes(0, bytes) };
        }
        Ok(Self { stream: Arc::clone(stream), address: Mutex::new(address.cast()), bytes })
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads the first bytes, without waiting for the stream.
    ///
    /// # Safety
    /// All work of the stream that writes these bytes has been carried out.
    pub unsafe fn read(&self, bytes: &mut [u8]) {
        let locked = self.lock();
        let from = self.range(&locked, 0, bytes.len());
        // SAFETY: the range is within the memory. The caller promises that nothing writes it now.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    }

    pub fn lock(&self) -> MutexGuard<'_, *mut u8> {
        self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of `bytes` bytes from `offset` on, while the memory is locked.
    ///
    /// # Panics
    /// When they reach beyond its end.
    pub fn range(&self, address: &MutexGuard<'_, *mut u8>, offset: usize, bytes: usize) -> *mut u8 {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.bytes);
        assert!(
            end.is_some(),
            "bytes {offset} .. + {bytes} of locked memory of {} bytes",
            self.bytes
        );
        address.wrapping_add(offset)
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        let address = *self.lock();
        if address.is_null() {
            return;
        }
        // Earlier copies may still use it. A GPU that has failed frees nothing; the failure is
        // reported elsewhere. SAFETY: the memory was locked in this context, and is not used again.
        let _ = self.stream.call(|calls| unsafe {
            (calls.cuStreamSynchronize)(self.stream.handle);
            (calls.cuMemFreeHost)(address.cast())
        });
    }
}

impl Staging {
    pub fn new(stream: &Arc<Stream>) -> Result<Self, Error> {
        let failed = |failed: DriverError| {
            Error::Driver(format!(
                "{} MiB of memory cannot be locked for the GPU: {failed}",
                (2 * HALF) >> 20
            ))
        };
        let passed = [Event::new(stream).map_err(failed)?, Event::new(stream).map_err(failed)?];
        let mut address = ptr::null_mut();
        // SAFETY: the driver writes the address of as many bytes.
        let code = |calls: &Calls| unsafe { (calls.cuMemHostAlloc)(&raw mut address, 2 * HALF, 0) };
        stream.call(code).map_err(failed)?;
        // SAFETY: there are 2 HALF bytes; as zeros they may be read.
        unsafe { address.cast::<u8>().write_bytes(0, 2 * HALF) };
        Ok(Self { address: address.cast(), half: 0, used: 0, passed })
    }

    /// The next `bytes` bytes, at most [`STAGED`], which nothing in the stream uses any more. The
    /// caller puts the copy of them into the stream before it asks for the next bytes.
    pub fn next(&mut self, bytes: usize) -> &mut [u8] {
        if self.used + bytes > HALF {
            self.passed[self.half].record();
            self.half = 1 - self.half;
            self.used = 0;
            // An event that was never recorded counts as passed.
            self.passed[self.half].wait();
        }
        // SAFETY: `used + bytes` is at most a half. The stream may use parts before `used`, but not
        // these bytes; and the borrow of self keeps others from asking for them.
        let part = unsafe {
            std::slice::from_raw_parts_mut(self.address.add(self.half * HALF + self.used), bytes)
        };
        self.used = (self.used + bytes).next_multiple_of(64).min(HALF);
        part
    }
}
