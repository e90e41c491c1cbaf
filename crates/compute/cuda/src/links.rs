//! Exchanges with the devices of other ranks: a communicator moves bytes, a kernel adds them in the
//! order of the tree.
//!
//! A rank sends out of the buffers themselves. Numbers to be added come into scratch memory, piece
//! by piece; copies come into the buffers. A piece is added before the next one is asked for.

use crate::buffer::CudaBuffer;
use crate::catalog::ADD;
use crate::cuda::{Cuda, lines};
use crate::dtype::Dtype;
use crate::gpu::{Communicator, Transfer};
use crate::kernels::Pointer;
use crate::layout::Element;
use crate::pool::Block;
use isentrope_kernels::{Buffer, DeviceLinks, PeerElements};
use std::ops::Range;
use std::sync::{Arc, PoisonError};

/// Elements that come at a time, from all ranks together: 64 MiB, which take an NVLink longer than
/// the host takes to ask for them.
pub(crate) const PIECE: usize = 16 << 20;

impl Cuda {
    /// Moves what ranks exchange by this communicator from now on; none: through the host.
    pub fn link(&self, communicator: Option<Arc<Communicator>>) {
        *self.communicator.write().unwrap_or_else(PoisonError::into_inner) = communicator;
    }

    pub(crate) fn communicator(&self) -> Option<Arc<Communicator>> {
        self.communicator.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn linked(&self) -> Result<Arc<Communicator>, String> {
        self.communicator().ok_or_else(|| "the devices of the ranks are not connected".into())
    }

    /// `to += from`, over this many exact elements.
    fn add_exact(&self, from: Pointer, to: Pointer, count: usize) {
        ADD.of(Dtype::F32).launch(&*self.device, lines(count), (from, to, count as u64));
    }
}

impl DeviceLinks for Cuda {
    fn add(
        &self,
        gradients: &mut [Buffer],
        goes: &[PeerElements],
        comes: &[PeerElements],
    ) -> Result<(), String> {
        let communicator = self.linked()?;
        let buffers = settled(self, gradients);
        assert!(
            buffers.iter().all(|buffer| buffer.layout.element == Element::F32),
            "only exact gradients are added over ranks"
        );
        let Some(own) = comes.first().map(|first| first.elements.as_slice()) else {
            return Err("a sum over ranks with nothing to add".into());
        };
        // All ranks cut alike, since all have the same gradients.
        let elements = buffers.iter().map(|buffer| buffer.elements()).sum();
        let of_piece = (self.linked_piece.min(elements) / comes.len()).max(1);
        let longest = goes.iter().chain(comes).map(|part| count(&part.elements)).max().unwrap_or(0);
        let room: Vec<Block> =
            comes.iter().map(|_| self.scratch(4 * of_piece.min(count(own)).max(1))).collect();
        for first in (0..longest).step_by(of_piece) {
            let piece = first..first + of_piece;
            let sends: Vec<Transfer<'_>> = goes
                .iter()
                .flat_map(|part| {
                    let elements = cut(&part.elements, &piece);
                    elements.into_iter().map(|(buffer, elements)| {
                        let (memory, at) = (buffers[buffer].memory(), 4 * elements.start);
                        Transfer { rank: part.rank, memory, at, bytes: 4 * elements.len() }
                    })
                })
                .collect();
            let own = cut(own, &piece);
            let mut receives = Vec::new();
            for (part, room) in comes.iter().zip(&room) {
                let mut at = 0;
                for (_, elements) in &own {
                    let bytes = 4 * elements.len();
                    receives.push(Transfer { rank: part.rank, memory: room.memory(), at, bytes });
                    at += bytes;
                }
            }
            communicator.exchange(&**self.device(), &sends, &receives)?;
            let lower = comes.iter().filter(|part| part.rank < communicator.rank()).count();
            let mut at = 0;
            for (buffer, elements) in own {
                let own = buffers[buffer].start().by(4 * elements.start);
                let mut terms: Vec<Pointer> = room.iter().map(|room| room.at(at)).collect();
                terms.insert(lower, own);
                self.add_in_pairs(terms, own, elements.len());
                at += 4 * elements.len();
            }
        }
        Ok(())
    }

