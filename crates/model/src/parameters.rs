//! A set of parameters on a device: weights, a gradient, or an optimizer moment.

use crate::layout::{Id, Kind, Layout, NamedTensor, Parameter};
use isentrope_kernels::Backend;
use std::ops::{Index, IndexMut};

/// One buffer per parameter of a [`Layout`].
pub struct Parameters<B: Backend>(Vec<B::Buffer>);

impl<B: Backend> Parameters<B> {
    /// All zeros.
    pub fn zeros(backend: &B, layout: &Layout) -> Self {
        Self(layout.parameters.iter().map(|p| backend.zeros(p.stored_len())).collect())
    }

    /// The buffers, in the layout's order.
    pub fn buffers(&self) -> &[B::Buffer] {
        &self.0
    }

    /// The buffers, in the layout's order.
    pub fn buffers_mut(&mut self) -> &mut [B::Buffer] {
        &mut self.0
    }

    /// Copies one named tensor to the host, row-major.
    pub fn tensor(&self, backend: &B, id: Id, parameter: &Parameter, tensor: &NamedTensor) -> Vec<f32> {
        let mut values = vec![0.0; parameter.shape(tensor).iter().product()];
        match parameter.kind {
            Kind::Vector(_) => backend.read(&self[id], tensor.first, &mut values),
            Kind::Matrix(shape) => backend.unpack(shape, tensor.first, &self[id], &mut values),
        }
        values
    }

    /// Sets `rows` (row-major) of a named tensor from its row `first` on.
    pub fn set_rows(
        &mut self,
        backend: &B,
        id: Id,
        parameter: &Parameter,
        tensor: &NamedTensor,
        first: usize,
        rows: &[f32],
    ) {
        match parameter.kind {
            Kind::Vector(_) => backend.write(&mut self[id], tensor.first + first, rows),
            Kind::Matrix(shape) => backend.pack(shape, tensor.first + first, rows, &mut self[id]),
        }
    }
}

impl<B: Backend> Index<Id> for Parameters<B> {
    type Output = B::Buffer;
    fn index(&self, id: Id) -> &B::Buffer {
        &self.0[id.0]
    }
}

impl<B: Backend> IndexMut<Id> for Parameters<B> {
    fn index_mut(&mut self, id: Id) -> &mut B::Buffer {
        &mut self.0[id.0]
    }
}
