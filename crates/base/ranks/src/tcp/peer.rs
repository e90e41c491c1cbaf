//! The connection to one other rank: frames that go there, and frames that come.
//!
//! A frame is a header of 8 bytes, its kind and its length, and its content. Sums and lengths of
//! content are checked by the layers above (`piece.rs`, `header.rs`); TCP keeps the order.

use crate::engine::{NOTE_BYTES, Note, PendingMoves, Ticket};
use crate::piece::Piece;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::Range;

const HEADER: usize = 8;
/// Most bytes of a frame.
pub(super) const MOST_BYTES: usize = 64 << 20;
/// Most notes under way to a rank. Further notes are dropped, because the rank does not read them.
const MOST_NOTES: usize = 8;

/// The kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    /// Bytes of a piece.
    Data = 1,
    Note = 2,
    /// The last frame of a rank that takes leave.
    Goodbye = 3,
    /// All ranks are to end; the sender has said why.
    Abort = 4,
}

/// Moves that were started together.
pub(super) struct Started {
    pub pieces: Vec<Piece>,
    /// Frames that have yet to go or to come.
    pub left: usize,
}

/// Bytes of a started piece.
pub(super) struct Span {
    pub ticket: Ticket,
    /// Index among the ticket's pieces.
    pub piece: usize,
    pub bytes: Range<usize>,
}

impl Span {
    fn started<'a>(&self, moves: &'a mut PendingMoves<Started>) -> io::Result<&'a mut Started> {
        moves.get_mut(self.ticket).ok_or_else(|| broken("nothing of this ticket is under way"))
    }
}

/// The content of a frame that goes.
enum Content {
    Piece(Span),
    Own(Vec<u8>),
}

struct Outgoing {
    kind: Kind,
    content: Content,
    /// Bytes that have gone, the header among them.
    done: usize,
}

/// The content of a frame that comes.
struct Incoming {
    kind: Kind,
    bytes: usize,
    /// Bytes that have come.
    done: usize,
    /// Memory for them; none if they go into the first span awaited.
    own: Option<Vec<u8>>,
}

/// A frame beside pieces.
pub(super) enum Event {
    Note(Note),
    Abort,
}

/// Another rank.
pub(super) struct Peer {
    /// `rank 1 (node7)`.
    pub name: String,
    /// Whether it has taken leave.
    pub is_gone: bool,
    stream: TcpStream,
    is_closed: bool,
    goes: VecDeque<Outgoing>,
    header: [u8; HEADER],
    header_done: usize,
    comes: Option<Incoming>,
    /// Where data goes, in the order in which it comes.
    awaited: VecDeque<Span>,
    /// Data that came before it was awaited.
    early: VecDeque<Vec<u8>>,
}

