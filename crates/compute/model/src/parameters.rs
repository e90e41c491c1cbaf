//! A set of parameters on a device: weights or a gradient.

use crate::Result;
use crate::checkpoint::{Checkpoint, Tensor};
use crate::layout::{Id, NamedTensor, Parameter, ParameterList};
use isentrope_kernels::{Backend, Buffer, DeltaWeights, Kind, Role};
use std::borrow::Cow;
use std::mem;
use std::ops::{Index, IndexMut, Range};

/// Rows of a matrix converted and packed at a time while loading.
pub(crate) const ROWS_PER_CALL: usize = 256;
/// Numbers that are unpacked at a time while saving.
const NUMBERS_PER_CALL: usize = 1 << 20;

/// One buffer per parameter of a [`ParameterList`]. A parameter without memory has an empty one.
pub struct Parameters(Vec<Buffer>);

impl Parameters {
    /// Makes parameters of zeros with this `role`: [`Role::Weight`] or [`Role::Gradient`].
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn zeros(
        backend: &dyn Backend,
        list: &ParameterList,
        role: impl Fn(Kind) -> Role,
    ) -> Result<Self> {
        let mut parameters = Self::without_memory(backend, list);
        parameters.allocate(backend, list, role, 0..list.len())?;
        Ok(parameters)
    }

    /// Parameters none of which has memory.
    pub fn without_memory(backend: &dyn Backend, list: &ParameterList) -> Self {
        Self(list.iter().map(|_| nothing(backend)).collect())
    }

    /// Gives some parameters memory, and makes them zeros, as [`zeros`](Self::zeros).
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn allocate(
        &mut self,
        backend: &dyn Backend,
        list: &ParameterList,
        role: impl Fn(Kind) -> Role,
        parameters: Range<usize>,
    ) -> Result<()> {
        for (buffer, of) in self.0[parameters.clone()].iter_mut().zip(&list[parameters]) {
            *buffer = backend.allocate(role(of.kind))?;
        }
        Ok(())
    }

    /// Gives the memory of some parameters to others of the same kinds, which have none.
    fn hand_over(&mut self, from: Range<usize>, to: Range<usize>) {
        from.zip(to).for_each(|(from, to)| self.0.swap(from, to));
    }

