//! Numbers that are added or exchanged, in the host's memory or a device's.

use crate::piece::Piece;
use std::ops::Range;

/// The numbers of one parameter, which the host can read and write even if a device holds them.
pub trait Parameter {
    /// How many numbers it has.
    fn count(&self) -> usize;

    /// Copies the numbers from `first` on.
    fn read(&self, first: usize, numbers: &mut [f32]);

    /// Replaces the numbers from `first` on.
    fn write(&mut self, first: usize, numbers: &[f32]);
}

impl Parameter for &mut [f32] {
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

/// The part of a parameter in a range of numbers.
struct Part {
    /// The parameter, and the first of its numbers in the range.
    parameter: usize,
    first: usize,
    /// Its place in the range.
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

    fn parts(&self, numbers: &Range<usize>) -> Vec<Part> {
        let end = |(start, parameter): &(usize, P)| start + parameter.count();
        let first = self.parameters.partition_point(|parameter| end(parameter) <= numbers.start);
        let reached = self.parameters.iter().enumerate().skip(first);
        reached
            .take_while(|(_, (start, _))| *start < numbers.end)
            .map(|(place, parameter)| {
                let (from, to) = (parameter.0.max(numbers.start), end(parameter).min(numbers.end));
                let within = from - numbers.start..to - numbers.start;
                Part { parameter: place, first: from - parameter.0, within }
            })
            .collect()
    }

    fn read_part(&self, part: &Part) -> Vec<f32> {
        let mut numbers = vec![0.0; part.within.len()];
        self.parameters[part.parameter].1.read(part.first, &mut numbers);
        numbers
    }

    /// Copies numbers into a piece to send.
    pub(crate) fn read(&self, numbers: Range<usize>, piece: &mut Piece) {
        for part in self.parts(&numbers) {
            let own = self.read_part(&part);
            piece.contents_mut()[bytes(&part.within)].copy_from_slice(bytemuck::cast_slice(&own));
        }
    }

    /// Overwrites numbers with a received piece.
    pub(crate) fn write(&mut self, numbers: Range<usize>, piece: &Piece) {
        for part in self.parts(&numbers) {
            let came: Vec<f32> = floats(piece, &part.within).collect();
            self.parameters[part.parameter].1.write(part.first, &came);
        }
    }

    /// Adds a received piece to numbers.
    pub(crate) fn add(&mut self, numbers: Range<usize>, piece: &Piece) {
        for part in self.parts(&numbers) {
            let mut sum = self.read_part(&part);
            sum.iter_mut().zip(floats(piece, &part.within)).for_each(|(sum, came)| *sum += came);
            self.parameters[part.parameter].1.write(part.first, &sum);
        }
    }
}

fn bytes(numbers: &Range<usize>) -> Range<usize> {
    4 * numbers.start..4 * numbers.end
}

/// The numbers in a part of a piece, which need not be aligned there.
fn floats<'a>(piece: &'a Piece, numbers: &Range<usize>) -> impl Iterator<Item = f32> + 'a {
    piece.contents()[bytes(numbers)].chunks_exact(4).map(float)
}

fn float(bytes: &[u8]) -> f32 {
    f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Adds the first `count` numbers of `right` to the first `count` of `left`.
pub(crate) fn add_pieces(left: &mut Piece, right: &Piece, count: usize) {
    let right = floats(right, &(0..count));
    for (left, right) in left.contents_mut().chunks_exact_mut(4).zip(right) {
        let sum = float(left) + right;
        left.copy_from_slice(&sum.to_ne_bytes());
    }
}
