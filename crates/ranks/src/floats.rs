//! Numbers that are added or exchanged, wherever they live.

use crate::host_piece::HostPiece;
use std::ops::Range;

/// The numbers of all parameters, one after another: gradients, weights or moments, of the host or of a device.
pub trait Floats {
    /// Memory of the engine that moves them.
    type Piece;

    /// Copies numbers into a piece, to be sent.
    fn read(&self, numbers: Range<usize>, piece: &mut Self::Piece);

    /// Puts what has come into the place of numbers.
    fn write(&mut self, numbers: Range<usize>, piece: &Self::Piece);

    /// Adds what has come to numbers.
    fn add(&mut self, numbers: Range<usize>, piece: &Self::Piece);

    /// Adds the first `count` numbers of `right` to those of `left`.
    fn add_pieces(&self, left: &mut Self::Piece, right: &Self::Piece, count: usize);
}

/// Parameters in host memory.
#[derive(Debug)]
pub struct HostFloats<'a> {
    /// With where each begins.
    parameters: Vec<(usize, &'a mut [f32])>,
}

impl<'a> HostFloats<'a> {
    /// These parameters, one after another.
    pub fn new(parameters: impl IntoIterator<Item = &'a mut [f32]>) -> Self {
        let mut start = 0;
        let parameters = parameters.into_iter().map(|parameter| {
            let before = start;
            start += parameter.len();
            (before, parameter)
        });
        Self { parameters: parameters.collect() }
    }

    /// Which parameters a range lies in, from which on.
    fn first(&self, number: usize) -> usize {
        self.parameters.partition_point(|(start, parameter)| start + parameter.len() <= number)
    }
}

/// The part of a parameter beginning at `start` that lies in `numbers`, and where in these it lies.
fn overlap(start: usize, length: usize, numbers: &Range<usize>) -> (Range<usize>, Range<usize>) {
    let (from, to) = (start.max(numbers.start), (start + length).min(numbers.end));
    (from - start..to - start, from - numbers.start..to - numbers.start)
}

fn bytes(numbers: &Range<usize>) -> Range<usize> {
    4 * numbers.start..4 * numbers.end
}

fn float(bytes: &[u8]) -> f32 {
    f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

impl HostFloats<'_> {
    fn each_mut(&mut self, numbers: &Range<usize>, piece: &HostPiece, act: impl Fn(&mut f32, f32)) {
        let first = self.first(numbers.start);
        let reached = self.parameters[first..].iter_mut().take_while(|(start, _)| *start < numbers.end);
        for (start, parameter) in reached {
            let (own, theirs) = overlap(*start, parameter.len(), numbers);
            let came = piece.contents()[bytes(&theirs)].chunks_exact(4);
            parameter[own].iter_mut().zip(came).for_each(|(number, came)| act(number, float(came)));
        }
    }
}

impl Floats for HostFloats<'_> {
    type Piece = HostPiece;

    fn read(&self, numbers: Range<usize>, piece: &mut HostPiece) {
        let reached = self.parameters[self.first(numbers.start)..].iter();
        for (start, parameter) in reached.take_while(|(start, _)| *start < numbers.end) {
            let (own, theirs) = overlap(*start, parameter.len(), &numbers);
            piece.contents_mut()[bytes(&theirs)].copy_from_slice(bytemuck::cast_slice(&parameter[own]));
        }
    }

    fn write(&mut self, numbers: Range<usize>, piece: &HostPiece) {
        self.each_mut(&numbers, piece, |number, came| *number = came);
    }

    fn add(&mut self, numbers: Range<usize>, piece: &HostPiece) {
        self.each_mut(&numbers, piece, |number, came| *number += came);
    }

    fn add_pieces(&self, left: &mut HostPiece, right: &HostPiece, count: usize) {
        let right = right.contents()[..4 * count].chunks_exact(4);
        for (left, right) in left.contents_mut().chunks_exact_mut(4).zip(right) {
            let sum = float(left) + float(right);
            left.copy_from_slice(&sum.to_ne_bytes());
        }
    }
}