    /// Gives some parameters memory: that of others which no longer need theirs, if these are of
    /// the same kinds, with the numbers that are there; else their own, zeros as in
    /// [`allocate`](Self::allocate), once the others have none.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn succeed(
        &mut self,
        backend: &dyn Backend,
        list: &ParameterList,
        role: impl Fn(Kind) -> Role,
        from: Option<Range<usize>>,
        to: Range<usize>,
    ) -> Result<()> {
        let kinds = |parameters: &Range<usize>| list[parameters.clone()].iter().map(|of| of.kind);
        if let Some(from) = from {
            if kinds(&from).eq(kinds(&to)) {
                self.hand_over(from, to);
                return Ok(());
            }
            self.take(backend, from);
        }
        self.allocate(backend, list, role, to)
    }

    /// Takes the memory of some parameters, which have none then.
    pub fn take(&mut self, backend: &dyn Backend, parameters: Range<usize>) -> Vec<Buffer> {
        self.0[parameters].iter_mut().map(|buffer| mem::replace(buffer, nothing(backend))).collect()
    }

    /// Gives parameters from `first` on the memory that was [taken](Self::take) from them.
    pub fn put_back(&mut self, first: usize, buffers: Vec<Buffer>) {
        self.0[first..].iter_mut().zip(buffers).for_each(|(to, buffer)| *to = buffer);
    }

    /// Reads every tensor of the list, under its name with `prefix` before it. `role` is as in
    /// [`zeros`](Self::zeros).
    ///
    /// # Errors
    /// Names the file and the tensor that is missing, has another shape or is not finite;
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn read(
        backend: &dyn Backend,
        list: &ParameterList,
        role: impl Fn(Kind) -> Role,
        checkpoint: &Checkpoint,
        prefix: &str,
    ) -> Result<Self> {
        // This comes before memory is allocated, so that a config that claims a larger model than
        // the files hold fails here.
        Self::expect(list, checkpoint, prefix)?;
        let mut parameters = Self::zeros(backend, list, role)?;
        parameters.fill(backend, list, checkpoint, prefix)?;
        Ok(parameters)
    }

    /// Makes weights to be trained of which a rank updates the elements `own`, by parameter: where
    /// a device keeps weights in two parts, the remainders of these elements alone stay. `set` sets
    /// each parameter, whose buffer holds zeros, in order; one has all its remainders at a time.
    ///
    /// # Errors
    /// Those of `set`; [`Error::Memory`](crate::Error::Memory).
    pub(crate) fn slice(
        backend: &dyn Backend,
        list: &ParameterList,
        own: &[Range<usize>],
        mut set: impl FnMut(&Parameter, &mut Buffer) -> Result<()>,
    ) -> Result<Self> {
        let mut slice = Self::without_memory(backend, list);
        for (weights, (parameter, own)) in slice.0.iter_mut().zip(list.iter().zip(own)) {
            *weights = backend.allocate(Role::Weight(parameter.kind))?;
            set(parameter, weights)?;
            let is_whole = *own == (0..backend.element_count(parameter.kind));
            if let Some(split) = backend.split_weights().filter(|_| !is_whole) {
                split.keep_remainders(weights, own.clone())?;
            }
        }
        Ok(slice)
    }

    /// Reads every tensor of the list, under its name with `prefix` before it, into these.
    ///
    /// # Errors
    /// Names the file and the tensor that is missing, has another shape or is not finite. Other
    /// tensors may have been read.
    pub fn fill(
        &mut self,
        backend: &dyn Backend,
        list: &ParameterList,
        checkpoint: &Checkpoint,
        prefix: &str,
    ) -> Result<()> {
        let mut buffers = self.0.iter_mut().zip(list.iter());
        buffers.try_for_each(|(buffer, parameter)| {
            Self::fill_one(backend, buffer, parameter, checkpoint, prefix)
        })
    }

    /// Reads the tensors of one parameter into its buffer, as [`fill`](Self::fill).
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub fn fill_one(
        backend: &dyn Backend,
        buffer: &mut Buffer,
        parameter: &Parameter,
        checkpoint: &Checkpoint,
        prefix: &str,
    ) -> Result<()> {
        parameter.tensors.iter().try_for_each(|tensor| {
            let (name, shape) = (format!("{prefix}{}", tensor.name), parameter.shape(tensor));
            checkpoint.read_rows(&name, &shape, ROWS_PER_CALL, |first, rows| {
                set_rows(backend, buffer, parameter, tensor, first, rows);
            })
        })
    }

    /// Reads every tensor of the list and keeps none, to know whether [`fill`](Self::fill) can.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub fn check(list: &ParameterList, checkpoint: &Checkpoint, prefix: &str) -> Result<()> {
        list.tensors().try_for_each(|(_, parameter, tensor)| {
            let (name, shape) = (format!("{prefix}{}", tensor.name), parameter.shape(tensor));
            checkpoint.read_rows(&name, &shape, ROWS_PER_CALL, |_, _| ())
        })
    }

    /// Checks that every tensor of the list is there and has its shape.
    pub(crate) fn expect(
        list: &ParameterList,
        checkpoint: &Checkpoint,
        prefix: &str,
    ) -> Result<()> {
        for (_, parameter, tensor) in list.tensors() {
            checkpoint.expect(&format!("{prefix}{}", tensor.name), &parameter.shape(tensor))?;
        }
        Ok(())
    }

    /// Every tensor of the list, to be written under its name with `prefix` before it.
    pub fn tensors<'a>(
        &'a self,
        backend: &'a dyn Backend,
        list: &'a ParameterList,
        prefix: &str,
    ) -> Vec<Tensor<'a>> {
        list.tensors()
            .map(|(id, parameter, tensor)| Tensor {
                name: format!("{prefix}{}", tensor.name),
                shape: parameter.shape(tensor),
                values: Box::new(move || {
                    Ok(Cow::Owned(self.tensor(backend, id, parameter, tensor)))
                }),
            })
            .collect()
    }

    /// Adds some parameters of the same list and role to these, number by number.
    pub fn add(&mut self, backend: &dyn Backend, other: &Self, parameters: Range<usize>) {
        let sums = self.0[parameters.clone()].iter_mut();
        sums.zip(&other.0[parameters]).for_each(|(sum, x)| backend.add(x, sum));
    }

    /// Exchanges some parameters with others of the same list and role.
    pub fn swap(&mut self, other: &mut Self, parameters: Range<usize>) {
        self.0[parameters.clone()].swap_with_slice(&mut other.0[parameters]);
    }

    /// Copies parameters of the same list and role, bit by bit.
    pub(crate) fn copy_from(&mut self, backend: &dyn Backend, list: &ParameterList, other: &Self) {
        let mut elements = vec![0.0; NUMBERS_PER_CALL];
        for ((parameter, to), from) in list.iter().zip(&mut self.0).zip(&other.0) {
            let count = backend.element_count(parameter.kind);
            for first in (0..count).step_by(NUMBERS_PER_CALL) {
                let elements = &mut elements[..NUMBERS_PER_CALL.min(count - first)];
                backend.read_elements(from, first, elements);
                backend.write_elements(to, first, elements);
            }
        }
    }

    /// The buffers, in the list's order.
    pub fn buffers(&self) -> &[Buffer] {
        &self.0
    }

    /// The buffers, in the list's order.
    pub fn buffers_mut(&mut self) -> &mut [Buffer] {
        &mut self.0
    }

    /// The buffers of a delta rule.
    pub(crate) fn of_delta_rule(&mut self, ids: DeltaWeights<Id>) -> DeltaWeights<&mut Buffer> {
        let DeltaWeights { conv, a_log, dt_bias, norm } = ids.map(|id| id.0);
        let all = self.0.get_disjoint_mut([conv, a_log, dt_bias, norm]);
        let [conv, a_log, dt_bias, norm] = all.expect("different parameters");
        DeltaWeights { conv, a_log, dt_bias, norm }
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
        let (row, columns) = (parameter.kind.row(), tensor.columns.clone());
        let rows = (NUMBERS_PER_CALL / row.max(1)).max(1);
        for (part, values) in values.chunks_mut((rows * columns.len()).max(1)).enumerate() {
            let first = tensor.first + part * rows;
            if columns.len() == row {
                unpack(backend, parameter, first, buffer, values);
                continue;
            }
            let mut whole = vec![0.0; values.len() / columns.len() * row];
            unpack(backend, parameter, first, buffer, &mut whole);
            for (own, row) in values.chunks_mut(columns.len()).zip(whole.chunks(row)) {
                own.copy_from_slice(&row[columns.clone()]);
            }
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
        set_rows(backend, &mut self[id], parameter, tensor, first, rows);
    }
}

