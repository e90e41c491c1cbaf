//! An engine over one connection for each pair of ranks. Whoever calls the engine moves bytes
//! along, as much as goes at once: there is no thread.

use super::peer::{Event, MOST_BYTES, Peer, Span, Started};
use super::rendezvous::Connection;
use crate::engine::{Engine, Move, Note, PendingMoves, Ticket};
use crate::error::{Error, Result};
use crate::mpi;
use crate::piece::Piece;
use crate::pulse::{Message, Tell};
use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two reads of everything, also of what nobody awaits.
const READ_ALL_INTERVAL: Duration = Duration::from_millis(10);
/// Longest wait for the others' goodbye: rank 0 may still write a checkpoint.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Longest time to tell the others that all end.
const ABORT: Duration = Duration::from_secs(1);
/// Time that each rank leaves to the one before it to say that a rank is lost.
const TURN: Duration = Duration::from_millis(1500);

pub(super) struct TcpEngine {
    rank: usize,
    /// `[ranks]`; none at this rank's own place.
    peers: Vec<Option<Peer>>,
    moves: PendingMoves<Started>,
    notes: Vec<(usize, Note)>,
    read_all: Instant,
    /// When a rank was lost, and what is to be said.
    lost: Option<(Instant, String)>,
    tell: Tell,
}

impl TcpEngine {
    pub fn new(rank: usize, connections: Vec<Option<Connection>>, tell: Tell) -> io::Result<Self> {
        let peer =
            |connection: Connection| Peer::new(connection.stream, connection.identity.name());
        let peers: io::Result<Vec<_>> =
            connections.into_iter().map(|one| one.map(peer).transpose()).collect();
        Ok(Self {
            rank,
            peers: peers?,
            moves: PendingMoves::default(),
            notes: Vec::new(),
            read_all: Instant::now(),
            lost: None,
            tell,
        })
    }

    fn peer(&mut self, rank: usize) -> Result<&mut Peer> {
        let peer = self.peers.get_mut(rank).and_then(Option::as_mut);
        peer.ok_or_else(|| Error::Engine(format!("there is no other rank {rank}")))
    }

    /// Registers a move of a ticket: its pieces, and the frames that go and come.
    fn begin_move(&mut self, ticket: Ticket, movement: Move) -> Result<()> {
        let first = self.moves.get_mut(ticket).map_or(0, |started| started.pieces.len());
        let span = |piece, bytes| Span { ticket, piece, bytes };
        match movement {
            Move::Send { to, piece, bytes } => {
                self.keep(ticket, [fitting(piece, bytes)?]);
                self.send(to, span(first, 0..bytes))
            }
            Move::Receive { from, piece, bytes } => {
                self.keep(ticket, [fitting(piece, bytes)?]);
                self.receive(from, span(first, 0..bytes))
            }
            Move::AllGather { own, mut all, lengths } => {
                if lengths.len() != self.peers.len() {
                    return Err(Error::Engine(format!(
                        "{} lengths of an all-gather",
                        lengths.len()
                    )));
                }
                let own = fitting(own, lengths[self.rank])?;
                all = fitting(all, lengths.iter().sum())?;
                let start: usize = lengths[..self.rank].iter().sum();
                all.bytes_mut()[start..][..lengths[self.rank]]
                    .copy_from_slice(&own.bytes()[..lengths[self.rank]]);
                self.keep(ticket, [own, all]);
                let mut start = 0;
                for (other, &length) in lengths.iter().enumerate() {
                    if other != self.rank {
                        self.send(other, span(first, 0..lengths[self.rank]))?;
                        self.receive(other, span(first + 1, start..start + length))?;
                    }
                    start += length;
                }
                Ok(())
            }
            Move::Broadcast { from, piece, bytes } => {
                self.keep(ticket, [fitting(piece, bytes)?]);
                if from != self.rank {
                    return self.receive(from, span(first, 0..bytes));
                }
                let others = (0..self.peers.len()).filter(|other| *other != from);
                others.into_iter().try_for_each(|other| self.send(other, span(first, 0..bytes)))
            }
        }
    }

    fn keep<const PIECES: usize>(&mut self, ticket: Ticket, pieces: [Piece; PIECES]) {
        if let Some(started) = self.moves.get_mut(ticket) {
            started.pieces.extend(pieces);
        }
    }

    fn count_frame(&mut self, ticket: Ticket) {
        if let Some(started) = self.moves.get_mut(ticket) {
            started.left += 1;
        }
    }

    fn send(&mut self, to: usize, span: Span) -> Result<()> {
        self.count_frame(span.ticket);
        self.peer(to)?.send(span);
        Ok(())
    }

