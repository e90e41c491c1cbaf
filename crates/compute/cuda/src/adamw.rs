//! AdamW over several tensors in one launch, and the sums of squares of the gradient's norm in
//! another. Moments may live in the host's memory.

use crate::buffer::CudaBuffer;
use crate::catalog::{ADAMW, SQUARE_SUMS};
use crate::cuda::Cuda;
use crate::kernels::{Grid, Pointer};
use crate::layout::Element;
use isentrope_kernels::{AdamW, NORM_BLOCK, UpdateFactors, UpdateSlice};
use std::ops::Range;

/// A tensor as the kernels take it: addresses of weights, of their rests, of the gradient and of
/// both moments, its number of elements, and the number of blocks before it.
type Tensor = [u64; 7];
const NUMBERS: usize = 5;
const BLOCKS_BEFORE: usize = 6;

/// The address of these elements of a buffer, and the address of the rests if they are split.
fn part(of: &CudaBuffer, elements: &Range<usize>) -> (Pointer, Pointer) {
    assert!(
        elements.start <= elements.end && elements.end <= of.layout.elements(),
        "elements beyond the end"
    );
    let start = of.start().by(elements.start * of.layout.element.bytes());
    match of.layout.element {
        Element::Split => (start, of.rest_of(elements)),
        _ => (start, Pointer::NULL),
    }
}

/// Bytes an update takes on the device when moments live in the host's memory and travel `piece`
/// elements at a time.
pub(crate) fn workspace(piece: usize) -> usize {
    piece.saturating_mul(2 * 4)
}

fn is_split(buffer: &CudaBuffer) -> bool {
    match buffer.layout.element {
        Element::F32 => false,
        Element::Split => true,
        Element::Bf16 => panic!("activations are no parameter"),
        Element::Frozen => panic!("frozen weights are neither trained nor measured"),
    }
}

/// Removes tensors without elements, notes the number of blocks before each of the others, and
/// returns the number of all blocks.
fn number_blocks(tensors: &mut Vec<Tensor>) -> usize {
    tensors.retain(|tensor| tensor[NUMBERS] > 0);
    let mut blocks = 0;
    for tensor in tensors {
        tensor[BLOCKS_BEFORE] = blocks;
        blocks += tensor[NUMBERS].div_ceil(NORM_BLOCK as u64);
    }
    usize::try_from(blocks).expect("elements fit the host's memory")
}

/// Some elements of one parameter in an update, from an [`UpdateSlice`].
pub(crate) struct Parameter<'a> {
    weights: &'a CudaBuffer,
    elements: Range<usize>,
    gradient: (&'a CudaBuffer, usize),
    first: &'a CudaBuffer,
    second: &'a CudaBuffer,
}

impl<'a> Parameter<'a> {
    pub(crate) fn of(
        UpdateSlice { weights, elements, gradient, first, second }: &'a UpdateSlice<'_>,
    ) -> Self {
        let elements = elements.clone();
        Self {
            weights: weights.of(),
            elements,
            gradient: (gradient.0.of(), gradient.1),
            first: first.of(),
            second: second.of(),
        }
    }
}

impl Cuda {
    pub(crate) fn sums_of_squares(&self, parts: &[(&CudaBuffer, Range<usize>)]) -> Vec<f32> {
        let mut sums = Vec::new();
        // One type of elements at a time, in the order of the parts.
        for parts in parts.chunk_by(|a, b| is_split(a.0) == is_split(b.0)) {
            let tensor = |(of, elements): &(&CudaBuffer, Range<usize>)| {
                self.settle(of);
                let (weights, rest) = part(of, elements);
                [weights.0, rest.0, 0, 0, 0, elements.len() as u64, 0]
            };
            let mut tensors: Vec<Tensor> = parts.iter().map(tensor).collect();
            let blocks = number_blocks(&mut tensors);
            if blocks == 0 {
                continue;
            }
            let (table, out) = (self.uploaded(tensors.as_flattened()), self.scratch(4 * blocks));
            let split = is_split(parts[0].0);
            SQUARE_SUMS.launch(
                &*self.device,
                Grid::line(blocks.div_ceil(8), 128),
                (table.at(0), tensors.len(), out.at(0), blocks as u64, split),
            );
            sums.extend(self.downloaded::<f32>(&out, blocks));
        }
        sums
    }

