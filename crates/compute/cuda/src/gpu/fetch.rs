//! A copy from the GPU to the host. The host waits for this copy alone.

use super::device::Gpu;
use super::event::Event;
use super::memory::LockedMemory;
use crate::device::Memory;
use crate::failure::DeviceFailure;
use std::mem;
use std::sync::{Mutex, PoisonError};

/// Least bytes of a fetch buffer.
const LEAST: usize = 4 << 10;

/// Bytes that the GPU copies to the host.
pub(super) struct GpuFetch {
    bytes: usize,
    buffer: FetchBuffer,
}

/// A buffer on the host, and the event behind the copy to it.
struct FetchBuffer {
    memory: LockedMemory,
    arrived: Event,
}

/// Buffers that were read and are free again: the driver takes long to lock memory.
#[derive(Default)]
pub(super) struct FetchBuffers(Mutex<Vec<FetchBuffer>>);

impl FetchBuffers {
    /// A free buffer of at least `bytes` bytes, or a new one.
    fn take(&self, gpu: &Gpu, bytes: usize) -> FetchBuffer {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = free.iter().position(|buffer| buffer.memory.bytes() >= bytes) {
            return free.swap_remove(at);
        }
        // Buffers that are too small are dropped. Freeing them waits for the stream.
        let small = mem::take(&mut *free);
        drop(free);
        drop(small);
        let memory = LockedMemory::new(gpu.stream(), bytes.next_power_of_two().max(LEAST));
        let memory = memory.unwrap_or_else(|refused| DeviceFailure::from(refused).end());
        FetchBuffer {
            memory,
            arrived: Event::new(gpu.stream()).unwrap_or_else(|failed| gpu.stream().fail(&failed)),
        }
    }

    fn give_back(&self, buffer: FetchBuffer) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

impl Gpu {
    /// Begins to copy bytes to the host.
    pub(super) fn begin_fetch(&self, from: &Memory, offset: usize, bytes: usize) -> GpuFetch {
        let buffer = self.fetch_buffers().take(self, bytes);
        self.copy_to_locked(from, offset, &buffer.memory, 0, bytes);
        buffer.arrived.record();
        GpuFetch { bytes, buffer }
    }

    /// Waits for fetched bytes, and copies them.
    pub(super) fn end_fetch(&self, GpuFetch { bytes, buffer }: GpuFetch, to: &mut [u8]) {
        assert_eq!(to.len(), bytes, "as many bytes as were fetched");
        buffer.arrived.wait();
        // SAFETY: the copy has been made, and this is the buffer's only user.
        unsafe { buffer.memory.read(to) };
        self.fetch_buffers().give_back(buffer);
    }
}
