//! The exact sum over ranks ([`reduce_scatter`]), and its slices given to all ([`all_gather`]).
//!
//! Ranks that are neighbours exchange halves first, with rank^1, then rank^2, rank^4, ... : each
//! sends the half that it gives up, and adds what it gets to the half that it keeps. These
//! additions are the levels of the tree in `tree.rs`. Every rank sends no more bytes than around a
//! ring. Where the number of ranks is `m` times a power of two, `m` odd, what is left is cut into
//! `m` parts: each rank gets one of them from all and adds it up by the tree. Of several groups of
//! parameters, the parts of all are exchanged as one.

use crate::engine::{Move, Ticket};
use crate::error::{Error, Result};
use crate::floats::{HostFloats, Parameter, add_pieces, bytes_of};
use crate::line::Line;
use crate::piece::Piece;
use crate::slices::{BLOCK, Slices};
use crate::tree::PartialSums;
use std::collections::VecDeque;
use std::ops::Range;

/// Numbers of a piece: 1 MiB of f32.
const PIECE: usize = 1 << 18;
/// Pieces each way that travel at a time: the next is on its way while one is added.
const PIECES_IN_FLIGHT: usize = 4;

/// Adds the numbers of all ranks, in the tree. `add` sends its first parts, receives its second
/// ones, and replaces this rank's numbers there by sums over the ranks, in their order
/// ([`PartialSums`]). All parts that come are of the same ranges. Afterwards a rank has the sum in
/// its own slice ([`Slices::of_rank`]); the rest of its numbers has no meaning.
///
/// # Errors
/// As `add`.
pub fn reduce_scatter<E>(
    rank: usize,
    slices: &Slices,
    mut add: impl FnMut(&[Part], &[Part]) -> Result<(), E>,
) -> Result<(), E> {
    for halving in 0..slices.halvings() {
        let [ours, theirs] = halves(rank, slices, halving);
        add(&[theirs], &[ours])?;
    }
    if slices.parts() > 1 {
        let (theirs, ours) = over_parts(rank, slices);
        add(&theirs, &ours)?;
    }
    Ok(())
}

/// Gives every rank's slice to all. `write` sends its first parts, and receives its second ones.
///
/// # Errors
/// As `write`.
pub fn all_gather<E>(
    rank: usize,
    slices: &Slices,
    mut write: impl FnMut(&[Part], &[Part]) -> Result<(), E>,
) -> Result<(), E> {
    if slices.parts() > 1 {
        let (theirs, ours) = over_parts(rank, slices);
        write(&ours, &theirs)?;
    }
    for halving in (0..slices.halvings()).rev() {
        let [ours, theirs] = halves(rank, slices, halving);
        write(&[ours], &[theirs])?;
    }
    Ok(())
}

/// The half that a rank keeps, and the half that the rank keeps with which it exchanges.
fn halves(rank: usize, slices: &Slices, halving: u32) -> [Part; 2] {
    let peer = rank ^ (1 << halving);
    [rank, peer].map(|rank| Part { peer, numbers: slices.halved(rank, halving + 1) })
}

/// The parts to exchange with the ranks that have kept the same halves: their slices, then ours.
fn over_parts(rank: usize, slices: &Slices) -> (Vec<Part>, Vec<Part>) {
    let parts = |of: fn(usize, usize) -> usize| {
        let part = |peer| Part { peer, numbers: slices.of_rank(of(peer, rank)) };
        same_halves(rank, slices).map(part).collect()
    };
    (parts(|peer, _| peer), parts(|_, rank| rank))
}

/// The parts to exchange so that each rank gets the numbers that it wants out of the slices of all
/// others: those that go, then those that come. See [`World::deliver`](crate::World::deliver).
pub fn delivery(rank: usize, slices: &Slices, wanted: &[Option<Wanted>]) -> [Vec<Part>; 2] {
    let part = |peer: usize, owner: usize, wanted: &Option<Wanted>| {
        let Wanted { set, numbers } = wanted.as_ref()?;
        let first = set * slices.numbers();
        let within = slices.of_rank(owner).into_iter().filter_map(|own| {
            let (start, end) = (own.start.max(numbers.start), own.end.min(numbers.end));
            (start < end).then(|| first + start..first + end)
        });
        Some(Part { peer, numbers: within.collect() })
    };
    let others = || (0..wanted.len()).filter(|&peer| peer != rank);
    [
        others().filter_map(|peer| part(peer, rank, &wanted[peer])).collect(),
        others().filter_map(|peer| part(peer, peer, &wanted[rank])).collect(),
    ]
}

