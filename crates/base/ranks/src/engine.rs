//! The interface of an engine that moves bytes between ranks: MPI, TCP, or threads of one process.
//!
//! An engine adds nothing up: its order of additions would not be ours. Pieces belong to it while
//! they travel, so nothing can be freed under a transfer. No method blocks: [`Engine::poll`] asks
//! whether moves have ended.

use crate::error::{Error, Result};
use crate::piece::Piece;
use std::collections::HashMap;

/// One movement of bytes. Lengths are known on both sides.
pub(crate) enum Move {
    /// The first `bytes` of a piece go to another rank.
    Send { to: usize, piece: Piece, bytes: usize },
    /// The first `bytes` of a piece come from another rank.
    Receive { from: usize, piece: Piece, bytes: usize },
    /// `own` of every rank comes to `all`, one after another in rank order; `lengths` is `[ranks]`.
    AllGather { own: Piece, all: Piece, lengths: Vec<usize> },
    /// The first `bytes` of one rank's piece come to all others.
    Broadcast { from: usize, piece: Piece, bytes: usize },
}

/// Moves that were started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(u64);

/// Bytes of a note.
pub(crate) const NOTE_BYTES: usize = 128;

/// A short message that may come at any time.
pub(crate) type Note = [u8; NOTE_BYTES];

/// Moves bytes between ranks. Every method may return that the engine has failed.
///
/// Pieces from one rank to another arrive in the order in which they were started. Two ranks start
/// the moves between them in the same order, all-gathers and broadcasts among them.
pub(crate) trait Engine: Send {
    /// This rank, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// Starts moves. All of them make progress together, in whatever order other ranks start
    /// theirs.
    fn start(&mut self, moves: Vec<Move>) -> Result<Ticket>;

    /// The pieces of a ticket's moves, in order; None until all moves have ended. A ticket gives
    /// its pieces once. Fails after an abort.
    fn poll(&mut self, ticket: Ticket) -> Result<Option<Vec<Piece>>>;

    /// Sends a note: from rank 0 to another, or from another to rank 0. It is dropped if too many
    /// are under way.
    fn post(&mut self, to: usize, note: &Note) -> Result<()>;

    /// The notes that have come since the last call, each with its sender.
    fn notes(&mut self) -> Result<Vec<(usize, Note)>>;

    /// Ends all ranks at once. Where ranks are processes, it does not return; else
    /// [`poll`](Self::poll) fails from now on.
    fn abort(&mut self, why: &str);

    /// Takes leave of the other ranks. All ranks call this after the last exchange.
    fn close(&mut self) -> Result<()>;
}

/// The moves of an engine that have not ended, by ticket.
pub(crate) struct PendingMoves<T> {
    tickets: u64,
    started: HashMap<Ticket, T>,
}

impl<T> Default for PendingMoves<T> {
    fn default() -> Self {
        Self { tickets: 0, started: HashMap::new() }
    }
}

impl<T> PendingMoves<T> {
    /// Keeps moves under a new ticket.
    pub fn add(&mut self, started: T) -> Ticket {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.started.insert(ticket, started);
        ticket
    }

    /// Takes out the moves of a ticket, unless they have already ended.
    pub fn take(&mut self, ticket: Ticket) -> Result<T> {
        let started = self.started.remove(&ticket);
        started.ok_or_else(|| Error::Engine("nothing of this ticket is under way".into()))
    }

    /// Puts back moves that have not ended yet.
    pub fn put_back(&mut self, ticket: Ticket, started: T) {
        self.started.insert(ticket, started);
    }

    /// Moves that have not ended.
    pub fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        self.started.get_mut(&ticket)
    }

    pub fn is_empty(&self) -> bool {
        self.started.is_empty()
    }
}
