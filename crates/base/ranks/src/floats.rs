//! Numbers that are added or exchanged, in the host's memory or a device's.

use crate::piece::Piece;
use bytemuck::{Pod, Zeroable};
use std::ops::Range;

/// The numbers of one parameter, which the host can read and write even if a device holds them.
pub trait Parameter {
    /// How a number travels: `f32`, or `u16` for the bits of a bf16, which can be exchanged and not
    /// added.
    type Number: Pod;

    /// How many numbers it has.
    fn count(&self) -> usize;

    /// Copies the numbers from `first` on.
    fn read(&self, first: usize, numbers: &mut [Self::Number]);

    /// Replaces the numbers from `first` on.
    fn write(&mut self, first: usize, numbers: &[Self::Number]);
}

/// Bytes of `numbers` of a parameter's numbers.
pub(crate) fn bytes_of<P: Parameter>(numbers: usize) -> usize {
    numbers * size_of::<P::Number>()
}

impl Parameter for &mut [f32] {
    type Number = f32;

    fn count(&self) -> usize {
        self.len()
    }

    fn read(&self, first: usize, numbers: &mut [f32]) {
        numbers.copy_from_slice(&self[first..][..numbers.len()]);
    }

    fn write(&mut self, first: usize, numbers: &[f32]) {
        self[first..][..numbers.len()].copy_from_slice(numbers);
    }
}

/// The numbers of all parameters, one after another: gradients, weights or moments, which travel
/// through host memory.
#[derive(Debug)]
pub struct HostFloats<P> {
    /// The parameters, each with the place of its first number among all numbers.
    parameters: Vec<(usize, P)>,
}

/// The part of a parameter in ranges of numbers.
struct Part {
    /// The parameter, and the first of its numbers in the ranges.
    parameter: usize,
    first: usize,
    /// Its place among the numbers of all ranges.
    within: Range<usize>,
}

impl<P: Parameter> HostFloats<P> {
    /// These parameters, one after another.
    pub fn new(parameters: impl IntoIterator<Item = P>) -> Self {
        let mut end = 0;
        let parameters = parameters.into_iter().map(|parameter| {
            let start = end;
            end += parameter.count();
            (start, parameter)
        });
        Self { parameters: parameters.collect() }
    }

    /// The parts in ranges of numbers, which stand one after another in a piece.
    fn parts(&self, numbers: &[Range<usize>]) -> Vec<Part> {
        let end = |(start, parameter): &(usize, P)| start + parameter.count();
        let mut parts = Vec::new();
        let mut at = 0;
        for numbers in numbers {
            let first =
                self.parameters.partition_point(|parameter| end(parameter) <= numbers.start);
            let reached = self.parameters.iter().enumerate().skip(first);
            for (place, parameter) in reached.take_while(|(_, (start, _))| *start < numbers.end) {
                let (from, to) = (parameter.0.max(numbers.start), end(parameter).min(numbers.end));
                let within = at + from - numbers.start..at + to - numbers.start;
                parts.push(Part { parameter: place, first: from - parameter.0, within });
            }
            at += numbers.len();
        }
        parts
    }

    fn read_part(&self, part: &Part) -> Vec<P::Number> {
        let mut numbers = vec![P::Number::zeroed(); part.within.len()];
        self.parameters[part.parameter].1.read(part.first, &mut numbers);
        numbers
    }

    /// Copies numbers into a piece to send.
    pub(crate) fn read(&self, numbers: &[Range<usize>], piece: &mut Piece) {
        for part in self.parts(numbers) {
            let own = self.read_part(&part);
            piece.contents_mut()[bytes::<P>(&part.within)]
                .copy_from_slice(bytemuck::cast_slice(&own));
        }
    }

    /// Overwrites numbers with a received piece.
    pub(crate) fn write(&mut self, numbers: &[Range<usize>], piece: &Piece) {
        for part in self.parts(numbers) {
            // A piece's numbers need not be aligned there.
            let mut came = vec![P::Number::zeroed(); part.within.len()];
            bytemuck::cast_slice_mut(&mut came)
                .copy_from_slice(&piece.contents()[bytes::<P>(&part.within)]);
            self.parameters[part.parameter].1.write(part.first, &came);
        }
    }
}

impl<P: Parameter<Number = f32>> HostFloats<P> {
    /// Adds a received piece to numbers.
    pub(crate) fn add(&mut self, numbers: &[Range<usize>], piece: &Piece) {
        for part in self.parts(numbers) {
            let mut sum = self.read_part(&part);
            let came = piece.contents()[bytes::<P>(&part.within)].chunks_exact(4).map(float);
            sum.iter_mut().zip(came).for_each(|(sum, came)| *sum += came);
            self.parameters[part.parameter].1.write(part.first, &sum);
        }
    }
}

fn bytes<P: Parameter>(numbers: &Range<usize>) -> Range<usize> {
    bytes_of::<P>(numbers.start)..bytes_of::<P>(numbers.end)
}

fn float(bytes: &[u8]) -> f32 {
    f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Adds the first `count` numbers of `right` to the first `count` of `left`.
pub(crate) fn add_pieces(left: &mut Piece, right: &Piece, count: usize) {
    let right = right.contents()[..4 * count].chunks_exact(4).map(float);
    for (left, right) in left.contents_mut().chunks_exact_mut(4).zip(right) {
        let sum = float(left) + right;
        left.copy_from_slice(&sum.to_ne_bytes());
    }
}
