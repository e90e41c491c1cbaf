//! AdamW's moments. Each rank has those of the numbers that it updates and no others (ZeRO stage 1,
//! arXiv:1910.02054); a checkpoint has all, and whoever goes on from it takes its own.

use crate::error::{Error, Result};
use crate::ranks::Ranks;
use isentrope_kernels::{Backend, Buffer, NORM_BLOCK, Role, UpdateSlice};
use isentrope_model::checkpoint::{Tensor, WriteOptions, write_tensors};
use isentrope_model::{Checkpoint, Error as ModelError, Layout, Model, Parameters};
use isentrope_ranks::{BLOCK, Slices};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Names of the first and the second moments' tensors in a checkpoint, as PyTorch's optimizer state
/// calls them.
const NAMES: [&str; 2] = ["exp_avg.", "exp_avg_sq."];
// Whoever has a block of the gradient sums its squares.
const _: () = assert!(BLOCK == NORM_BLOCK);
/// Numbers that are copied at a time.
const COPIED: usize = 1 << 18;

/// Both moments of a rank's slice of all numbers.
pub(crate) struct Moments {
    /// Which numbers are whose.
    pub slices: Slices,
    parts: Vec<Part>,
}

/// The slice's part of one parameter.
struct Part {
    parameter: usize,
    numbers: Range<usize>,
    moments: [Buffer; 2],
}

/// How many moments a number has.
pub(crate) const BOTH: usize = NAMES.len();

/// Numbers whose moments each of so many ranks has, at most.
pub(crate) fn moments_of_rank(backend: &dyn Backend, layout: &Layout, ranks: usize) -> usize {
    let (blocks, numbers) =
        layout.numbers(backend).fold((0usize, 0usize), |(blocks, numbers), of_parameter| {
            let blocks = blocks.saturating_add(of_parameter.div_ceil(NORM_BLOCK));
            (blocks, numbers.saturating_add(of_parameter))
        });
    blocks.div_ceil(ranks).saturating_mul(NORM_BLOCK).min(numbers)
}

impl Moments {
    /// Before the first update. `role` is what a moment of so many numbers is: [`Role::Moment`] or
    /// [`Role::OffloadedMoment`].
    pub fn zeros(model: &Model, ranks: &Ranks, role: impl Fn(usize) -> Role) -> Result<Self> {
        let slices = ranks.slices(model);
        let part = |(parameter, numbers): (usize, Range<usize>)| {
            let zeros = || model.backend.allocate(role(numbers.len())).map_err(ModelError::from);
            Ok(Part { parameter, moments: [zeros()?, zeros()?], numbers })
        };
        let parts =
            slices.by_parameter(slices.of_rank(ranks.rank())).map(part).collect::<Result<_>>()?;
        Ok(Self { slices, parts })
    }

    /// As they were when they were written. `room` is a gradient of zeros; what is in it then is of
    /// no use.
    pub fn read(
        &mut self,
        model: &Model,
        checkpoint: &Checkpoint,
        room: &mut Parameters,
    ) -> Result<()> {
        for (which, prefix) in NAMES.iter().enumerate() {
            room.fill(&*model.backend, &model.layout, checkpoint, prefix)?;
            for Part { parameter, numbers, moments } in &mut self.parts {
                let from = (&room.buffers()[*parameter], numbers.start);
                copy(&*model.backend, from, (&mut moments[which], 0), numbers.len());
            }
        }
        Ok(())
    }

