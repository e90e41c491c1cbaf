//! The workers' slots, which threads that ask share.

use std::sync::{Condvar, Mutex, PoisonError};

use super::worker::Worker;

/// A worker, but for the time between one and the next.
#[derive(Default)]
pub struct WorkerSlot {
    pub worker: Option<Worker>,
    /// Workers in a row that failed before they had answered anything.
    pub failures: u32,
}

/// Slots that nobody is asking in. A thread takes one for a question, so that any number of
/// threads can ask.
#[derive(Default)]
pub struct WorkerSlots {
    free: Mutex<Vec<WorkerSlot>>,
    given_back: Condvar,
}

impl WorkerSlots {
    /// All of them, since nobody can be asking.
    pub fn all(&mut self) -> &mut Vec<WorkerSlot> {
        self.free.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot that is free, once there is one.
    pub fn take(&self) -> BorrowedSlot<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .given_back
            .wait_while(free, |free| free.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        BorrowedSlot { slots: self, slot: free.pop().unwrap_or_default() }
    }
}

/// A slot that somebody is asking in. It is free again when this is dropped.
pub struct BorrowedSlot<'a> {
    slots: &'a WorkerSlots,
    pub slot: WorkerSlot,
}

impl Drop for BorrowedSlot<'_> {
    fn drop(&mut self) {
        let slot = std::mem::take(&mut self.slot);
        self.slots.free.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        self.slots.given_back.notify_one();
    }
}
