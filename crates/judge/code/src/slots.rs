//! A fixed number of slots for workers, which threads borrow one by one.

use std::sync::{Condvar, Mutex, PoisonError};

/// The slots that no thread has borrowed.
pub struct Slots<T> {
    free: Mutex<Vec<T>>,
    given_back: Condvar,
}

impl<T: Default> Slots<T> {
    /// Slots with these contents.
    pub fn new(slots: Vec<T>) -> Self {
        Self { free: Mutex::new(slots), given_back: Condvar::new() }
    }

    /// All slots. None is borrowed, because the caller has exclusive access.
    pub fn all(&mut self) -> &mut Vec<T> {
        self.free.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Borrows the slot that was given back last. Waits until one is free.
    pub fn take(&self) -> BorrowedSlot<'_, T> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .given_back
            .wait_while(free, |free| free.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        BorrowedSlot { slots: self, slot: free.pop().unwrap_or_default() }
    }
}

/// A borrowed slot. It is free again when this is dropped.
pub struct BorrowedSlot<'a, T: Default> {
    slots: &'a Slots<T>,
    /// Its content.
    pub slot: T,
}

impl<T: Default> Drop for BorrowedSlot<'_, T> {
    fn drop(&mut self) {
        let slot = std::mem::take(&mut self.slot);
        self.slots.free.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        self.slots.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_latest_slot_is_taken_again_and_no_more_than_there_are() {
        let (busy, busiest) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mut slots = Slots::new(vec![0; 3]);
        for _ in 0..2 {
            slots.take().slot += 1;
        }
        assert_eq!(*slots.all(), [0, 0, 2]);
        thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    let _slot = slots.take();
                    busiest.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(5));
                    busy.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!((slots.all().len(), busiest.load(Ordering::SeqCst)), (3, 3));
    }
}
