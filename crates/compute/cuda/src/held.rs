//! Memory of a device that is counted for as long as the program has it.

use crate::device::Memory;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counted memory. Dropped, it is given back to the device.
pub(crate) struct Held<M: Memory> {
    memory: M,
    all: Arc<AtomicUsize>,
}

impl<M: Memory> Held<M> {
    /// Adds its bytes to those of all.
    pub(crate) fn new(memory: M, all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(memory.bytes(), Ordering::Relaxed);
        Self { memory, all: Arc::clone(all) }
    }
}

impl<M: Memory> Deref for Held<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.memory
    }
}

impl<M: Memory> Drop for Held<M> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.memory.bytes(), Ordering::Relaxed);
    }
}
