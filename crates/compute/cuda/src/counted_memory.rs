//! Memory of a device, counted while the program has it.

use crate::device::Memory;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counted memory. When it is dropped, the device gets it back.
pub(crate) struct CountedMemory {
    memory: Memory,
    all: Arc<AtomicUsize>,
}

impl CountedMemory {
    /// Adds the memory's bytes to the total.
    pub(crate) fn new(memory: Memory, all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(memory.bytes(), Ordering::Relaxed);
        Self { memory, all: Arc::clone(all) }
    }
}

impl Deref for CountedMemory {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl Drop for CountedMemory {
    fn drop(&mut self) {
        self.all.fetch_sub(self.memory.bytes(), Ordering::Relaxed);
    }
}