/// Exchanges with one rank: the numbers in `give` go there, and its numbers come into `get`.
pub fn swap<P: Parameter>(
    line: &Line,
    floats: &mut HostFloats<P>,
    peer: usize,
    give: Range<usize>,
    get: Range<usize>,
) -> Result<()> {
    let part = |numbers| Part { peer, numbers: vec![numbers] };
    let mut lane = Lane::new(line, 1);
    lane.write(floats, &[part(give)], &[part(get)])?;
    lane.end()
}

/// Numbers for a rank, or from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The other rank.
    pub peer: usize,
    /// Ranges of the numbers of all parameters, ascending.
    pub numbers: Vec<Range<usize>>,
}

/// The numbers that a rank wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The number of the set, of several that stand one after another and are cut alike.
    pub set: usize,
    /// A range of the set's numbers.
    pub numbers: Range<usize>,
}

impl Part {
    /// How many numbers it has.
    pub(crate) fn count(&self) -> usize {
        self.numbers.iter().map(Range::len).sum()
    }

    /// The part's `index`th piece; none if the part has fewer.
    fn cut(&self, piece: usize, index: usize) -> Option<Self> {
        let (first, mut end) = (index * piece, 0);
        let within = self.numbers.iter().filter_map(|numbers| {
            let start = end;
            end += numbers.len();
            let (from, to) = (start.max(first), end.min(first + piece));
            (from < to).then(|| numbers.start + (from - start)..numbers.start + (to - start))
        });
        let numbers: Vec<_> = within.collect();
        (!numbers.is_empty()).then_some(Self { peer: self.peer, numbers })
    }
}

/// Pieces under way.
struct Batch {
    ticket: Ticket,
    /// The parts to receive in the order of their start, with the numbers of their seals.
    comes: Vec<(Part, u32)>,
}

/// Cuts ranges into pieces, which travel through the host, and keeps the pieces for later use.
pub(crate) struct Lane<'a> {
    line: &'a Line,
    /// Numbers of a piece.
    piece: usize,
    idle: Vec<Piece>,
    damage: Option<Error>,
}

impl<'a> Lane<'a> {
    /// Makes a lane for exchanges of `parts` parts at a time.
    pub fn new(line: &'a Line, parts: usize) -> Self {
        let piece = (PIECE / parts).max(BLOCK);
        Self { line, piece, idle: Vec::new(), damage: None }
    }

    /// Ends the exchanges.
    ///
    /// # Errors
    /// [`Error::Damage`] when other bytes came than were sent; the exchanges still went on to their
    /// end, since the other ranks wait for them.
    pub fn end(self) -> Result<()> {
        self.damage.map_or(Ok(()), Err)
    }

    fn take(&mut self) -> Piece {
        self.idle.pop().unwrap_or_else(|| Piece::zeros(Piece::sealed(4 * self.piece)))
    }

    /// Starts pieces both ways.
    fn start<P: Parameter>(
        &mut self,
        floats: &HostFloats<P>,
        goes: Vec<Part>,
        comes: Vec<Part>,
    ) -> Result<Batch> {
        let mut moves = Vec::with_capacity(goes.len() + comes.len());
        for part in &comes {
            moves.push(Move::Receive {
                from: part.peer,
                piece: self.take(),
                bytes: Piece::sealed(bytes_of::<P>(part.count())),
            });
        }
        for part in goes {
            let contents = bytes_of::<P>(part.count());
            let mut piece = self.take();
            floats.read(&part.numbers, &mut piece);
            piece.seal(self.line.next_to(part.peer), contents);
            moves.push(Move::Send { to: part.peer, piece, bytes: Piece::sealed(contents) });
        }
        let comes = comes.into_iter().map(|part| {
            let number = self.line.next_from(part.peer);
            (part, number)
        });
        Ok(Batch { comes: comes.collect(), ticket: self.line.start(moves)? })
    }

    /// Waits for the started moves, and returns the received pieces.
    fn finish<P: Parameter>(&mut self, batch: Batch) -> Result<Vec<(Part, Piece)>> {
        let mut pieces = self.line.wait(batch.ticket)?.into_iter();
        let mut came = Vec::with_capacity(batch.comes.len());
        for ((part, number), piece) in batch.comes.into_iter().zip(&mut pieces) {
            if !piece.is_sound(number, bytes_of::<P>(part.count())) {
                self.damage.get_or_insert_with(|| {
                    Error::Damage(format!(
                        "what came from rank {} is not what it sent: a network or memory damages \
                         bytes; go on from the \
                         last checkpoint on other machines",
                        part.peer
                    ))
                });
            }
            came.push((part, piece));
        }
        self.idle.extend(pieces);
        Ok(came)
    }