    fn write(
        &self,
        buffers: &mut [Buffer],
        rounded: bool,
        goes: &[PeerElements],
        comes: &[PeerElements],
    ) -> Result<(), String> {
        let communicator = self.linked()?;
        let buffers = settled(self, buffers);
        let transfers = |parts: &[PeerElements]| -> Vec<Transfer<'_>> {
            let of = |rank, (buffer, elements): &(usize, Range<usize>)| {
                let buffer = buffers[*buffer];
                bytes_of(buffer, elements, rounded).map(move |bytes| Transfer {
                    rank,
                    memory: buffer.memory(),
                    at: bytes.start,
                    bytes: bytes.len(),
                })
            };
            parts
                .iter()
                .flat_map(|part| {
                    part.elements.iter().flat_map(move |elements| of(part.rank, elements))
                })
                .collect()
        };
        communicator.exchange(&**self.device(), &transfers(goes), &transfers(comes))
    }
}

impl Cuda {
    /// Adds terms in pairs of neighbours, then these sums in the same way; one without a neighbour
    /// goes up as it is. The sum comes to `to`, one of the terms. The others are overwritten.
    fn add_in_pairs(&self, mut terms: Vec<Pointer>, to: Pointer, count: usize) {
        while terms.len() > 1 {
            let pairs = terms.chunks(2).map(|pair| match *pair {
                // a + b = b + a: the sum of a pair stays where it is needed.
                [left, right] if right == to => {
                    self.add_exact(left, right, count);
                    right
                }
                [left, right] => {
                    self.add_exact(right, left, count);
                    left
                }
                _ => pair[0],
            });
            terms = pairs.collect();
        }
    }
}

/// The buffers, whose sums hold all tokens.
fn settled<'b>(cuda: &Cuda, buffers: &'b mut [Buffer]) -> Vec<&'b CudaBuffer> {
    let settle = |buffer: &'b mut Buffer| {
        let buffer: &CudaBuffer = buffer.of_mut();
        cuda.settle(buffer);
        buffer
    };
    buffers.iter_mut().map(settle).collect()
}

/// The bytes of elements in their buffer's memory.
fn bytes_of(
    buffer: &CudaBuffer,
    elements: &Range<usize>,
    rounded: bool,
) -> impl Iterator<Item = Range<usize>> + use<> {
    let layout = buffer.layout;
    let bytes = layout.element.bytes();
    let first = bytes * elements.start..bytes * elements.end;
    let rest = (layout.element == Element::Split && !rounded).then(|| {
        let at = layout.rest_at(elements);
        at..at + 2 * elements.len()
    });
    [first].into_iter().chain(rest)
}

fn count(elements: &[(usize, Range<usize>)]) -> usize {
    elements.iter().map(|(_, elements)| elements.len()).sum()
}

/// The elements at these places among all of them.
fn cut(all: &[(usize, Range<usize>)], places: &Range<usize>) -> Vec<(usize, Range<usize>)> {
    let mut end = 0;
    let within = all.iter().filter_map(|(buffer, elements)| {
        let start = end;
        end += elements.len();
        let (from, to) = (places.start.max(start), places.end.min(end));
        let first = elements.start;
        (from < to).then(|| (*buffer, first + from - start..first + to - start))
    });
    within.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_all_elements_in_order() {
        let all = [(0, 4..9), (2, 0..1), (3, 10..20)];
        assert_eq!(count(&all), 16);
        assert_eq!(cut(&all, &(0..4)), [(0, 4..8)]);
        assert_eq!(cut(&all, &(4..8)), [(0, 8..9), (2, 0..1), (3, 10..12)]);
        assert_eq!(cut(&all, &(8..40)), [(3, 12..20)]);
        assert!(cut(&all, &(16..20)).is_empty());
    }
}
