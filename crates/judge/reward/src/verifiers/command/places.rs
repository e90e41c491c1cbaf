//! The workers' places, which threads that ask share.

use std::sync::{Condvar, Mutex, PoisonError};

use super::worker::Worker;

/// Where there is a worker, but for the time between one and the next.
#[derive(Default)]
pub struct Place {
    /// The worker.
    pub worker: Option<Worker>,
    /// Workers in a row that failed before they had answered anything.
    pub failures: u32,
}

/// Places that nobody is asking in. A thread takes one for a question, so that any number of
/// threads can ask.
#[derive(Default)]
pub struct Places {
    free: Mutex<Vec<Place>>,
    given_back: Condvar,
}

impl Places {
    /// All of them, since nobody can be asking.
    pub fn all(&mut self) -> &mut Vec<Place> {
        self.free.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place that is free, once there is one.
    pub fn take(&self) -> Taken<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .given_back
            .wait_while(free, |free| free.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        Taken { places: self, place: free.pop().unwrap_or_default() }
    }
}

/// A place that somebody is asking in. It is free again when this is dropped.
pub struct Taken<'a> {
    places: &'a Places,
    /// The place.
    pub place: Place,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let place = std::mem::take(&mut self.place);
        self.places.free.lock().unwrap_or_else(PoisonError::into_inner).push(place);
        self.places.given_back.notify_one();
    }
}