    /// Sends parts, and overwrites others with what comes. It fails when the engine has failed.
    pub fn write<P: Parameter>(
        &mut self,
        floats: &mut HostFloats<P>,
        goes: &[Part],
        comes: &[Part],
    ) -> Result<()> {
        self.exchange(floats, goes, comes, HostFloats::write)
    }

    /// Sends parts, and adds what comes: see [`reduce_scatter`]. It fails as
    /// [`write`](Self::write).
    pub fn add<P: Parameter<Number = f32>>(
        &mut self,
        floats: &mut HostFloats<P>,
        goes: &[Part],
        comes: &[Part],
    ) -> Result<()> {
        match comes {
            // a + b = b + a: whose number is the first does not matter.
            [_] => self.exchange(floats, goes, comes, HostFloats::add),
            _ => self.add_over_parts(floats, goes, comes),
        }
    }

    /// Exchanges ranges of numbers with peers, and calls `put` with each piece received.
    fn exchange<P: Parameter>(
        &mut self,
        floats: &mut HostFloats<P>,
        goes: &[Part],
        comes: &[Part],
        put: impl Fn(&mut HostFloats<P>, &[Range<usize>], &Piece),
    ) -> Result<()> {
        self.each(floats, goes, comes, |lane, floats, came| {
            for (part, piece) in came {
                put(floats, &part.numbers, &piece);
                lane.idle.push(piece);
            }
        })
    }

    /// The last levels of the tree: every rank adds up its part, which comes from all others.
    fn add_over_parts<P: Parameter<Number = f32>>(
        &mut self,
        floats: &mut HostFloats<P>,
        goes: &[Part],
        comes: &[Part],
    ) -> Result<()> {
        let rank = self.line.rank();
        self.each(floats, goes, comes, |lane, floats, came| {
            let Some((part, _)) = came.first() else { return };
            let (numbers, count) = (part.numbers.clone(), part.count());
            let mut own = lane.take();
            floats.read(&numbers, &mut own);
            let (before, after): (Vec<_>, Vec<_>) =
                came.into_iter().partition(|(part, _)| part.peer < rank);
            let pieces = |parts: Vec<(Part, Piece)>| parts.into_iter().map(|(_, piece)| piece);
            let mut add = |left: &mut Piece, right: Piece| {
                add_pieces(left, &right, count);
                lane.idle.push(right);
            };
            let mut sums = PartialSums::default();
            for piece in pieces(before).chain([own]).chain(pieces(after)) {
                sums.push(piece, &mut add);
            }
            if let Some(sum) = sums.finish(&mut add) {
                floats.write(&numbers, &sum);
                lane.idle.push(sum);
            }
        })
    }

    /// Exchanges ranges piece by piece, a few at a time. `arrived` gets the pieces that came.
    fn each<P: Parameter>(
        &mut self,
        floats: &mut HostFloats<P>,
        goes: &[Part],
        comes: &[Part],
        mut arrived: impl FnMut(&mut Self, &mut HostFloats<P>, Vec<(Part, Piece)>),
    ) -> Result<()> {
        let longest = goes.iter().chain(comes).map(Part::count).max().unwrap_or(0);
        let mut in_flight = VecDeque::new();
        for index in 0..longest.div_ceil(self.piece) {
            if in_flight.len() == PIECES_IN_FLIGHT
                && let Some(oldest) = in_flight.pop_front()
            {
                let came = self.finish::<P>(oldest)?;
                arrived(self, floats, came);
            }
            let cut = |parts: &[Part]| {
                parts.iter().filter_map(|part| part.cut(self.piece, index)).collect()
            };
            let (goes, comes) = (cut(goes), cut(comes));
            in_flight.push_back(self.start(floats, goes, comes)?);
        }
        for oldest in in_flight {
            let came = self.finish::<P>(oldest)?;
            arrived(self, floats, came);
        }
        Ok(())
    }
}

/// The other ranks that have kept the same halves, in order.
fn same_halves(rank: usize, slices: &Slices) -> impl Iterator<Item = usize> {
    let place = rank & ((1 << slices.halvings()) - 1);
    let halvings = slices.halvings();
    (0..slices.parts()).map(move |part| part << halvings | place).filter(move |&peer| peer != rank)
}
