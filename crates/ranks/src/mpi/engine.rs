//! An MPI library as an engine. All its calls return at once, but the first and the last.

use super::abi::{Calls, Handle};
use crate::engine::{Engine, Move, NOTE_BYTES, Note, Ticket};
use crate::error::{Error, Result};
use crate::host_piece::HostPiece;
use std::collections::HashMap;
use std::ffi::c_int;
use std::ptr;
use std::time::{Duration, Instant};
use std::{mem, thread};

/// Tags of pieces and of notes.
const PIECE: c_int = 1;
const NOTE: c_int = 2;
/// First byte of a note that is the last.
const GOODBYE: u8 = 1;
/// Notes to one rank that may be under way: more are left out, since it does not take them.
const NOTES_UNDER_WAY: usize = 8;
/// How long the others may take for their goodbye: rank 0 may still write a checkpoint.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How long MPI may take to end everything, before this process ends itself.
const LAST_RESORT: Duration = Duration::from_secs(10);

/// A note as it travels: what it is stands in front. On the heap, where it stays when this is moved.
type Envelope = Vec<u8>;

pub(super) struct MpiEngine<H: Handle> {
    calls: Calls<H>,
    rank: usize,
    size: usize,
    tickets: u64,
    under_way: HashMap<Ticket, Started<H>>,
    /// Notes that are to come: one for each rank that sends any.
    awaited: Vec<Awaited<H>>,
    /// Notes that are under way, with whom they go to.
    posted: Vec<(usize, Envelope, H)>,
}

/// What the library reads and writes until its requests have ended.
struct Started<H> {
    pieces: Vec<HostPiece>,
    requests: Vec<H>,
    /// Lengths and places of all-gathers.
    counts: Vec<Vec<c_int>>,
}

struct Awaited<H> {
    from: usize,
    note: Envelope,
    request: H,
    /// Whether nothing more comes.
    over: bool,
}

impl<H: Handle> MpiEngine<H> {
    /// Initialises the library.
    ///
    /// # Errors
    /// A sentence.
    pub fn begin(calls: Calls<H>) -> Result<Self, String> {
        let mut provided = 0;
        // SAFETY: the library is initialised once in a process, here; it takes no arguments as null.
        let code = unsafe {
            (calls.init_thread)(ptr::null_mut(), ptr::null_mut(), calls.serialized, &raw mut provided)
        };
        if code != 0 {
            return Err(format!("MPI_Init_thread says {code}"));
        }
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the library is initialised, and writes one number each.
        let codes = unsafe {
            [(calls.comm_rank)(calls.world, &raw mut rank), (calls.comm_size)(calls.world, &raw mut size)]
        };
        let (rank, size) = match (usize::try_from(rank), usize::try_from(size)) {
            (Ok(rank), Ok(size)) if codes == [0, 0] && rank < size => (rank, size),
            _ => return Err(format!("it says that this is rank {rank} of {size}")),
        };
        if provided < calls.serialized {
            return Err("it allows no calls from several threads (MPI_THREAD_SERIALIZED)".into());
        }
        let (under_way, posted) = (HashMap::new(), Vec::new());
        let mut engine = Self { calls, rank, size, tickets: 0, under_way, awaited: Vec::new(), posted };
        let peers = if rank == 0 { 1..size } else { 0..1 };
        for from in peers.filter(|_| size > 1) {
            let mut note: Envelope = vec![0; NOTE_BYTES + 1];
            let request = engine.receive(&mut note[..], from, NOTE).map_err(|error| error.to_string())?;
            engine.awaited.push(Awaited { from, note, request, over: false });
        }
        Ok(engine)
    }

    /// The bytes must neither move nor go before the request has ended.
    fn send(&self, bytes: &[u8], to: usize, tag: c_int) -> Result<H> {
        let Calls { isend, byte, world, .. } = self.calls;
        let mut request = H::UNSET;
        let (to, count) = (int(to)?, int(bytes.len())?);
        // SAFETY: the bytes are there, and whoever calls keeps them until the request has ended.
        let code = unsafe { isend(bytes.as_ptr().cast(), count, byte, to, tag, world, &raw mut request) };
        said("MPI_Isend", code).map(|()| request)
    }

