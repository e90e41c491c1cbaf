//! Ranks as threads of one process, without MPI, for tests and deliberate faults.

use crate::engine::{Engine, Move, Note, PendingMoves, Ticket};
use crate::error::{Error, Result};
use crate::line::Line;
use crate::piece::Piece;
use crate::settings::Settings;
use crate::world::World;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Two channels between ranks. Messages of each arrive in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Channel {
    Single,
    Collective,
}

/// The `number`th message from one rank to another.
type Address = (usize, usize, Channel, u64);

/// The messages between the ranks.
#[derive(Default)]
struct Hub {
    messages: HashMap<Address, Vec<u8>>,
    notes: HashMap<usize, Vec<(usize, Note)>>,
    ended: Option<String>,
    silent: HashSet<usize>,
    /// Ranks whose next message gets a flipped bit.
    damaging: HashSet<usize>,
}

/// Makes ranks fail.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Hub>>);

impl Faults {
    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops all later messages of a rank, as if its process were stopped.
    pub fn silence(&self, rank: usize) {
        self.hub().silent.insert(rank);
    }

    /// Flips one bit of the next message that a rank sends to a single other rank.
    pub fn damage(&self, rank: usize) {
        self.hub().damaging.insert(rank);
    }
}

/// The engines of `ranks` ranks.
fn engines(ranks: usize) -> (Vec<ThreadEngine>, Faults) {
    let faults = Faults::default();
    let engine = |rank| ThreadEngine {
        rank,
        size: ranks,
        hub: faults.clone(),
        numbers: HashMap::new(),
        pending: PendingMoves::default(),
    };
    ((0..ranks).map(engine).collect(), faults)
}

/// One rank's engine.
struct ThreadEngine {
    rank: usize,
    size: usize,
    hub: Faults,
    /// Messages to and from each rank so far.
    numbers: HashMap<(usize, usize, Channel), u64>,
    pending: PendingMoves<Vec<ThreadMove>>,
}

struct ThreadMove {
    pieces: Vec<Piece>,
    /// The messages to receive: address, length, and offset in the last piece.
    awaited: Vec<(Address, usize, usize)>,
}

impl ThreadEngine {
    fn next(&mut self, from: usize, to: usize, channel: Channel) -> Address {
        let number = self.numbers.entry((from, to, channel)).or_default();
        let address = (from, to, channel, *number);
        *number += 1;
        address
    }

    fn put(&mut self, to: usize, channel: Channel, bytes: &[u8]) {
        let address = self.next(self.rank, to, channel);
        let mut hub = self.hub.hub();
        if hub.silent.contains(&self.rank) {
            return;
        }
        let mut message = bytes.to_vec();
        if channel == Channel::Single && hub.damaging.remove(&self.rank) {
            let middle = message.len() / 2;
            message[middle] ^= 4;
        }
        hub.messages.insert(address, message);
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank;
        (0..self.size).filter(move |&other| other != rank)
    }

    fn begin(&mut self, movement: Move) -> ThreadMove {
        match movement {
            Move::Send { to, piece, bytes } => {
                self.put(to, Channel::Single, &piece.bytes()[..bytes]);
                ThreadMove { pieces: vec![piece], awaited: Vec::new() }
            }
            Move::Receive { from, piece, bytes } => {
                let address = self.next(from, self.rank, Channel::Single);
                ThreadMove { pieces: vec![piece], awaited: vec![(address, bytes, 0)] }
            }
            Move::AllGather { own, mut all, lengths } => {
                let starts: Vec<usize> =
                    (0..lengths.len()).map(|rank| lengths[..rank].iter().sum()).collect();
                let length = lengths[self.rank];
                all.bytes_mut()[starts[self.rank]..][..length]
                    .copy_from_slice(&own.bytes()[..length]);
                let mut awaited = Vec::new();
                for other in self.others() {
                    self.put(other, Channel::Collective, &own.bytes()[..length]);
                    let address = self.next(other, self.rank, Channel::Collective);
                    awaited.push((address, lengths[other], starts[other]));
                }
                ThreadMove { pieces: vec![own, all], awaited }
            }
            Move::Broadcast { from, piece, bytes } if from == self.rank => {
                self.others().for_each(|other| {
                    self.put(other, Channel::Collective, &piece.bytes()[..bytes]);
                });
                ThreadMove { pieces: vec![piece], awaited: Vec::new() }
            }
            Move::Broadcast { from, piece, bytes } => {
                let address = self.next(from, self.rank, Channel::Collective);
                ThreadMove { pieces: vec![piece], awaited: vec![(address, bytes, 0)] }
            }
        }
    }
}

impl Engine for ThreadEngine {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn start(&mut self, moves: Vec<Move>) -> Result<Ticket> {
        let started = moves.into_iter().map(|movement| self.begin(movement)).collect();
        Ok(self.pending.add(started))
    }

    fn poll(&mut self, ticket: Ticket) -> Result<Option<Vec<Piece>>> {
        let faults = self.hub.clone();
        let mut hub = faults.hub();
        if let Some(why) = &hub.ended {
            return Err(Error::Engine(why.clone()));
        }
        let mut started = self.pending.take(ticket)?;
        for ThreadMove { pieces, awaited } in &mut started {
            let Some(piece) = pieces.last_mut() else { continue };
            let mut late = Vec::new();
            for (address, bytes, at) in awaited.drain(..) {
                match hub.messages.remove(&address) {
                    Some(message) if message.len() == bytes => {
                        piece.bytes_mut()[at..][..bytes].copy_from_slice(&message);
                    }
                    Some(message) => {
                        let came = message.len();
                        return Err(Error::Engine(format!(
                            "{came} bytes came where {bytes} were due"
                        )));
                    }
                    None => late.push((address, bytes, at)),
                }
            }
            *awaited = late;
        }
        if started.iter().any(|started| !started.awaited.is_empty()) {
            self.pending.put_back(ticket, started);
            return Ok(None);
        }
        Ok(Some(started.into_iter().flat_map(|started| started.pieces).collect()))
    }

    fn post(&mut self, to: usize, note: &Note) -> Result<()> {
        let mut hub = self.hub.hub();
        if !hub.silent.contains(&self.rank) {
            hub.notes.entry(to).or_default().push((self.rank, *note));
        }
        Ok(())
    }

    fn notes(&mut self) -> Result<Vec<(usize, Note)>> {
        Ok(self.hub.hub().notes.remove(&self.rank).unwrap_or_default())
    }

    fn abort(&mut self, why: &str) {
        self.hub.hub().ended.get_or_insert_with(|| why.to_owned());
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Drop for ThreadEngine {
    /// The others must not wait for a rank that has panicked. With processes, the launcher would
    /// end them.
    fn drop(&mut self) {
        if thread::panicking() {
            self.abort("a rank has panicked");
        }
    }
}

/// `ranks` ranks as if a launcher had started them; a thread takes each.
pub fn worlds(ranks: usize, settings: &Settings) -> Result<(Vec<World>, Faults)> {
    let (engines, faults) = engines(ranks);
    let worlds: Result<Vec<World>> = thread::scope(|scope| {
        let begin = |engine| move || World::connect(Line::new(Box::new(engine)), None, settings);
        let begun: Vec<_> = engines.into_iter().map(|engine| scope.spawn(begin(engine))).collect();
        let joined = begun.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::Engine("a rank has panicked".into())))
        });
        joined.collect()
    });
    Ok((worlds?, faults))
}
