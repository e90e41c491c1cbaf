//! Weights in two parts on ranks: a rank keeps the rests of its own elements, and ranks exchange
//! the bf16s.

use crate::buffer::CudaBuffer;
use crate::cuda::Cuda;
use crate::layout::{Element, Layout};
use isentrope_kernels::{Buffer, Kind, OutOfMemory, Role, SplitWeights};
use std::ops::Range;

/// The first byte of these elements' bf16s.
///
/// # Panics
/// When the buffer holds no such weights, or fewer.
fn rounded_at(of: &CudaBuffer, first: usize, count: usize) -> usize {
    let is_rounded = matches!(of.layout.element, Element::Split | Element::Frozen);
    assert!(is_rounded, "only weights of bf16s are read rounded");
    assert!(first + count <= of.elements(), "elements beyond the end");
    2 * first
}

impl SplitWeights for Cuda {
    fn keep_remainders(&self, weights: &mut Buffer, own: Range<usize>) -> Result<(), OutOfMemory> {
        let from: &CudaBuffer = weights.of();
        let to = self.kept(from.layout.with_rests(&own))?;
        let copy = |at: usize, to_at: usize, bytes: usize| {
            if bytes > 0 {
                self.device.copy(from.memory(), at, to.memory(), to_at, bytes);
            }
        };
        copy(0, 0, 2 * from.elements());
        copy(from.layout.rest_at(&own), to.layout.rest_at(&own), 2 * own.len());
        *weights = Buffer::new(to);
        Ok(())
    }

    fn allocate_slice(&self, kind: Kind, own: Range<usize>) -> Result<Buffer, OutOfMemory> {
        let layout = Layout::new(self.dtype, Role::Weight(kind)).with_rests(&own);
        self.kept(layout).map(Buffer::new)
    }

    fn read_rounded(&self, from: &Buffer, first: usize, rounded: &mut [u16]) {
        let from: &CudaBuffer = from.of();
        let at = rounded_at(from, first, rounded.len());
        if !rounded.is_empty() {
            self.device.download(from.memory(), at, bytemuck::cast_slice_mut(rounded));
        }
    }

    fn write_rounded(&self, to: &mut Buffer, first: usize, rounded: &[u16]) {
        let to: &CudaBuffer = to.of();
        let at = rounded_at(to, first, rounded.len());
        if !rounded.is_empty() {
            self.device.upload(bytemuck::cast_slice(rounded), to.memory(), at);
        }
    }
}
