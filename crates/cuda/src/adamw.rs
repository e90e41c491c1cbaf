//! AdamW over several tensors in one launch, and the sums of squares of the gradient's norm in another.

use crate::buffer::CudaBuffer;
use crate::catalog::{ADAMW, SQUARE_SUMS};
use crate::cuda::{Cuda, word};
use crate::device::Device;
use crate::kernels::{Grid, Pointer};
use crate::layout::Element;
use isentrope_kernels::{AdamW, NORM_BLOCK, UpdateFactors, Updated};
use std::ops::Range;

/// A tensor as the kernels take it: addresses of weights, of their rests, of the gradient and of both moments, its numbers,
/// and how many blocks there are before it.
type Tensor = [u64; 7];
const NUMBERS: usize = 5;
const BLOCKS_BEFORE: usize = 6;

/// Some numbers of a buffer: where they start, and the rests of split ones.
fn part<D: Device>(of: &CudaBuffer<D>, numbers: &Range<usize>) -> (Pointer, Pointer) {
    assert!(numbers.start <= numbers.end && numbers.end <= of.layout.numbers(), "numbers beyond the end");
    let start = of.start().by(numbers.start * of.layout.element.bytes());
    match of.layout.element {
        Element::Split => (start, of.rest().by(2 * numbers.start)),
        _ => (start, Pointer::NULL),
    }
}

fn is_split<D: Device>(buffer: &CudaBuffer<D>) -> bool {
    assert_ne!(buffer.layout.element, Element::Bf16, "activations are no parameter");
    buffer.layout.element == Element::Split
}

/// Numbers how many blocks there are before each tensor, leaves out those that have none, and says how many there are in all.
fn number_blocks(tensors: &mut Vec<Tensor>) -> usize {
    tensors.retain(|tensor| tensor[NUMBERS] > 0);
    let mut blocks = 0;
    for tensor in tensors {
        tensor[BLOCKS_BEFORE] = blocks;
        blocks += tensor[NUMBERS].div_ceil(NORM_BLOCK as u64);
    }
    usize::try_from(blocks).expect("numbers fit the host's memory")
}

impl<D: Device> Cuda<D> {
    pub(crate) fn sums_of_squares(&self, parts: &[(&CudaBuffer<D>, Range<usize>)]) -> Vec<f32> {
        let mut sums = Vec::new();
        // Of one type at a time, in the order of the parts.
        for parts in parts.chunk_by(|a, b| is_split(a.0) == is_split(b.0)) {
            let tensor = |(of, numbers): &(&CudaBuffer<D>, Range<usize>)| {
                self.settle(of);
                let (weights, rest) = part(of, numbers);
                [weights.0, rest.0, 0, 0, 0, numbers.len() as u64, 0]
            };
            let mut tensors: Vec<Tensor> = parts.iter().map(tensor).collect();
            let blocks = number_blocks(&mut tensors);
            if blocks == 0 {
                continue;
            }
            let (table, out) = (self.uploaded(tensors.as_flattened()), self.scratch(4 * blocks));
            let split = u32::from(is_split(parts[0].0));
            SQUARE_SUMS.launch(
                &*self.device,
                Grid::line(blocks.div_ceil(8), 128),
                (table.at(0), word(tensors.len()), out.at(0), blocks as u64, split),
            );
            sums.extend(self.downloaded::<f32>(&out, blocks));
        }
        sums
    }

    pub(crate) fn update(&self, settings: AdamW, parameters: &mut [Updated<'_, CudaBuffer<D>>]) {
        for parameters in parameters.chunk_by(|a, b| is_split(a.weights) == is_split(b.weights)) {
            let tensor = |updated: &Updated<'_, CudaBuffer<D>>| {
                let Updated { weights, gradient, numbers, first, second } = updated;
                self.settle(gradient);
                let (weights, rest) = part(weights, numbers);
                let (gradient, _) = part(gradient, numbers);
                let moment = |moment: &CudaBuffer<D>| part(moment, &(0..numbers.len())).0.0;
                [weights.0, rest.0, gradient.0, moment(first), moment(second), numbers.len() as u64, 0]
            };
            let mut tensors: Vec<Tensor> = parameters.iter().map(tensor).collect();
            let blocks = number_blocks(&mut tensors);
            if blocks == 0 {
                continue;
            }
            let table = self.uploaded(tensors.as_flattened());
            let split = u32::from(is_split(parameters[0].weights));
            let UpdateFactors { gradient_scale, keep, beta1, take1, beta2, take2, root2, eps, rate } =
                settings.factors();
            ADAMW.launch(
                &*self.device,
                Grid::line(blocks, 256),
                (
                    table.at(0),
                    word(tensors.len()),
                    split,
                    gradient_scale,
                    keep,
                    beta1,
                    take1,
                    beta2,
                    take2,
                    root2,
                    eps,
                    rate,
                ),
            );
        }
    }
}
