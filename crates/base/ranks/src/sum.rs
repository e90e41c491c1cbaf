//! The exact sum over ranks ([`reduce_scatter`]), and its slices given to all ([`all_gather`]).
//!
//! Ranks that are neighbours exchange halves first, with rank^1, then rank^2, rank^4, ... : each
//! sends the half that it gives up, and adds what it gets to the half that it keeps. These
//! additions are the levels of the tree in `tree.rs`. Every rank sends no more bytes than around a
//! ring. Where the number of ranks is `m` times a power of two, `m` odd, what is left is cut into
//! `m` parts: each rank gets one of them from all and adds it up by the tree.

use crate::engine::{Move, Ticket};
use crate::error::{Error, Result};
use crate::floats::{HostFloats, Parameter, add_pieces, bytes_of};
use crate::line::Line;
use crate::piece::Piece;
use crate::slices::{BLOCK, Slices, part};
use crate::tree::PartialSums;
use std::collections::VecDeque;
use std::ops::Range;

/// Numbers of a piece: 1 MiB of f32.
const PIECE: usize = 1 << 18;
/// Pieces each way that travel at a time: the next is on its way while one is added.
const PIECES_IN_FLIGHT: usize = 4;

/// Adds the numbers of all ranks, in the tree. `add` sends its first parts, receives its second
/// ones, and replaces this rank's numbers there by sums over the ranks, in their order
/// ([`PartialSums`]). All parts that come are of one range. Afterwards a rank has the sum in its
/// own slice ([`Slices::of_rank`]); the rest of its numbers has no meaning.
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
    if slices.groups() > 1 {
        let (theirs, ours) = over_groups(rank, slices);
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
    if slices.groups() > 1 {
        let (theirs, ours) = over_groups(rank, slices);
        write(&ours, &theirs)?;
    }
    for halving in (0..slices.halvings()).rev() {
        let [ours, theirs] = halves(rank, slices, halving);
        write(&[ours], &[theirs])?;
    }
    Ok(())
}

/// The half of a range that a rank keeps, and the half that the rank keeps with which it exchanges.
fn halves(rank: usize, slices: &Slices, halving: u32) -> [Part; 2] {
    let (all, bit) = (slices.halved(rank, halving), rank >> halving & 1);
    [bit, 1 - bit].map(|half| Part {
        peer: rank ^ (1 << halving),
        numbers: slices.numbers_of(part(&all, 2, half)),
    })
}

/// The parts to exchange with the ranks that have our place in the other groups: their slices, then
/// ours.
fn over_groups(rank: usize, slices: &Slices) -> (Vec<Part>, Vec<Part>) {
    let parts = |of: fn(usize, usize) -> usize| {
        let part = |peer| Part { peer, numbers: slices.of_rank(of(peer, rank)) };
        same_place(rank, slices).map(part).collect()
    };
    (parts(|peer, _| peer), parts(|_, rank| rank))
}

/// Exchanges with one rank: the numbers in `give` go there, and its numbers come into `get`.
pub fn swap<P: Parameter>(
    line: &Line,
    floats: &mut HostFloats<P>,
    peer: usize,
    give: Range<usize>,
    get: Range<usize>,
) -> Result<()> {
    let part = |numbers| Part { peer, numbers };
    let mut lane = Lane::new(line, 1);
    lane.write(floats, &[part(give)], &[part(get)])?;
    lane.end()
}

/// Numbers for a rank, or from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The other rank.
    pub peer: usize,
    /// A range of the numbers of all parameters.
    pub numbers: Range<usize>,
}

impl Part {
    /// The part's `index`th piece; none if the part has fewer.
    fn cut(&self, piece: usize, index: usize) -> Option<Self> {
        let start = self.numbers.start + index * piece;
        let end = self.numbers.end.min(start + piece);
        (start < end).then_some(Self { peer: self.peer, numbers: start..end })
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
    /// Makes a lane for exchanges between `groups` groups at a time.
    pub fn new(line: &'a Line, groups: usize) -> Self {
        let piece = (PIECE / groups).max(BLOCK);
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
        for Part { peer, numbers } in &comes {
            moves.push(Move::Receive {
                from: *peer,
                piece: self.take(),
                bytes: Piece::sealed(bytes_of::<P>(numbers.len())),
            });
        }
        for Part { peer, numbers } in goes {
            let contents = bytes_of::<P>(numbers.len());
            let mut piece = self.take();
            floats.read(numbers, &mut piece);
            piece.seal(self.line.next_to(peer), contents);
            moves.push(Move::Send { to: peer, piece, bytes: Piece::sealed(contents) });
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
            if !piece.is_sound(number, bytes_of::<P>(part.numbers.len())) {
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
            _ => self.add_over_groups(floats, goes, comes),
        }
    }

    /// Exchanges ranges of numbers with peers, and calls `put` with each piece received.
    fn exchange<P: Parameter>(
        &mut self,
        floats: &mut HostFloats<P>,
        goes: &[Part],
        comes: &[Part],
        put: impl Fn(&mut HostFloats<P>, Range<usize>, &Piece),
    ) -> Result<()> {
        self.each(floats, goes, comes, |lane, floats, came| {
            for (part, piece) in came {
                put(floats, part.numbers, &piece);
                lane.idle.push(piece);
            }
        })
    }

    /// The last levels of the tree: every rank adds its part over all groups.
    fn add_over_groups<P: Parameter<Number = f32>>(
        &mut self,
        floats: &mut HostFloats<P>,
        goes: &[Part],
        comes: &[Part],
    ) -> Result<()> {
        let rank = self.line.rank();
        self.each(floats, goes, comes, |lane, floats, came| {
            let Some(numbers) = came.first().map(|(part, _)| part.numbers.clone()) else { return };
            let mut own = lane.take();
            floats.read(numbers.clone(), &mut own);
            let (before, after): (Vec<_>, Vec<_>) =
                came.into_iter().partition(|(part, _)| part.peer < rank);
            let pieces = |parts: Vec<(Part, Piece)>| parts.into_iter().map(|(_, piece)| piece);
            let mut add = |left: &mut Piece, right: Piece| {
                add_pieces(left, &right, numbers.len());
                lane.idle.push(right);
            };
            let mut sums = PartialSums::default();
            for piece in pieces(before).chain([own]).chain(pieces(after)) {
                sums.push(piece, &mut add);
            }
            if let Some(sum) = sums.finish(&mut add) {
                floats.write(numbers.clone(), &sum);
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
        let longest = goes.iter().chain(comes).map(|part| part.numbers.len()).max().unwrap_or(0);
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

/// The other ranks that have the same range after all halvings, in order.
fn same_place(rank: usize, slices: &Slices) -> impl Iterator<Item = usize> {
    let place = rank & ((1 << slices.halvings()) - 1);
    let halvings = slices.halvings();
    (0..slices.groups())
        .map(move |group| group << halvings | place)
        .filter(move |&peer| peer != rank)
}
