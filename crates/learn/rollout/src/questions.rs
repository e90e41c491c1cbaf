//! Questions that threads take one after the other, while others are sampled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

/// Questions that have been asked and not taken.
pub(crate) struct Questions<Q> {
    incoming: Mutex<Receiver<Q>>,
    closed: AtomicBool,
}

impl<Q> Questions<Q> {
    pub fn new(incoming: Receiver<Q>) -> Arc<Self> {
        Arc::new(Self { incoming: Mutex::new(incoming), closed: AtomicBool::new(false) })
    }

    /// Wants no more answers: the questions that are left are dropped.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Waits for the next question; none once nobody can ask any more.
    pub fn next(&self) -> Option<Q> {
        loop {
            let next = self.incoming.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()?;
            if !self.closed.load(Ordering::Relaxed) {
                return Some(next);
            }
        }
    }
}

/// Closes questions when it is dropped, so that threads end after the one that they are at.
pub(crate) struct CloseOnDrop<Q>(pub Arc<Questions<Q>>);

impl<Q> Drop for CloseOnDrop<Q> {
    fn drop(&mut self) {
        self.0.close();
    }
}
