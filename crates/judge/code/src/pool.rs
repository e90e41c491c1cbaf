//! Workers that are lent out one by one, started when they are first needed.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// At most so many workers at a time. Several threads may borrow from it.
pub struct Pool<W> {
    most: usize,
    state: Mutex<State<W>>,
    returned: Condvar,
}

struct State<W> {
    idle: Vec<W>,
    /// Workers that are there, idle or lent.
    count: usize,
}

impl<W> Pool<W> {
    /// An empty one.
    pub fn new(most: usize) -> Self {
        let state = Mutex::new(State { idle: Vec::new(), count: 0 });
        Self { most, state, returned: Condvar::new() }
    }

    /// Lends a worker: an idle one, else one that `start` makes, else the next that is returned.
    pub fn borrow<E>(&self, start: impl FnOnce() -> Result<W, E>) -> Result<Loan<'_, W>, E> {
        let mut state = self.state();
        loop {
            if let Some(worker) = state.idle.pop() {
                return Ok(Loan { pool: self, worker: Some(worker) });
            }
            if state.count < self.most {
                break;
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.count += 1;
        drop(state);
        // A loan without a worker makes room for another when it is dropped.
        let mut loan = Loan { pool: self, worker: None };
        loan.worker = Some(start()?);
        Ok(loan)
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker that goes back to its pool.
pub struct Loan<'a, W> {
    pool: &'a Pool<W>,
    worker: Option<W>,
}

impl<W> Loan<'_, W> {
    /// The worker.
    pub fn worker(&mut self) -> &mut W {
        self.worker.as_mut().expect("it is there from when it is lent until it goes back")
    }
}

impl<W> Drop for Loan<'_, W> {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        match self.worker.take() {
            Some(worker) => state.idle.push(worker),
            None => state.count -= 1,
        }
        drop(state);
        self.pool.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn workers_are_started_as_needed_and_used_again() {
        let (started, busy, busiest) =
            (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let pool = Pool::new(3);
        let start = || Ok::<_, ()>(started.fetch_add(1, Ordering::SeqCst));
        drop(pool.borrow(start).unwrap());
        drop(pool.borrow(start).unwrap());
        assert_eq!(started.load(Ordering::SeqCst), 1);
        thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    let mut loan = pool.borrow(start).unwrap();
                    busiest.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(5));
                    assert!(*loan.worker() < 3);
                    busy.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!((started.load(Ordering::SeqCst), busiest.load(Ordering::SeqCst)), (3, 3));
    }

    #[test]
    fn what_cannot_be_started_takes_no_place() {
        let pool = Pool::new(1);
        for _ in 0..3 {
            assert_eq!(pool.borrow(|| Err::<u8, _>("no")).err(), Some("no"));
        }
        assert_eq!(pool.borrow(|| Ok::<_, ()>(5)).unwrap().worker(), &mut 5);
    }
}
