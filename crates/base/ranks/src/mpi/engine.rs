//! An MPI library as an engine. All its calls return at once, but the first and the last.

use super::abi::{Calls, Handle};
use super::calls::{AllGatherArguments, int};
use super::notes::Notes;
use crate::engine::{Engine, Move, Note, PendingMoves, Ticket};
use crate::error::{Error, Result};
use crate::piece::Piece;
use std::ffi::c_int;
use std::time::{Duration, Instant};
use std::{mem, thread};

const TAG: c_int = 1;
/// Longest wait for the others' goodbye: rank 0 may still write a checkpoint.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Time for launchers to pass on a rank's last output.
const OUTPUT_DELAY: Duration = Duration::from_millis(500);
/// Time for MPI to end all ranks, before this process ends itself.
const LAST_RESORT: Duration = Duration::from_secs(10);

pub(super) struct MpiEngine<H: Handle> {
    calls: Calls<H>,
    rank: usize,
    size: usize,
    pending: PendingMoves<MpiMoves<H>>,
    notes: Notes<H>,
}

/// The memory that the library reads and writes until its requests have ended.
struct MpiMoves<H> {
    pieces: Vec<Piece>,
    requests: Vec<H>,
    /// Lengths and places of all-gathers.
    counts: Vec<Vec<c_int>>,
}

impl<H> MpiMoves<H> {
    fn keep<const PIECES: usize>(&mut self, request: H, pieces: [Piece; PIECES]) {
        self.requests.push(request);
        self.pieces.extend(pieces);
    }
}

impl<H: Handle> MpiEngine<H> {
    /// Initialises the library; the error is a sentence.
    pub fn begin(calls: Calls<H>) -> Result<Self, String> {
        let (rank, size) = calls.begin()?;
        let mut notes = Notes::none();
        let peers = if rank == 0 { 1..size } else { 0..1 };
        for from in peers {
            notes.hear(&calls, from).map_err(|error| error.to_string())?;
        }
        Ok(Self { calls, rank, size, pending: PendingMoves::default(), notes })
    }

    /// Starts a move, and adds it to `started`. A piece's bytes stay in their place on the heap
    /// when the piece is moved.
    fn begin_move(&self, movement: Move, started: &mut MpiMoves<H>) -> Result<()> {
        let calls = &self.calls;
        match movement {
            Move::Send { to, piece, bytes } => {
                // SAFETY: `started` keeps the piece until the request has ended.
                let request = unsafe { calls.send(fitting(piece.bytes(), bytes)?, to, TAG) }?;
                started.keep(request, [piece]);
            }
            Move::Receive { from, mut piece, bytes } => {
                fitting(piece.bytes(), bytes)?;
                // SAFETY: `started` keeps the piece until the request has ended.
                let request = unsafe { calls.receive(&mut piece.bytes_mut()[..bytes], from, TAG) }?;
                started.keep(request, [piece]);
            }
            Move::AllGather { own, mut all, lengths } => {
                let own_length =
                    lengths.get(self.rank).copied().filter(|_| lengths.len() == self.size);
                let own_bytes = fitting(own.bytes(), own_length.unwrap_or(usize::MAX))?;
                let (mut places, mut end) = (Vec::with_capacity(lengths.len()), 0);
                for length in &lengths {
                    places.push(int(end)?);
                    end += length;
                }
                fitting(all.bytes(), end)?;
                let lengths = lengths.into_iter().map(int).collect::<Result<Vec<c_int>>>()?;
                let all_bytes = &mut all.bytes_mut()[..end];
                let gathered = AllGatherArguments {
                    own: own_bytes,
                    all: all_bytes,
                    lengths: &lengths,
                    places: &places,
                };
                // SAFETY: `started` keeps all four until the request has ended. There is a length
                // for each rank, and they add up to the length of `all`.
                let request = unsafe { calls.all_gather(gathered) }?;
                started.keep(request, [own, all]);
                started.counts.extend([lengths, places]);
            }
            Move::Broadcast { from, mut piece, bytes } => {
                fitting(piece.bytes(), bytes)?;
                // SAFETY: `started` keeps the piece until the request has ended.
                let request = unsafe { calls.broadcast(&mut piece.bytes_mut()[..bytes], from) }?;
                started.keep(request, [piece]);
            }
        }
        Ok(())
    }

