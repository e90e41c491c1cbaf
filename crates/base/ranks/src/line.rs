//! An engine shared by a rank and its pulse. A rank waits by asking the engine, with sleep in
//! between.
//!
//! No thread blocks inside the engine. Ranks may share processors, so a rank that spins would take
//! time from the rank that it waits for.

use crate::engine::{Engine, Move, Ticket};
use crate::error::Result;
use crate::piece::Piece;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two polls of the engine.
const POLL_PAUSE: Duration = Duration::from_micros(50);
/// Number of first polls that only yield to other threads, and do not sleep.
const YIELDS_BEFORE_SLEEP: u32 = 20;

/// The bytes and the time of exchanges so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that this rank has sent to all others together.
    pub sent_bytes: u64,
    /// The time that this rank has waited for others.
    pub waited: Duration,
}

/// An engine with which one thread exchanges and another sends notes.
pub(crate) struct Line {
    engine: Mutex<Box<dyn Engine>>,
    rank: usize,
    size: usize,
    /// The number of pieces sent to each rank, and received from it, `[ranks]`. Seals carry these
    /// numbers.
    numbers: Mutex<Vec<(u32, u32)>>,
    sent_bytes: AtomicU64,
    waited_ns: AtomicU64,
}

impl Line {
    pub fn new(engine: Box<dyn Engine>) -> Self {
        let (rank, size) = (engine.rank(), engine.size());
        Self {
            engine: Mutex::new(engine),
            rank,
            size,
            numbers: Mutex::new(vec![(0, 0); size]),
            sent_bytes: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
        }
    }

    pub fn rank(&self) -> usize {
        self.rank
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn traffic(&self) -> Traffic {
        Traffic {
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            waited: Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed)),
        }
    }

    /// The engine, for one call that returns at once.
    pub fn engine(&self) -> MutexGuard<'_, Box<dyn Engine>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine, unless another thread is inside it for longer than `limit`.
    pub fn engine_within(&self, limit: Duration) -> Option<MutexGuard<'_, Box<dyn Engine>>> {
        let begun = Instant::now();
        loop {
            match self.engine.try_lock() {
                Ok(engine) => return Some(engine),
                Err(TryLockError::Poisoned(engine)) => return Some(engine.into_inner()),
                Err(TryLockError::WouldBlock) if begun.elapsed() > limit => return None,
                Err(TryLockError::WouldBlock) => thread::sleep(POLL_PAUSE),
            }
        }
    }

    pub fn start(&self, moves: Vec<Move>) -> Result<Ticket> {
        let sent = moves.iter().map(|movement| match movement {
            Move::Send { bytes, .. } => *bytes,
            Move::AllGather { lengths, .. } => lengths[self.rank] * (self.size - 1),
            Move::Broadcast { from, bytes, .. } if *from == self.rank => *bytes,
            Move::Receive { .. } | Move::Broadcast { .. } => 0,
        });
        self.sent_bytes.fetch_add(sent.sum::<usize>() as u64, Ordering::Relaxed);
        self.engine().start(moves)
    }

    /// Counts an exchange that did not go through the engine.
    pub fn count(&self, sent_bytes: u64, waited: Duration) {
        self.sent_bytes.fetch_add(sent_bytes, Ordering::Relaxed);
        self.waited_ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Waits for the moves of a ticket, and returns their pieces.
    pub fn wait(&self, ticket: Ticket) -> Result<Vec<Piece>> {
        let begun = Instant::now();
        let mut asked = 0;
        loop {
            let ended = self.engine().poll(ticket)?;
            if let Some(pieces) = ended {
                self.waited_ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
                return Ok(pieces);
            }
            if asked < YIELDS_BEFORE_SLEEP {
                asked += 1;
                thread::yield_now();
            } else {
                thread::sleep(POLL_PAUSE);
            }
        }
    }

    /// The number of the next piece to a rank.
    pub fn next_to(&self, rank: usize) -> u32 {
        next(&mut self.numbers.lock().unwrap_or_else(PoisonError::into_inner)[rank].0)
    }

    /// The number of the next piece from a rank.
    pub fn next_from(&self, rank: usize) -> u32 {
        next(&mut self.numbers.lock().unwrap_or_else(PoisonError::into_inner)[rank].1)
    }
}

fn next(number: &mut u32) -> u32 {
    let this = *number;
    *number = number.wrapping_add(1);
    this
}