    fn receive(&mut self, from: usize, span: Span) -> Result<()> {
        self.count_frame(span.ticket);
        let Self { peers, moves, .. } = self;
        let Some(Some(peer)) = peers.get_mut(from) else {
            return Err(Error::Engine(format!("there is no other rank {from}")));
        };
        let received = peer.receive(span, moves);
        received.map_err(|error| Error::Engine(format!("{}: {error}", peer.name)))
    }

    /// Moves bytes along. Ends this process if another rank wants that, or is lost.
    fn progress(&mut self, mut everything: bool) {
        everything |= self.read_all.elapsed() > READ_ALL_INTERVAL;
        if everything {
            self.read_all = Instant::now();
        }
        let Self { peers, moves, notes, lost, .. } = self;
        for (rank, peer) in peers.iter_mut().enumerate() {
            let Some(peer) = peer else { continue };
            let hear = |event| match event {
                Event::Note(note) => notes.push((rank, note)),
                Event::Abort => mpi::exit(), // the other has said why
            };
            // Reading comes first, so that the last words of a rank that has ended are heard.
            let moved = peer.read(everything, moves, hear).and_then(|()| peer.write(moves));
            if let Err(error) = moved
                && (!peer.is_gone || peer.is_awaited())
                && lost.is_none()
            {
                *lost = Some((Instant::now(), loss_of(&peer.name, &error)));
            }
        }
        if let Some((since, why)) = &self.lost
            && since.elapsed() >= TURN * self.rank.min(3) as u32
        {
            let why = why.clone();
            (self.tell)(Message::Error(&why));
            self.abort(&why);
        }
    }
}

/// The sentence about a rank whose connection has failed.
fn loss_of(name: &str, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => format!(
            "{name} has ended without a word: its process was killed, or has failed; all ranks end"
        ),
        ErrorKind::InvalidData => {
            format!("what comes from {name} cannot be right: {error}; all ranks end")
        }
        _ => format!("{name} cannot be reached any more: {error}; all ranks end"),
    }
}

impl Engine for TcpEngine {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.peers.len()
    }

    fn start(&mut self, moves: Vec<Move>) -> Result<Ticket> {
        let ticket = self.moves.add(Started { pieces: Vec::new(), left: 0 });
        moves.into_iter().try_for_each(|movement| self.begin_move(ticket, movement))?;
        self.progress(false);
        Ok(ticket)
    }

    fn poll(&mut self, ticket: Ticket) -> Result<Option<Vec<Piece>>> {
        self.progress(false);
        let started = self.moves.take(ticket)?;
        if started.left == 0 {
            return Ok(Some(started.pieces));
        }
        self.moves.put_back(ticket, started);
        Ok(None)
    }

    fn post(&mut self, to: usize, note: &Note) -> Result<()> {
        self.peer(to)?.post(note);
        self.progress(false);
        Ok(())
    }

    fn notes(&mut self) -> Result<Vec<(usize, Note)>> {
        self.progress(true);
        Ok(std::mem::take(&mut self.notes))
    }

    fn abort(&mut self, _: &str) {
        let begun = Instant::now();
        self.peers.iter_mut().flatten().for_each(Peer::send_abort);
        let Self { peers, moves, .. } = self;
        loop {
            let mut is_sending = false;
            for peer in peers.iter_mut().flatten() {
                // A connection that fails now is of a rank that has ended.
                is_sending |= peer.write(moves).is_ok() && peer.is_sending();
            }
            if !is_sending || begun.elapsed() > ABORT {
                mpi::exit()
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn close(&mut self) -> Result<()> {
        // A launcher may end all ranks when one ends, so none may end before the others have sent
        // everything.
        self.peers.iter_mut().flatten().for_each(Peer::say_goodbye);
        let begun = Instant::now();
        while self.peers.iter().flatten().any(|peer| !peer.is_gone || peer.is_sending()) {
            self.progress(true);
            if begun.elapsed() > PATIENCE {
                self.abort("no goodbye");
            }
            thread::sleep(Duration::from_micros(200));
        }
        if !self.moves.is_empty() {
            return Err(Error::Engine("the engine was closed with pieces under way".into()));
        }
        Ok(())
    }
}

/// Refuses a piece that has fewer bytes than are to travel.
fn fitting(piece: Piece, bytes: usize) -> Result<Piece> {
    let has = piece.bytes().len();
    if bytes <= has && bytes <= MOST_BYTES {
        return Ok(piece);
    }
    Err(Error::Engine(format!("{bytes} bytes are to travel, but the piece has {has}")))
}
