//! The interface of an engine that moves bytes between ranks: MPI, threads of one process, NCCL.
//!
//! An engine adds nothing up: its order of additions would not be ours. It moves pieces of memory
//! that it has made itself, so that these may be a device's. Pieces belong to the engine while they
//! travel, so nothing can be freed under a transfer. Nothing blocks: what was started is asked
//! after.

use crate::error::Result;

/// Memory that travels.
pub trait Piece: Send + 'static {
    /// Bytes that travel for so many bytes of contents: more where a seal stands in front.
    fn sealed(contents: usize) -> usize;

    /// Before `contents` bytes are sent as the `number`th piece to a peer.
    fn seal(&mut self, number: u32, contents: usize);

    /// Whether what came is the `number`th piece from a peer, of `contents` bytes, as it was
    /// sealed.
    fn is_sound(&self, number: u32, contents: usize) -> bool;
}

/// One movement of bytes. Lengths are known on both sides.
pub enum Move<P> {
    /// The first `bytes` of a piece go to another rank.
    Send {
        /// The other rank.
        to: usize,
        /// The piece to send.
        piece: P,
        /// Bytes to send.
        bytes: usize,
    },
    /// The first `bytes` of a piece come from another rank.
    Receive {
        /// The other rank.
        from: usize,
        /// The piece that is filled.
        piece: P,
        /// Bytes to move.
        bytes: usize,
    },
    /// The bytes of every rank come to all, one after another in rank order.
    AllGather {
        /// The part of this rank.
        own: P,
        /// The piece that all parts go to.
        all: P,
        /// Bytes of each rank's part, `[ranks]`.
        lengths: Vec<usize>,
    },
    /// The bytes of one rank come to all others.
    Broadcast {
        /// The other rank.
        from: usize,
        /// The piece that is sent or filled.
        piece: P,
        /// Bytes to move.
        bytes: usize,
    },
}

/// Moves that were started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// Bytes of a note.
pub const NOTE_BYTES: usize = 128;

/// A short message that nobody need expect.
pub type Note = [u8; NOTE_BYTES];

/// Moves bytes between ranks.
///
/// Pieces from one rank to another arrive in the order in which they were started. Every rank
/// starts the same all-gathers and broadcasts in the same order.
pub trait Engine: Send {
    /// The memory that it moves: the host's, or a device's.
    type Piece: Piece;

    /// This rank, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// New memory of so many bytes.
    fn piece(&mut self, bytes: usize) -> Self::Piece;

    /// Starts moves, all of which make progress together, whatever the order of those that other
    /// ranks start.
    ///
    /// # Errors
    /// When the engine has failed.
    fn start(&mut self, moves: Vec<Move<Self::Piece>>) -> Result<Ticket>;

    /// The pieces of what was started, in order, once all of it has ended. A ticket is not asked
    /// after again then.
    ///
    /// # Errors
    /// When the engine has failed or was aborted.
    fn poll(&mut self, ticket: Ticket) -> Result<Option<Vec<Self::Piece>>>;

    /// Sends a note: from rank 0 to another, or from another to rank 0. It is left out if too many
    /// are under way.
    ///
    /// # Errors
    /// When the engine has failed.
    fn post(&mut self, to: usize, note: &Note) -> Result<()>;

    /// The notes that have come since this was last asked, with who sent them.
    ///
    /// # Errors
    /// When the engine has failed.
    fn notes(&mut self) -> Result<Vec<(usize, Note)>>;

    /// Ends all ranks at once. Where ranks are processes, it does not return; else
    /// [`poll`](Self::poll) fails from now on.
    fn abort(&mut self, why: &str);

    /// After the last exchange, on all ranks: takes leave of the others.
    ///
    /// # Errors
    /// When the engine has failed.
    fn close(&mut self) -> Result<()>;
}