    /// Waits until `done`, at most for [`PATIENCE`].
    fn until(&mut self, done: impl Fn(&mut Self) -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        loop {
            self.notes()?;
            if done(self)? {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                self.abort("no goodbye");
            }
            thread::sleep(Duration::from_micros(200));
        }
    }
}

impl<H: Handle> Engine for MpiEngine<H> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn start(&mut self, moves: Vec<Move>) -> Result<Ticket> {
        let mut started = MpiMoves { pieces: Vec::new(), requests: Vec::new(), counts: Vec::new() };
        let begun =
            moves.into_iter().try_for_each(|movement| self.begin_move(movement, &mut started));
        // Started moves are kept even if a later one fails to start.
        let ticket = self.pending.add(started);
        begun.map(|()| ticket)
    }

    fn poll(&mut self, ticket: Ticket) -> Result<Option<Vec<Piece>>> {
        let mut started = self.pending.take(ticket)?;
        // SAFETY: these are requests that the library has made, and nobody else writes.
        let ended = unsafe { self.calls.have_ended(&mut started.requests) };
        if matches!(ended, Ok(true)) {
            return Ok(Some(started.pieces));
        }
        self.pending.put_back(ticket, started);
        ended.map(|_| None)
    }

    fn post(&mut self, to: usize, note: &Note) -> Result<()> {
        self.notes.post(&self.calls, to, note)
    }

    fn notes(&mut self) -> Result<Vec<(usize, Note)>> {
        self.notes.receive(&self.calls)
    }

    fn abort(&mut self, _: &str) {
        // Launchers drop the latest output of ranks when one aborts.
        thread::sleep(OUTPUT_DELAY);
        // MPI_Abort may wait for a launcher that does not answer.
        let _ = thread::Builder::new().spawn(|| {
            thread::sleep(LAST_RESORT);
            exit()
        });
        // SAFETY: the library is initialised. It ends all processes, this one too.
        unsafe { (self.calls.abort)(self.calls.world, 1) };
        exit()
    }

    fn close(&mut self) -> Result<()> {
        // Rank 0 answers only when all ranks have taken leave. A launcher may end all ranks when
        // one ends, so none may end before the others have sent everything.
        if self.rank == 0 {
            self.until(|engine| Ok(engine.notes.all_are_gone()))?;
            self.notes.say_goodbye(&self.calls)?;
        } else {
            self.notes.say_goodbye(&self.calls)?;
            self.until(|engine| Ok(engine.notes.all_are_gone()))?;
        }
        self.until(|engine| engine.notes.all_have_arrived(&engine.calls))?;
        if !self.pending.is_empty() {
            return Err(Error::Engine("the engine was closed with pieces under way".into()));
        }
        // SAFETY: no request is under way, and World, which is gone, has called last.
        unsafe { self.calls.end() }
    }
}

impl<H: Handle> Drop for MpiEngine<H> {
    /// Leaks memory that the library may still read or write.
    fn drop(&mut self) {
        mem::forget(mem::take(&mut self.pending));
    }
}

/// Ends this process without libraries' exit handlers, which may wait for other ranks.
pub(crate) fn exit() -> ! {
    // SAFETY: it does not return, and nothing in this process is used afterwards.
    unsafe { libc::_exit(1) }
}

fn fitting(bytes: &[u8], count: usize) -> Result<&[u8]> {
    bytes.get(..count).ok_or_else(|| {
        Error::Engine(format!("{count} bytes are to travel, but the piece has {}", bytes.len()))
    })
}