impl Peer {
    pub fn new(stream: TcpStream, name: String) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            name,
            is_gone: false,
            stream,
            is_closed: false,
            goes: VecDeque::new(),
            header: [0; HEADER],
            header_done: 0,
            comes: None,
            awaited: VecDeque::new(),
            early: VecDeque::new(),
        })
    }

    /// Sends bytes of a started piece.
    pub fn send(&mut self, span: Span) {
        self.push(Kind::Data, Content::Piece(span));
    }

    /// Receives the next data into a started piece.
    pub fn receive(&mut self, span: Span, moves: &mut PendingMoves<Started>) -> io::Result<()> {
        match self.early.pop_front() {
            Some(early) => deliver(&span, &early, moves),
            None if self.is_gone => Err(broken("it has taken leave before the others")),
            None => {
                self.awaited.push_back(span);
                Ok(())
            }
        }
    }

    /// Whether data is to come.
    pub fn is_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Whether frames have yet to go.
    pub fn is_sending(&self) -> bool {
        !self.goes.is_empty() && !self.is_closed
    }

    pub fn post(&mut self, note: &Note) {
        let under_way = self.goes.iter().filter(|frame| frame.kind == Kind::Note).count();
        if under_way < MOST_NOTES {
            self.push(Kind::Note, Content::Own(note.to_vec()));
        }
    }

    pub fn say_goodbye(&mut self) {
        self.push(Kind::Goodbye, Content::Own(Vec::new()));
    }

    pub fn send_abort(&mut self) {
        self.push(Kind::Abort, Content::Own(Vec::new()));
    }

    fn push(&mut self, kind: Kind, content: Content) {
        self.goes.push_back(Outgoing { kind, content, done: 0 });
    }

    /// Writes as much as goes now.
    pub fn write(&mut self, moves: &mut PendingMoves<Started>) -> io::Result<()> {
        while let Some(frame) = self.goes.front_mut().filter(|_| !self.is_closed) {
            let content = match &frame.content {
                Content::Own(bytes) => &bytes[..],
                Content::Piece(span) => {
                    &span.started(moves)?.pieces[span.piece].bytes()[span.bytes.clone()]
                }
            };
            let header = header(frame.kind, content.len());
            let header_left = &header[frame.done.min(HEADER)..];
            let content_left = &content[frame.done.saturating_sub(HEADER)..];
            let parts = [IoSlice::new(header_left), IoSlice::new(content_left)];
            let parts = if header_left.is_empty() { &parts[1..] } else { &parts };
            match self.stream.write_vectored(parts) {
                Ok(bytes) => frame.done += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if frame.done == HEADER + content.len()
                && let Some(Outgoing { content: Content::Piece(span), .. }) = self.goes.pop_front()
            {
                span.started(moves)?.left -= 1;
            }
        }
        Ok(())
    }

    /// Reads what has come: while data is awaited, or everything.
    pub fn read(
        &mut self,
        everything: bool,
        moves: &mut PendingMoves<Started>,
        mut event: impl FnMut(Event),
    ) -> io::Result<()> {
        while !self.is_closed && (everything || self.is_awaited()) {
            let into = match &mut self.comes {
                None => &mut self.header[self.header_done..],
                Some(Incoming { own: Some(bytes), done, .. }) => &mut bytes[*done..],
                Some(Incoming { done, .. }) => {
                    let span = self.awaited.front().ok_or_else(|| broken("nothing is awaited"))?;
                    let piece = &mut span.started(moves)?.pieces[span.piece];
                    &mut piece.bytes_mut()[span.bytes.clone()][*done..]
                }
            };
            match self.stream.read(into) {
                Ok(0) if !into.is_empty() => {
                    self.is_closed = true;
                    let is_whole = self.comes.is_none() && self.header_done == 0;
                    let is_end = self.is_gone && is_whole && !self.is_awaited();
                    return if is_end { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) };
                }
                Ok(bytes) => match &mut self.comes {
                    None => self.header_done += bytes,
                    Some(comes) => comes.done += bytes,
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It may have closed with our last note unread.
                Err(_) if self.is_gone && !self.is_awaited() => self.is_closed = true,
                Err(error) => return Err(error),
            }
            if self.comes.is_none() && self.header_done == HEADER {
                self.header_done = 0;
                self.comes = Some(self.announced()?);
            }
            if self.comes.as_ref().is_some_and(|comes| comes.done == comes.bytes)
                && let Some(comes) = self.comes.take()
            {
                self.arrived(comes, moves, &mut event)?;
            }
        }
        Ok(())
    }

    /// The frame that a header announces.
    fn announced(&self) -> io::Result<Incoming> {
        let [kind, bytes] = [0, 4].map(|at| {
            self.header[at..].first_chunk().map_or(0, |number| u32::from_le_bytes(*number))
        });
        let bytes = bytes as usize;
        let kinds = [Kind::Data, Kind::Note, Kind::Goodbye, Kind::Abort];
        let kind = kinds.into_iter().find(|known| *known as u32 == kind);
        let most = match kind {
            Some(Kind::Data) => 0..=MOST_BYTES,
            Some(Kind::Note) => NOTE_BYTES..=NOTE_BYTES,
            _ => 0..=0,
        };
        let Some(kind) = kind.filter(|_| most.contains(&bytes)) else {
            return Err(broken("it has sent a frame that there is not"));
        };
        let own = match self.awaited.front() {
            Some(span) if kind == Kind::Data => {
                fits(span, bytes)?;
                None
            }
            _ => Some(vec![0; bytes]),
        };
        Ok(Incoming { kind, bytes, done: 0, own })
    }

    /// Takes a frame that has come as a whole.
    fn arrived(
        &mut self,
        comes: Incoming,
        moves: &mut PendingMoves<Started>,
        event: &mut impl FnMut(Event),
    ) -> io::Result<()> {
        match (comes.kind, comes.own) {
            (Kind::Data, None) => {
                if let Some(span) = self.awaited.pop_front() {
                    span.started(moves)?.left -= 1;
                }
            }
            (Kind::Data, Some(bytes)) => match self.awaited.pop_front() {
                Some(span) => deliver(&span, &bytes, moves)?,
                None => self.early.push_back(bytes),
            },
            (Kind::Note, bytes) => {
                let note = bytes.as_deref().and_then(<[u8]>::first_chunk);
                note.into_iter().for_each(|note| event(Event::Note(*note)));
            }
            (Kind::Goodbye, _) => self.is_gone = true,
            (Kind::Abort, _) => event(Event::Abort),
        }
        Ok(())
    }
}

fn header(kind: Kind, bytes: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&(kind as u32).to_le_bytes());
    header[4..].copy_from_slice(&(bytes as u32).to_le_bytes()); // MOST_BYTES is less than 4 GiB
    header
}

/// Data that came before it was awaited.
fn deliver(span: &Span, data: &[u8], moves: &mut PendingMoves<Started>) -> io::Result<()> {
    fits(span, data.len())?;
    let started = span.started(moves)?;
    started.pieces[span.piece].bytes_mut()[span.bytes.clone()].copy_from_slice(data);
    started.left -= 1;
    Ok(())
}

fn fits(span: &Span, bytes: usize) -> io::Result<()> {
    let due = span.bytes.len();
    if bytes == due {
        return Ok(());
    }
    Err(broken(&format!("{bytes} bytes came where {due} were due")))
}

fn broken(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}
