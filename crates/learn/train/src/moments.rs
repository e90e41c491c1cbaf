//! AdamW's moments. Each rank has the moments of the weights that it updates and no others (ZeRO
//! stage 1, arXiv:1910.02054), and where weights are in two parts, the remainders of these alone. A
//! checkpoint has everything; each rank reads its own.

use crate::error::Result;
use crate::gathering::{Gathering, OwnPart, SlicedSet};
use crate::ranks::TrainingRanks;
use isentrope_budget::memory::MOMENTS;
use isentrope_kernels::{Buffer, NORM_BLOCK, Role, UpdateSlice};
use isentrope_model::{Checkpoint, Error as ModelError, Model, ParameterList, Parameters};
use isentrope_ranks::{BLOCK, Slices};
use std::ops::Range;

/// Names of the first and the second moments' tensors in a checkpoint, as PyTorch's optimizer state
/// calls them.
const NAMES: [&str; MOMENTS] = ["exp_avg.", "exp_avg_sq."];
// The rank that updates a block also sums the squares of its gradient.
const _: () = assert!(BLOCK == NORM_BLOCK);

/// Both moments of a rank's slice of all weights.
pub(crate) struct Moments {
    /// The elements that each rank updates.
    pub slices: Slices,
    parts: Vec<Part>,
}

/// The slice's part of one parameter.
struct Part {
    parameter: usize,
    elements: Range<usize>,
    moments: [Buffer; MOMENTS],
}

impl Moments {
    /// Moments before the first update. `role` gives the role of a moment by its number of
    /// elements.
    pub fn zeros(
        model: &Model,
        ranks: &TrainingRanks,
        role: impl Fn(usize) -> Role,
    ) -> Result<Self> {
        let slices = ranks.slices(model);
        let mut parts = Vec::new();
        for (parameter, elements) in slices.by_parameter(&slices.of_rank(ranks.rank())) {
            let zeros = || model.backend.allocate(role(elements.len())).map_err(ModelError::from);
            parts.push(Part { parameter, moments: [zeros()?, zeros()?], elements });
        }
        Ok(Self { slices, parts })
    }

    /// Reads this rank's part of the moments of a checkpoint, with memory for one parameter.
    pub fn read(&mut self, model: &Model, checkpoint: &Checkpoint) -> Result<()> {
        let backend = &*model.backend;
        for Part { parameter, elements, moments } in &mut self.parts {
            let parameter = &model.layout.trained()[*parameter];
            for (prefix, moment) in NAMES.iter().zip(moments) {
                let room = backend.allocate(Role::Gradient(parameter.kind));
                let mut room = room.map_err(ModelError::from)?;
                Parameters::fill_one(backend, &mut room, parameter, checkpoint, prefix)?;
                backend.copy_elements(&room, elements.clone(), moment, 0);
            }
        }
        Ok(())
    }

    /// Checks that a checkpoint has the moments of these parameters. It reads all of them.
    pub fn check(list: &ParameterList, checkpoint: &Checkpoint) -> Result<()> {
        let check = |prefix| Ok(Parameters::check(list, checkpoint, prefix)?);
        NAMES.into_iter().try_for_each(check)
    }

    /// The moments of all ranks, to be written.
    pub fn gathering<'a>(&'a self, model: &'a Model, ranks: &'a TrainingRanks) -> Gathering<'a> {
        let set = |(which, prefix): (usize, &&'static str)| {
            let own = |part: &'a Part| OwnPart {
                parameter: part.parameter,
                elements: part.elements.clone(),
                buffer: &part.moments[which],
                first: 0,
            };
            SlicedSet { prefix, own: self.parts.iter().map(own).collect() }
        };
        Gathering::new(model, ranks, &self.slices, NAMES.iter().enumerate().map(set).collect())
    }

    /// The elements of weights, gradient and moments that this rank updates. `weights` and
    /// `gradient` have the elements of each part, in order.
    pub fn updated<'a>(
        &'a mut self,
        weights: Vec<(&'a mut Buffer, Range<usize>)>,
        gradient: &[(&'a Buffer, Range<usize>)],
    ) -> Vec<UpdateSlice<'a>> {
        let parts = self.parts.iter_mut().zip(weights).zip(gradient);
        let of_part =
            |((part, (weights, elements)), gradient): ((&'a mut Part, _), &(_, Range<_>))| {
                let [first, second] = &mut part.moments;
                let gradient = (gradient.0, gradient.1.start);
                UpdateSlice { weights, elements, gradient, first, second }
            };
        parts.map(of_part).collect()
    }
}