/// A buffer without memory. An operation that reads it as a weight panics, since it has no rows.
fn nothing(backend: &dyn Backend) -> Buffer {
    backend.buffer(Role::Exact(0, 0))
}

/// Sets `rows` (row-major) of a tensor from its row `first` on, in the buffer of its parameter. The
/// rows' other columns become zero.
pub(crate) fn set_rows(
    backend: &dyn Backend,
    buffer: &mut Buffer,
    parameter: &Parameter,
    tensor: &NamedTensor,
    first: usize,
    rows: &[f32],
) {
    let (row, columns) = (parameter.kind.row(), tensor.columns.clone());
    let first = tensor.first + first;
    if columns.len() == row {
        return pack(backend, parameter, first, rows, buffer);
    }
    let mut whole = vec![0.0; rows.len() / columns.len() * row];
    for (own, row) in rows.chunks(columns.len()).zip(whole.chunks_mut(row)) {
        row[columns.clone()].copy_from_slice(own);
    }
    pack(backend, parameter, first, &whole, buffer);
}

/// Puts whole rows, in the order of files, from the row `first` on into a parameter's buffer.
fn pack(
    backend: &dyn Backend,
    parameter: &Parameter,
    first: usize,
    values: &[f32],
    buffer: &mut Buffer,
) {
    let Some(heads) = parameter.heads else {
        return backend.pack(parameter.kind, first, values, buffer);
    };
    let row = parameter.kind.row();
    for (part, place) in heads.parts(first..first + values.len() / row) {
        let values = &values[(part.start - first) * row..(part.end - first) * row];
        backend.pack(parameter.kind, place, values, buffer);
    }
}

/// The opposite of [`pack`].
fn unpack(
    backend: &dyn Backend,
    parameter: &Parameter,
    first: usize,
    buffer: &Buffer,
    values: &mut [f32],
) {
    let Some(heads) = parameter.heads else {
        return backend.unpack(parameter.kind, first, buffer, values);
    };
    let row = parameter.kind.row();
    for (part, place) in heads.parts(first..first + values.len() / row) {
        let values = &mut values[(part.start - first) * row..(part.end - first) * row];
        backend.unpack(parameter.kind, place, buffer, values);
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
