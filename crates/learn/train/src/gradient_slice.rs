//! A rank's slice of a gradient, whose groups of parameters are added over ranks one after another
//! (ZeRO stage 2, arXiv:1910.02054): a group's memory serves the next one once its sum is here.

use crate::error::Result;
use crate::ranks::TrainingRanks;
use isentrope_kernels::{Backend, Buffer, Role};
use isentrope_model::{Error as ModelError, Model};
use isentrope_ranks::Slices;
use std::ops::Range;

/// This rank's elements of each group that has been added over ranks: f32, on the device.
pub struct GradientSlice {
    parts: Vec<Part>,
    /// Each group's parameters, and their slices.
    groups: Vec<(Range<usize>, Slices)>,
}

/// The slice's part of one parameter.
struct Part {
    parameter: usize,
    elements: Range<usize>,
    sum: Buffer,
}

impl GradientSlice {
    /// A slice without meaning before each group was [added](Self::add_over_ranks).
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(model: &Model, ranks: &TrainingRanks) -> Result<Self> {
        let slices = ranks.slices(model);
        let own = slices.of_rank(ranks.rank());
        let part = |(parameter, elements): (usize, Range<usize>)| {
            let sum = model.backend.allocate(Role::Moment(elements.len()));
            sum.map(|sum| Part { parameter, elements, sum })
        };
        let parts = slices.by_parameter(&own).map(part).collect::<Result<_, _>>();
        Ok(Self { parts: parts.map_err(ModelError::from)?, groups: slices.groups().collect() })
    }

    /// Adds the gradient of a group over ranks, and keeps this rank's part. `group` is its number
    /// in [`ParameterList::groups`](isentrope_model::ParameterList::groups); `gradient` has a buffer
    /// for each of its parameters, and is overwritten. All ranks add groups in the same order.
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
        let Self { parts, groups } = self;
        let (parameters, slices) = &groups[group];
        if parameters.is_empty() {
            return Ok(());
        }
        ranks.sum_gradients(backend, gradient, slices)?;
        for part in parts.iter_mut().filter(|part| parameters.contains(&part.parameter)) {
            let from = &gradient[part.parameter - parameters.start];
            backend.copy_elements(from, part.elements.clone(), &mut part.sum, 0);
        }
        Ok(())
    }

    /// The elements, in the order of parameters, as
    /// [`Optimizer::update_summed`](crate::optimizer::Optimizer::update_summed) takes them.
    pub fn elements(&self) -> Vec<(&Buffer, Range<usize>)> {
        self.parts.iter().map(|part| (&part.sum, 0..part.elements.len())).collect()
    }
}
