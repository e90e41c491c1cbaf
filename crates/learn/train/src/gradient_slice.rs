//! A rank's slice of a gradient, whose groups of parameters are added over ranks one after another.

use crate::error::Result;
use crate::ranks::TrainingRanks;
use isentrope_kernels::{Backend, Buffer, Role};
use isentrope_model::{Error as ModelError, Model, Parameters};
use isentrope_ranks::Slices;
use std::ops::Range;

/// This rank's elements of each group that has been added over ranks: f32, on the device.
pub struct GradientSlice {
    /// The parameters that have elements in the slice, with these elements, in order.
    own: Vec<(usize, Range<usize>)>,
    /// Their sums, if they are apart from the gradient.
    sums: Option<Vec<Buffer>>,
    /// Each group's parameters, and their slices.
    groups: Vec<(Range<usize>, Slices)>,
}

impl GradientSlice {
    /// A slice that stays where it is in the gradient. It has no meaning before each group was
    /// [added](Self::add_over_ranks).
    pub fn in_place(model: &Model, ranks: &TrainingRanks) -> Self {
        let slices = ranks.slices(model);
        let own = slices.by_parameter(&slices.of_rank(ranks.rank())).collect();
        Self { own, sums: None, groups: slices.groups().collect() }
    }

    /// A slice with memory of its own, so that a group's memory can serve the next one once its sum
    /// is here (ZeRO stage 2, arXiv:1910.02054).
    ///
    /// # Errors
    /// When there is no memory.
    pub fn apart(model: &Model, ranks: &TrainingRanks) -> Result<Self> {
        let slice = Self::in_place(model, ranks);
        let sum = |own: &(usize, Range<usize>)| model.backend.allocate(Role::Moment(own.1.len()));
        let sums = slice.own.iter().map(sum).collect::<Result<_, _>>().map_err(ModelError::from)?;
        Ok(Self { sums: Some(sums), ..slice })
    }

    /// Adds the gradient of a group over ranks. `group` is its number in
    /// [`ParameterList::groups`](isentrope_model::ParameterList::groups); `gradient` has a buffer
    /// for each of its parameters. Afterwards the sums are in this rank's elements of it; the other
    /// elements have no meaning. All ranks add groups in the same order.
    ///
    /// # Errors
    /// When another rank has failed.
    pub fn add_over_ranks(
        &mut self,
        backend: &dyn Backend,
        ranks: &TrainingRanks,
        group: usize,
        gradient: &mut [Buffer],
    ) -> Result<()> {
        let (parameters, slices) = &self.groups[group];
        if parameters.is_empty() {
            return Ok(());
        }
        ranks.sum_gradients(backend, gradient, slices)?;
        let apart = self.own.iter().zip(self.sums.iter_mut().flatten());
        for ((parameter, own), sum) in apart.filter(|((of, _), _)| parameters.contains(of)) {
            backend.copy_elements(&gradient[parameter - parameters.start], own.clone(), sum, 0);
        }
        Ok(())
    }

    /// The elements, in the order of parameters, as
    /// [`Optimizer::update`](crate::optimizer::Optimizer::update) takes them. `gradient` has those
    /// of a slice that is in place.
    pub fn elements<'a>(&'a self, gradient: &'a Parameters) -> Vec<(&'a Buffer, Range<usize>)> {
        let own = self.own.iter();
        match &self.sums {
            None => own.map(|(of, own)| (&gradient.buffers()[*of], own.clone())).collect(),
            Some(sums) => sums.iter().zip(own.map(|(_, own)| 0..own.len())).collect(),
        }
    }
}