    /// The bytes must neither move, go nor be looked at before the request has ended.
    fn receive(&self, bytes: &mut [u8], from: usize, tag: c_int) -> Result<H> {
        let Calls { irecv, byte, world, .. } = self.calls;
        let mut request = H::UNSET;
        let (from, count) = (int(from)?, int(bytes.len())?);
        // SAFETY: the bytes are this caller's alone, which keeps them until the request has ended.
        let code =
            unsafe { irecv(bytes.as_mut_ptr().cast(), count, byte, from, tag, world, &raw mut request) };
        said("MPI_Irecv", code).map(|()| request)
    }

    fn have_ended(&self, requests: &mut [H]) -> Result<bool> {
        let Calls { testall, no_statuses, .. } = self.calls;
        let mut ended = 0;
        let count = int(requests.len())?;
        // SAFETY: these are requests that the library has made; it writes over those that have ended. The address for
        // statuses is its own for none.
        let code = unsafe {
            testall(count, requests.as_mut_ptr(), &raw mut ended, ptr::without_provenance_mut(no_statuses))
        };
        said("MPI_Testall", code).map(|()| ended != 0)
    }

    fn begin_move(&self, movement: Move<HostPiece>, started: &mut Started<H>) -> Result<()> {
        let Calls { iallgatherv, ibcast, byte, world, .. } = self.calls;
        // A piece's bytes stay in their place on the heap when the piece itself is moved.
        let (pieces, request) = match movement {
            Move::Send { to, piece, bytes } => {
                let request = self.send(fitting(piece.bytes(), bytes)?, to, PIECE)?;
                (vec![piece], request)
            }
            Move::Receive { from, mut piece, bytes } => {
                fitting(piece.bytes(), bytes)?;
                let request = self.receive(&mut piece.bytes_mut()[..bytes], from, PIECE)?;
                (vec![piece], request)
            }
            Move::AllGather { own, mut all, lengths } => {
                let counts = lengths.iter().map(|&length| int(length)).collect::<Result<Vec<c_int>>>()?;
                let mut places = Vec::with_capacity(counts.len());
                let mut end = 0;
                for length in &lengths {
                    places.push(int(end)?);
                    end += length;
                }
                fitting(all.bytes(), end)?;
                let length = lengths.get(self.rank).copied().filter(|_| lengths.len() == self.size);
                let own_bytes = fitting(own.bytes(), length.unwrap_or(usize::MAX))?;
                let (to, own_count) = (all.bytes_mut().as_mut_ptr().cast(), int(own_bytes.len())?);
                let mut request = H::UNSET;
                // SAFETY: both pieces are there and have these lengths, there are as many counts and places as ranks, and
                // `started` keeps all of them until the request has ended.
                let code = unsafe {
                    iallgatherv(
                        own_bytes.as_ptr().cast(),
                        own_count,
                        byte,
                        to,
                        counts.as_ptr(),
                        places.as_ptr(),
                        byte,
                        world,
                        &raw mut request,
                    )
                };
                said("MPI_Iallgatherv", code)?;
                started.counts.extend([counts, places]);
                (vec![own, all], request)
            }
            Move::Broadcast { from, mut piece, bytes } => {
                fitting(piece.bytes(), bytes)?;
                let (from, count, mut request) = (int(from)?, int(bytes)?, H::UNSET);
                // SAFETY: the piece has so many bytes, and `started` keeps it until the request has ended.
                let code = unsafe {
                    ibcast(piece.bytes_mut().as_mut_ptr().cast(), count, byte, from, world, &raw mut request)
                };
                said("MPI_Ibcast", code)?;
                (vec![piece], request)
            }
        };
        started.pieces.extend(pieces);
        started.requests.push(request);
        Ok(())
    }

