//! A set of parameters on a device: weights or a gradient.

use crate::Result;
use crate::checkpoint::{Checkpoint, Tensor};
use crate::layout::{Id, Layout, NamedTensor, Parameter};
use isentrope_kernels::{Backend, Buffer, Kind, Role, norm};
use std::borrow::Cow;
use std::ops::{Index, IndexMut};

/// Rows of a matrix converted and packed at a time while loading.
pub(crate) const ROWS_PER_CALL: usize = 256;
/// Numbers that are unpacked at a time while saving.
const NUMBERS_PER_CALL: usize = 1 << 20;

/// One buffer per parameter of a [`Layout`].
pub struct Parameters(Vec<Buffer>);

impl Parameters {
    /// Makes parameters of zeros with this `role`: [`Role::Weight`] or [`Role::Gradient`].
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn zeros(
        backend: &dyn Backend,
        layout: &Layout,
        role: impl Fn(Kind) -> Role,
    ) -> Result<Self> {
        let buffers =
            layout.parameters.iter().map(|parameter| backend.allocate(role(parameter.kind)));
        Ok(Self(buffers.collect::<Result<_, _>>()?))
    }

    /// Reads every tensor of the layout, under its name with `prefix` before it. `role` is as in
    /// [`zeros`](Self::zeros).
    ///
    /// # Errors
    /// Names the file and the tensor that is missing, has another shape or is not finite;
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn read(
        backend: &dyn Backend,
        layout: &Layout,
        role: impl Fn(Kind) -> Role,
        checkpoint: &Checkpoint,
        prefix: &str,
    ) -> Result<Self> {
        // This comes before memory is allocated, so that a config that claims a larger model than
        // the files hold fails here.
        Self::expect(layout, checkpoint, prefix)?;
        let mut parameters = Self::zeros(backend, layout, role)?;
        parameters.fill(backend, layout, checkpoint, prefix)?;
        Ok(parameters)
    }

    /// Reads every tensor of the layout, under its name with `prefix` before it, into these.
    ///
    /// # Errors
    /// Names the file and the tensor that is missing, has another shape or is not finite. Other
    /// tensors may have been read.
    pub fn fill(
        &mut self,
        backend: &dyn Backend,
        layout: &Layout,
        checkpoint: &Checkpoint,
        prefix: &str,
    ) -> Result<()> {
        for (id, parameter, tensor) in layout.tensors() {
            let (name, shape) = (format!("{prefix}{}", tensor.name), parameter.shape(tensor));
            checkpoint.read_rows(&name, &shape, ROWS_PER_CALL, |first, rows| {
                self.set_rows(backend, id, parameter, tensor, first, rows);
            })?;
        }
        Ok(())
    }

    /// Checks that every tensor of the layout is there and has its shape.
    pub(crate) fn expect(layout: &Layout, checkpoint: &Checkpoint, prefix: &str) -> Result<()> {
        for (_, parameter, tensor) in layout.tensors() {
            checkpoint.expect(&format!("{prefix}{}", tensor.name), &parameter.shape(tensor))?;
        }
        Ok(())
    }

    /// Every tensor of the layout, to be written under its name with `prefix` before it.
    pub fn tensors<'a>(
        &'a self,
        backend: &'a dyn Backend,
        layout: &'a Layout,
        prefix: &str,
    ) -> Vec<Tensor<'a>> {
        layout
            .tensors()
            .map(|(id, parameter, tensor)| Tensor {
                name: format!("{prefix}{}", tensor.name),
                shape: parameter.shape(tensor),
                values: Box::new(move || {
                    Ok(Cow::Owned(self.tensor(backend, id, parameter, tensor)))
                }),
            })
            .collect()
    }

    /// Adds parameters of the same layout and role to these, number by number.
    pub fn add(&mut self, backend: &dyn Backend, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, x)| backend.add(x, sum));
    }

    /// The Euclidean norm of all parameters together.
    pub fn norm(&self, backend: &dyn Backend, layout: &Layout) -> f64 {
        let of_parameter = |(buffer, numbers)| backend.square_sums(&[(buffer, 0..numbers)]);
        let sums: Vec<Vec<f32>> =
            self.0.iter().zip(layout.numbers(backend)).map(of_parameter).collect();
        norm(sums.iter().map(Vec::as_slice))
    }

    /// The buffers, in the layout's order.
    pub fn buffers(&self) -> &[Buffer] {
        &self.0
    }

    /// The buffers, in the layout's order.
    pub fn buffers_mut(&mut self) -> &mut [Buffer] {
        &mut self.0
    }

    /// Copies one named tensor to the host, row-major.
    pub fn tensor(
        &self,
        backend: &dyn Backend,
        id: Id,
        parameter: &Parameter,
        tensor: &NamedTensor,
    ) -> Vec<f32> {
        Self::tensor_of(backend, &self[id], parameter, tensor)
    }

    /// Copies one named tensor of a parameter's buffer to the host, row-major.
    pub fn tensor_of(
        backend: &dyn Backend,
        buffer: &Buffer,
        parameter: &Parameter,
        tensor: &NamedTensor,
    ) -> Vec<f32> {
        let mut values = vec![0.0; parameter.shape(tensor).iter().product()];
        // Rows are unpacked some at a time, because a device needs room for them.
        let row = parameter.kind.row();
        let rows = (NUMBERS_PER_CALL / row.max(1)).max(1);
        for (part, values) in values.chunks_mut((rows * row).max(1)).enumerate() {
            backend.unpack(parameter.kind, tensor.first + part * rows, buffer, values);
        }
        values
    }

    /// Sets `rows` (row-major) of a named tensor from its row `first` on.
    pub fn set_rows(
        &mut self,
        backend: &dyn Backend,
        id: Id,
        parameter: &Parameter,
        tensor: &NamedTensor,
        first: usize,
        rows: &[f32],
    ) {
        backend.pack(parameter.kind, tensor.first + first, rows, &mut self[id]);
    }
}

impl Index<Id> for Parameters {
    type Output = Buffer;
    fn index(&self, id: Id) -> &Buffer {
        &self.0[id.0]
    }
}

impl IndexMut<Id> for Parameters {
    fn index_mut(&mut self, id: Id) -> &mut Buffer {
        &mut self.0[id.0]
    }
}
