//! AdamW's moments. Each rank has the moments of the weights that it updates and no others (ZeRO
//! stage 1, arXiv:1910.02054), and where weights are in two parts, the remainders of these alone. A
//! checkpoint has everything; each rank reads its own.

use crate::error::{Error, Result};
use crate::ranks::TrainingRanks;
use isentrope_budget::memory::MOMENTS;
use isentrope_kernels::{Buffer, NORM_BLOCK, Role, UpdateSlice};
use isentrope_model::checkpoint::{Tensor, WriteOptions, write_tensors};
use isentrope_model::{Checkpoint, Error as ModelError, Model, ParameterList, Parameters};
use isentrope_ranks::{BLOCK, Slices};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};

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

    /// Gives up the remainders of the weights that other ranks update, where weights are in two
    /// parts.
    pub fn keep_remainders(&self, model: &mut Model, ranks: &TrainingRanks) -> Result<()> {
        let backend = model.backend.clone();
        let Some(split) = ranks.split(model, &*backend) else { return Ok(()) };
        for (parameter, weights) in model.trained_mut().buffers_mut().iter_mut().enumerate() {
            let own = self.parts.iter().find(|part| part.parameter == parameter);
            let own = own.map_or(0..0, |part| part.elements.clone());
            split.keep_remainders(weights, own).map_err(ModelError::from)?;
        }
        Ok(())
    }

    /// Gathers the exact weights of all ranks. `room` is a gradient of zeros, and is overwritten.
    pub fn gather_weights(
        &self,
        model: &Model,
        ranks: &TrainingRanks,
        room: &mut Parameters,
    ) -> Result<()> {
        for Part { parameter, elements, .. } in &self.parts {
            let Range { start, end } = *elements;
            let (from, to) =
                (&model.trained().buffers()[*parameter], &mut room.buffers_mut()[*parameter]);
            model.backend.copy_elements(from, start..end, to, start);
        }
        ranks.share(&*model.backend, room.buffers_mut(), &self.slices)
    }

    /// Reads the moments of a checkpoint. `room` is a gradient of zeros, and is overwritten.
    pub fn read(
        &mut self,
        model: &Model,
        checkpoint: &Checkpoint,
        room: &mut Parameters,
    ) -> Result<()> {
        for (which, prefix) in NAMES.iter().enumerate() {
            room.fill(&*model.backend, model.layout.trained(), checkpoint, prefix)?;
            for Part { parameter, elements, moments } in &mut self.parts {
                let from = &room.buffers()[*parameter];
                model.backend.copy_elements(from, elements.clone(), &mut moments[which], 0);
            }
        }
        Ok(())
    }

    /// Checks that a checkpoint has the moments of these parameters. It reads all of them.
    pub fn check(list: &ParameterList, checkpoint: &Checkpoint) -> Result<()> {
        let check = |prefix| Ok(Parameters::check(list, checkpoint, prefix)?);
        NAMES.into_iter().try_for_each(check)
    }

    /// Writes the moments of all ranks into an existing directory, each rank some of the files.
    /// `room` is a gradient of zeros, and is overwritten. Returns the files of this rank.
    pub fn write(
        &self,
        model: &Model,
        ranks: &TrainingRanks,
        room: &mut Parameters,
        dir: &Path,
        options: WriteOptions<'_>,
    ) -> Result<Vec<PathBuf>> {
        let Model { backend, layout, .. } = model;
        // The gradient's memory, and the number of moments that it has held, of two. All ranks
        // exchange the moments in the same order, each before the first tensor that it writes of
        // one.
        let room = RefCell::new((room, 0));
        let room = &room;
        let exchange = |moments: usize| {
            let (room, had) = &mut *room.borrow_mut();
            while *had < moments {
                for Part { parameter, elements, moments } in &self.parts {
                    let to = &mut room.buffers_mut()[*parameter];
                    backend.copy_elements(&moments[*had], 0..elements.len(), to, elements.start);
                }
                ranks.share(&**backend, room.buffers_mut(), &self.slices)?;
                *had += 1;
            }
            Ok::<_, Error>(())
        };
        let tensors = NAMES.iter().enumerate().flat_map(|(which, prefix)| {
            layout.trained().tensors().map(move |(id, parameter, tensor)| Tensor {
                name: format!("{prefix}{}", tensor.name),
                shape: parameter.shape(tensor),
                values: Box::new(move || {
                    exchange(which + 1).map_err(|error| ModelError::Input(error.to_string()))?;
                    Ok(Cow::Owned(room.borrow().0.tensor(&**backend, id, parameter, tensor)))
                }),
            })
        });
        let written = write_tensors(dir, tensors.collect(), options)?;
        exchange(NAMES.len())?;
        Ok(written)
    }

    /// Like [`write`](Self::write) on a single rank, which has all moments, with memory for the
    /// moments of one parameter at a time.
    ///
    /// # Errors
    /// Names the file that could not be written; when there is not even that memory.
    pub fn write_by_parameter(
        &self,
        model: &Model,
        dir: &Path,
        options: WriteOptions<'_>,
    ) -> Result<Vec<PathBuf>> {
        let Model { backend, layout, .. } = model;
        // The moment and the parameter that the buffer holds. Tensors of one parameter follow each
        // other.
        let room: RefCell<Option<(usize, usize, Buffer)>> = RefCell::new(None);
        let room = &room;
        let tensors = NAMES.iter().enumerate().flat_map(|(which, prefix)| {
            let parameters = layout.trained().iter().enumerate();
            parameters.flat_map(move |(index, parameter)| {
                parameter.tensors.iter().map(move |tensor| Tensor {
                    name: format!("{prefix}{}", tensor.name),
                    shape: parameter.shape(tensor),
                    values: Box::new(move || {
                        let mut room = room.borrow_mut();
                        let (_, _, buffer) = match room.take() {
                            Some(held) if (held.0, held.1) == (which, index) => room.insert(held),
                            // The former buffer is freed first.
                            other => {
                                drop(other);
                                room.insert((which, index, self.of_parameter(model, which, index)?))
                            }
                        };
                        Ok(Cow::Owned(Parameters::tensor_of(&**backend, buffer, parameter, tensor)))
                    }),
                })
            })
        });
        Ok(write_tensors(dir, tensors.collect(), options)?)
    }

    /// One of the moments of a parameter, in a buffer like its gradient's.
    fn of_parameter(
        &self,
        model: &Model,
        which: usize,
        index: usize,
    ) -> Result<Buffer, ModelError> {
        let backend = &*model.backend;
        let mut buffer = backend.allocate(Role::Gradient(model.layout.trained()[index].kind))?;
        for Part { elements, moments, .. } in
            self.parts.iter().filter(|part| part.parameter == index)
        {
            backend.copy_elements(&moments[which], 0..elements.len(), &mut buffer, elements.start);
        }
        Ok(buffer)
    }

    /// The elements of weights or of a gradient that this rank updates.
    pub fn own<'a>(&self, parameters: &'a Parameters) -> Vec<(&'a Buffer, Range<usize>)> {
        let part = |part: &Part| (&parameters.buffers()[part.parameter], part.elements.clone());
        self.parts.iter().map(part).collect()
    }

    /// The elements of weights, gradient and moments that this rank updates. `gradient` has the
    /// elements of each part, in order, as [`own`](Self::own) has them.
    pub fn updated<'a>(
        &'a mut self,
        weights: &'a mut Parameters,
        gradient: &[(&'a Buffer, Range<usize>)],
    ) -> Vec<UpdateSlice<'a>> {
        let mut parts = self.parts.iter_mut().zip(gradient).peekable();
        let weights = weights.buffers_mut().iter_mut().enumerate();
        let of_parameter = |(index, weights)| {
            let (part, gradient) = parts.next_if(|(part, _)| part.parameter == index)?;
            let Part { elements, moments: [first, second], .. } = part;
            let gradient = (gradient.0, gradient.1.start);
            Some(UpdateSlice { weights, elements: elements.clone(), gradient, first, second })
        };
        weights.filter_map(of_parameter).collect()
    }
}