    pub(crate) fn update(&self, settings: AdamW, parameters: &[Parameter<'_>]) {
        let factors = settings.factors();
        let kind = |of: &Parameter<'_>| {
            (is_split(of.weights), of.first.host.is_some(), of.second.host.is_some())
        };
        for parameters in parameters.chunk_by(|a, b| kind(a) == kind(b)) {
            let (split, first, second) = kind(&parameters[0]);
            assert_eq!(
                first, second,
                "one moment lives in the host's memory and the other does not"
            );
            if first {
                self.update_in_pieces(&factors, split, parameters);
                continue;
            }
            let moment = |moment: &CudaBuffer| part(moment, &(0..moment.elements())).0;
            let tensor = |of: &Parameter<'_>| {
                self.tensor(of, 0..of.elements.len(), [moment(of.first), moment(of.second)])
            };
            self.launch_update(&factors, split, parameters.iter().map(tensor).collect());
        }
    }

    /// Updates elements whose moments live in the host's memory. Piece after piece of both moments
    /// is copied to the device, updated there, and copied back. All of it is in the one stream, so
    /// the host does not wait.
    fn update_in_pieces(&self, factors: &UpdateFactors, split: bool, parameters: &[Parameter<'_>]) {
        let all: usize = parameters.iter().map(|of| of.elements.len()).sum();
        let bytes = 4 * self.piece.min(all);
        let places = [self.scratch(bytes), self.scratch(bytes)];
        let mut rest = parameters.iter().map(|of| (of, 0)).peekable();
        loop {
            // Ranges of consecutive parameters, each with its offset in the piece.
            let (mut parts, mut filled) = (Vec::new(), 0);
            while let Some((of, begun)) = rest.peek_mut() {
                let end = of.elements.len().min(*begun + self.piece - filled);
                parts.push((*of, *begun..end, filled));
                filled += end - *begun;
                *begun = end;
                if end < of.elements.len() {
                    break;
                }
                rest.next();
            }
            if filled == 0 {
                return;
            }
            let moments = |of: &Parameter<'_>, elements: &Range<usize>, at: usize, back: bool| {
                for (moment, place) in [of.first, of.second].into_iter().zip(&places) {
                    let host =
                        moment.host.as_ref().expect("moments of a piece live in the host's memory");
                    let (at, from, bytes) = (4 * at, 4 * elements.start, 4 * elements.len());
                    match back {
                        false => self.device.copy_in(host, from, place.memory(), at, bytes),
                        true => self.device.copy_out(place.memory(), at, host, from, bytes),
                    }
                }
            };
            parts.iter().for_each(|(of, elements, at)| moments(of, elements, *at, false));
            let tensor = |(of, elements, at): &(&Parameter<'_>, Range<usize>, usize)| {
                self.tensor(
                    of,
                    elements.clone(),
                    [0, 1].map(|which: usize| places[which].at(4 * at)),
                )
            };
            self.launch_update(factors, split, parts.iter().map(tensor).collect());
            parts.iter().for_each(|(of, elements, at)| moments(of, elements, *at, true));
        }
    }

    /// Some of the elements that are updated, with moments on the device.
    fn tensor(&self, of: &Parameter<'_>, elements: Range<usize>, moments: [Pointer; 2]) -> Tensor {
        let (gradient, at) = of.gradient;
        self.settle(gradient);
        let (gradient, _) = part(gradient, &(at + elements.start..at + elements.end));
        let elements = of.elements.start + elements.start..of.elements.start + elements.end;
        let (weights, rest) = part(of.weights, &elements);
        let [first, second] = moments;
        [weights.0, rest.0, gradient.0, first.0, second.0, elements.len() as u64, 0]
    }

    fn launch_update(&self, factors: &UpdateFactors, split: bool, mut tensors: Vec<Tensor>) {
        let blocks = number_blocks(&mut tensors);
        if blocks == 0 {
            return;
        }
        let table = self.uploaded(tensors.as_flattened());
        ADAMW.launch(
            &*self.device,
            Grid::line(blocks, 256),
            (
                table.at(0),
                tensors.len(),
                split,
                factors.gradient_scale,
                factors.keep,
                factors.beta1,
                factors.one_minus_beta1,
                factors.beta2,
                factors.one_minus_beta2,
                factors.sqrt_correction2,
                factors.eps,
                factors.rate,
            ),
        );
    }
}