    /// Waits for the others, but not for ever.
    fn until(&mut self, done: impl Fn(&Self) -> bool) -> Result<()> {
        let begun = Instant::now();
        loop {
            self.forget_posted()?;
            self.notes()?;
            if done(self) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                self.abort("no goodbye");
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    fn forget_posted(&mut self) -> Result<()> {
        // One by one, so that none is dropped when a call fails.
        let mut index = 0;
        while index < self.posted.len() {
            let mut request = [self.posted[index].2];
            let ended = self.have_ended(&mut request)?;
            self.posted[index].2 = request[0];
            if ended {
                self.posted.swap_remove(index);
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    fn post_as(&mut self, kind: u8, to: usize, note: &Note) -> Result<()> {
        let mut envelope: Envelope = vec![kind; NOTE_BYTES + 1];
        envelope[1..].copy_from_slice(note);
        let request = self.send(&envelope[..], to, NOTE)?;
        self.posted.push((to, envelope, request));
        Ok(())
    }
}

impl<H: Handle> Engine for MpiEngine<H> {
    type Piece = HostPiece;

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn piece(&mut self, bytes: usize) -> HostPiece {
        HostPiece::zeros(bytes)
    }

    fn start(&mut self, moves: Vec<Move<HostPiece>>) -> Result<Ticket> {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let mut started = Started { pieces: Vec::new(), requests: Vec::new(), counts: Vec::new() };
        let begun = moves.into_iter().try_for_each(|movement| self.begin_move(movement, &mut started));
        // Those that did begin are kept whatever became of the others.
        self.under_way.insert(ticket, started);
        begun.map(|()| ticket)
    }

    fn poll(&mut self, ticket: Ticket) -> Result<Option<Vec<HostPiece>>> {
        let Some(mut started) = self.under_way.remove(&ticket) else {
            return Err(Error::Engine("nothing of this ticket is under way".into()));
        };
        match self.have_ended(&mut started.requests) {
            Ok(true) => Ok(Some(started.pieces)),
            Ok(false) => {
                self.under_way.insert(ticket, started);
                Ok(None)
            }
            Err(error) => {
                self.under_way.insert(ticket, started);
                Err(error)
            }
        }
    }

    fn post(&mut self, to: usize, note: &Note) -> Result<()> {
        self.forget_posted()?;
        let under_way = self.posted.iter().filter(|(other, ..)| *other == to).count();
        if under_way < NOTES_UNDER_WAY { self.post_as(0, to, note) } else { Ok(()) }
    }

    fn notes(&mut self) -> Result<Vec<(usize, Note)>> {
        let mut notes = Vec::new();
        for index in 0..self.awaited.len() {
            while !self.awaited[index].over {
                let mut request = [self.awaited[index].request];
                let ended = self.have_ended(&mut request)?;
                self.awaited[index].request = request[0];
                if !ended {
                    break;
                }
                let Awaited { from, note, .. } = &self.awaited[index];
                let (from, is_last) = (*from, note[0] == GOODBYE);
                if is_last {
                    self.awaited[index].over = true;
                    break;
                }
                let mut read = [0; NOTE_BYTES];
                read.copy_from_slice(&note[1..]);
                notes.push((from, read));
                let mut next: Envelope = vec![0; NOTE_BYTES + 1];
                self.awaited[index].request = self.receive(&mut next[..], from, NOTE)?;
                self.awaited[index].note = next;
            }
        }
        Ok(notes)
    }

    fn abort(&mut self, _: &str) {
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
        // Rank 0 answers only when all have taken leave: nobody ends, which a launcher may take for a reason to end all, before
        // everybody has said what there was to say.
        let peers: Vec<usize> = self.awaited.iter().map(|awaited| awaited.from).collect();
        let goodbyes = |engine: &mut Self| {
            peers.iter().try_for_each(|&to| engine.post_as(GOODBYE, to, &[0; NOTE_BYTES]))
        };
        if self.rank == 0 {
            self.until(|engine| engine.awaited.iter().all(|awaited| awaited.over))?;
            goodbyes(self)?;
        } else {
            goodbyes(self)?;
            self.until(|engine| engine.awaited.iter().all(|awaited| awaited.over))?;
        }
        self.until(|engine| engine.posted.is_empty())?;
        // SAFETY: no request is under way any more, and nothing is called after this.
        said("MPI_Finalize", unsafe { (self.calls.finalize)() })
    }
}

impl<H: Handle> Drop for MpiEngine<H> {
    /// What the library may still read or write stays where it is.
    fn drop(&mut self) {
        mem::forget(mem::take(&mut self.under_way));
        mem::forget(mem::take(&mut self.awaited));
        mem::forget(mem::take(&mut self.posted));
    }
}

/// Ends this process without the handlers that libraries have left for its end: they may wait for other ranks.
fn exit() -> ! {
    // SAFETY: it does not return, and nothing in this process is used afterwards.
    unsafe { libc::_exit(1) }
}

fn said(function: &str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::Engine(format!("{function} has failed with code {code}"))) }
}

fn int(number: usize) -> Result<c_int> {
    c_int::try_from(number).map_err(|_| Error::Engine(format!("{number} is more than MPI counts to")))
}

fn fitting(bytes: &[u8], count: usize) -> Result<&[u8]> {
    bytes.get(..count).ok_or_else(|| {
        Error::Engine(format!("{count} bytes are to travel, but the piece has {}", bytes.len()))
    })
}