    /// Writes those of all ranks into an existing directory, each rank some of the files. `room` is
    /// a gradient of zeros; what is in it then is of no use. Returns what this rank has written.
    pub fn write(
        &self,
        model: &Model,
        ranks: &Ranks,
        room: &mut Parameters,
        (dir, options): (&Path, WriteOptions<'_>),
    ) -> Result<Vec<PathBuf>> {
        let Model { backend, layout, .. } = model;
        // With how many of the moments have been in it. All ranks bring them together in the same
        // order, each before the first tensor of it that it writes.
        let room = RefCell::new((room, 0));
        let room = &room;
        let gather = |moments: usize| {
            let (room, had) = &mut *room.borrow_mut();
            while *had < moments {
                for Part { parameter, numbers, moments } in &self.parts {
                    let to = (&mut room.buffers_mut()[*parameter], numbers.start);
                    copy(&**backend, (&moments[*had], 0), to, numbers.len());
                }
                ranks.share(&**backend, room, &self.slices)?;
                *had += 1;
            }
            Ok::<_, Error>(())
        };
        let tensors = NAMES.iter().enumerate().flat_map(|(which, prefix)| {
            layout.tensors().map(move |(id, parameter, tensor)| Tensor {
                name: format!("{prefix}{}", tensor.name),
                shape: parameter.shape(tensor),
                values: Box::new(move || {
                    gather(which + 1).map_err(|error| ModelError::Input(error.to_string()))?;
                    Ok(Cow::Owned(room.borrow().0.tensor(&**backend, id, parameter, tensor)))
                }),
            })
        });
        let written = write_tensors(dir, tensors.collect(), options)?;
        gather(NAMES.len())?;
        Ok(written)
    }

    /// As [`write`](Self::write) on a single rank, which has all moments, with room for one
    /// parameter's at a time.
    ///
    /// # Errors
    /// Names the file that could not be written; when there is no memory for those of one
    /// parameter.
    pub fn write_by_parameter(
        &self,
        model: &Model,
        (dir, options): (&Path, WriteOptions<'_>),
    ) -> Result<Vec<PathBuf>> {
        let Model { backend, layout, .. } = model;
        // Which moment of which parameter is in it. Tensors of one parameter follow each other.
        let room: RefCell<Option<(usize, usize, Buffer)>> = RefCell::new(None);
        let room = &room;
        let tensors = NAMES.iter().enumerate().flat_map(|(which, prefix)| {
            let parameters = layout.parameters.iter().enumerate();
            parameters.flat_map(move |(index, parameter)| {
                parameter.tensors.iter().map(move |tensor| Tensor {
                    name: format!("{prefix}{}", tensor.name),
                    shape: parameter.shape(tensor),
                    values: Box::new(move || {
                        let mut room = room.borrow_mut();
                        let (_, _, buffer) = match room.take() {
                            Some(held) if (held.0, held.1) == (which, index) => room.insert(held),
                            // The buffer that was held is given back first.
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
        let mut buffer = backend.allocate(Role::Gradient(model.layout.parameters[index].kind))?;
        for Part { numbers, moments, .. } in
            self.parts.iter().filter(|part| part.parameter == index)
        {
            copy(backend, (&moments[which], 0), (&mut buffer, numbers.start), numbers.len());
        }
        Ok(buffer)
    }

    /// The numbers of a gradient that this rank updates.
    pub fn of_gradient<'a>(&'a self, gradient: &'a Parameters) -> Vec<(&'a Buffer, Range<usize>)> {
        let part = |part: &Part| (&gradient.buffers()[part.parameter], part.numbers.clone());
        self.parts.iter().map(part).collect()
    }

    /// The numbers that this rank updates.
    pub fn updated<'a>(
        &'a mut self,
        weights: &'a mut Parameters,
        gradient: &'a Parameters,
    ) -> Vec<UpdateSlice<'a>> {
        let mut parts = self.parts.iter_mut().peekable();
        let parameters = weights.buffers_mut().iter_mut().zip(gradient.buffers()).enumerate();
        let of_parameter = |(index, (weights, gradient))| {
            let Part { numbers, moments: [first, second], .. } =
                parts.next_if(|part| part.parameter == index)?;
            Some(UpdateSlice { weights, gradient, numbers: numbers.clone(), first, second })
        };
        parameters.filter_map(of_parameter).collect()
    }
}

/// Copies so many numbers from one place to another.
fn copy(
    backend: &dyn Backend,
    (from, at): (&Buffer, usize),
    (to, start): (&mut Buffer, usize),
    count: usize,
) {
    let mut numbers = vec![0.0; COPIED.min(count)];
    for done in (0..count).step_by(COPIED) {
        let numbers = &mut numbers[..COPIED.min(count - done)];
        backend.read_numbers(from, at + done, numbers);
        backend.write_numbers(to, start + done, numbers);
    }
}
