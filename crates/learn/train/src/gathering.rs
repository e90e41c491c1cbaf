//! Sets of parameters of which each rank has its slice, gathered for files and checksums. Each rank
//! gets only the tensors that it wants, with memory for one parameter at a time.

use crate::error::{Error, Result};
use crate::ranks::TrainingRanks;
use isentrope_kernels::{Backend, Buffer, Role};
use isentrope_model::checkpoint::{Tensor, WriteOptions, Writer, tensor_files};
use isentrope_model::{Error as ModelError, Model, Parameters};
use isentrope_ranks::{HostFloats, Parameter, Slices, Wanted};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;

/// A set of parameters, such as one of the moments.
pub(crate) struct SlicedSet<'a> {
    /// The beginning of the names of its tensors.
    pub prefix: &'static str,
    /// This rank's part of each parameter that it has any of, in order.
    pub own: Vec<OwnPart<'a>>,
}

/// This rank's part of one parameter.
pub(crate) struct OwnPart<'a> {
    pub parameter: usize,
    /// Its elements of the parameter.
    pub elements: Range<usize>,
    /// The buffer that holds them, from its element `first` on.
    pub buffer: &'a Buffer,
    pub first: usize,
}

/// A parameter of a set, by their numbers.
type Place = (usize, usize);
/// A part of a parameter: some of its elements.
type Piece = (Place, Range<usize>);

/// Most elements that a round brings to a rank. All ranks wait for the largest piece of a round, so
/// a rank with a large parameter must not keep others with small ones.
const PIECE: usize = if cfg!(test) { 100 } else { 1 << 22 };

/// Sets whose parameters are gathered in rounds: in each, every rank gets the next piece of the
/// parameters that it wants. A round begins on a rank when it has used what earlier ones brought.
pub(crate) struct Gathering<'a> {
    model: &'a Model,
    ranks: &'a TrainingRanks,
    slices: &'a Slices,
    sets: Vec<SlicedSet<'a>>,
}

/// The rounds until now.
struct Rounds {
    /// The pieces of the parameters that each rank wants, in order.
    wanted: Vec<Vec<Piece>>,
    /// How many rounds have been.
    past: usize,
    /// The parameter that the last ones have brought.
    held: Option<Held>,
    /// Why a parameter did not come: a tensor's reader sees only the text.
    failure: Option<Error>,
}

/// A parameter that rounds bring.
struct Held {
    place: Place,
    buffer: Buffer,
    /// Its first elements, which have come.
    come: usize,
}

impl<'a> Gathering<'a> {
    /// Sets that are cut by `slices`.
    pub fn new(
        model: &'a Model,
        ranks: &'a TrainingRanks,
        slices: &'a Slices,
        sets: Vec<SlicedSet<'a>>,
    ) -> Self {
        Self { model, ranks, slices, sets }
    }

    /// Writes the tensors of all sets: `write` writes this rank's files, in order.
    ///
    /// # Errors
    /// As `write`; when another rank has failed; when there is no memory for a parameter.
    pub fn write(
        self,
        options: WriteOptions<'_>,
        write: impl FnOnce(Vec<Tensor<'_>>) -> Result<Vec<PathBuf>>,
    ) -> Result<Vec<PathBuf>> {
        let (own, count) = (self.ranks.rank(), self.ranks.count());
        let order = |tensors: &[Tensor<'_>], rank: usize| {
            let number = (options.writer.number + rank + count - own) % count;
            let writer = Writer { number, ..options.writer };
            let files = tensor_files(tensors, options)?.into_iter().enumerate();
            Ok(files.filter(|(file, _)| writer.has(*file)).flat_map(|(_, file)| file).collect())
        };
        self.gather(order, write)
    }

    /// Calls `read` with this rank's share of the tensors, in order: some parameters are each
    /// rank's.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn divide<T>(self, read: impl FnOnce(Vec<Tensor<'_>>) -> Result<T>) -> Result<T> {
        let (own, count, places) = (self.ranks.rank(), self.ranks.count(), self.places());
        let is_of = |rank: usize| move |&(_, parameter): &Place| parameter % count == rank;
        let order = |_: &[Tensor<'_>], rank| {
            let places = places.iter().enumerate();
            Ok(places.filter(|(_, place)| is_of(rank)(place)).map(|(tensor, _)| tensor).collect())
        };
        self.gather(order, |tensors| {
            let tensors = tensors.into_iter().zip(&places);
            read(tensors.filter(|(_, place)| is_of(own)(place)).map(|(tensor, _)| tensor).collect())
        })
    }

    /// Calls `read` with all tensors. `order` has the numbers of the tensors that a rank reads, in
    /// order.
    fn gather<T>(
        self,
        order: impl Fn(&[Tensor<'_>], usize) -> Result<Vec<usize>>,
        read: impl FnOnce(Vec<Tensor<'_>>) -> Result<T>,
    ) -> Result<T> {
        let rounds =
            RefCell::new(Rounds { wanted: Vec::new(), past: 0, held: None, failure: None });
        let tensors = self.tensors(&rounds);
        let places = self.places();
        for rank in 0..self.ranks.count() {
            let order = order(&tensors, rank)?.into_iter();
            let mut wanted: Vec<Place> = order.map(|tensor| places[tensor]).collect();
            wanted.dedup();
            let pieces = wanted.into_iter().flat_map(|place| self.pieces(place)).collect();
            rounds.borrow_mut().wanted.push(pieces);
        }
        let result = read(tensors);
        let mut rounds = rounds.into_inner();
        if let Some(failure) = rounds.failure {
            return Err(failure);
        }
        let result = result?;
        // Others may want more.
        while !rounds.are_over() {
            self.next(&mut rounds)?;
        }
        Ok(result)
    }

    /// The pieces of a parameter.
    fn pieces(&self, place: Place) -> impl Iterator<Item = Piece> + use<> {
        let count = self.elements(place.1).len();
        let firsts = (0..count.max(1)).step_by(PIECE);
        firsts.map(move |first| (place, first..count.min(first + PIECE)))
    }

    /// The range of a parameter in the elements of all parameters.
    fn elements(&self, parameter: usize) -> Range<usize> {
        let start = self.slices.lengths().take(parameter).sum();
        start..start + self.slices.lengths().nth(parameter).expect("a parameter of the slices")
    }

    /// The place of each tensor.
    fn places(&self) -> Vec<Place> {
        let parameters = || self.model.layout.trained().iter().enumerate();
        let of_set = |set| {
            parameters().flat_map(move |(index, of)| of.tensors.iter().map(move |_| (set, index)))
        };
        (0..self.sets.len()).flat_map(of_set).collect()
    }

    fn tensors<'s>(&'s self, rounds: &'s RefCell<Rounds>) -> Vec<Tensor<'s>> {
        let trained = self.model.layout.trained();
        let of_set = |(set, of): (usize, &'s SlicedSet<'a>)| {
            trained.tensors().map(move |(id, parameter, tensor)| Tensor {
                name: format!("{}{}", of.prefix, tensor.name),
                shape: parameter.shape(tensor),
                values: Box::new(move || {
                    let rounds = &mut *rounds.borrow_mut();
                    if let Err(error) = self.bring(rounds, (set, id.index())) {
                        let text = error.to_string();
                        rounds.failure = Some(error);
                        return Err(ModelError::Input(text));
                    }
                    let held = rounds.held.as_ref().expect("it has been brought");
                    let backend = &*self.model.backend;
                    Ok(Cow::Owned(Parameters::tensor_of(backend, &held.buffer, parameter, tensor)))
                }),
            })
        };
        self.sets.iter().enumerate().flat_map(of_set).collect()
    }

    /// Goes on to the round that has brought all of a parameter, which this rank wants now.
    fn bring(&self, rounds: &mut Rounds, place: Place) -> Result<()> {
        let count = self.elements(place.1).len();
        let comes = |held: &Held| held.place != place || held.come < count;
        while rounds.held.as_ref().is_none_or(comes) {
            if rounds.are_over() {
                let name = &self.model.layout.trained()[place.1].tensors[0].name;
                return Err(Error::Run(format!("{name} is read out of the order of the files")));
            }
            self.next(rounds)?;
        }
        Ok(())
    }

    /// The next round.
    fn next(&self, rounds: &mut Rounds) -> Result<()> {
        let pieces: Vec<Option<Piece>> =
            rounds.wanted.iter().map(|of_rank| of_rank.get(rounds.past).cloned()).collect();
        rounds.past += 1;
        match &pieces[self.ranks.rank()] {
            None => rounds.held = None,
            Some((place, elements)) => {
                if elements.start == 0 {
                    rounds.held = None; // its memory serves the next parameter
                    rounds.held = Some(self.begin(*place)?);
                }
                let held = rounds.held.as_mut().expect("a parameter begins with its first piece");
                held.come = elements.end;
            }
        }
        match self.ranks.count() {
            1 => Ok(()),
            _ => self.exchange(&pieces, rounds.held.as_mut()),
        }
    }

    /// A parameter of which only this rank's own part has come.
    fn begin(&self, place: Place) -> Result<Held> {
        let ((set, parameter), backend) = (place, &*self.model.backend);
        let kind = self.model.layout.trained()[parameter].kind;
        let mut buffer = backend.allocate(Role::Gradient(kind)).map_err(ModelError::from)?;
        if let Some(own) = self.sets[set].of_parameter(parameter) {
            let from = own.first..own.first + own.elements.len();
            backend.copy_elements(own.buffer, from, &mut buffer, own.elements.start);
        }
        Ok(Held { place, buffer, come: 0 })
    }

    fn exchange(&self, pieces: &[Option<Piece>], mut room: Option<&mut Held>) -> Result<()> {
        let wanted = |((set, parameter), elements): &Piece| {
            let start = self.elements(*parameter).start;
            Wanted { set: *set, numbers: start + elements.start..start + elements.end }
        };
        let wanted: Vec<_> = pieces.iter().map(|piece| piece.as_ref().map(wanted)).collect();
        let mut parameters = Vec::new();
        for (set, of) in self.sets.iter().enumerate() {
            for (parameter, count) in self.slices.lengths().enumerate() {
                parameters.push(InTransit {
                    backend: &*self.model.backend,
                    count,
                    own: of.of_parameter(parameter),
                    room: room
                        .take_if(|held| held.place == (set, parameter))
                        .map(|held| &mut held.buffer),
                });
            }
        }
        self.ranks.deliver(&mut HostFloats::new(parameters), self.slices, &wanted)
    }
}

impl Rounds {
    /// Whether no rank wants more.
    fn are_over(&self) -> bool {
        self.wanted.iter().all(|of_rank| of_rank.len() <= self.past)
    }
}

impl<'a> SlicedSet<'a> {
    fn of_parameter(&self, parameter: usize) -> Option<&OwnPart<'a>> {
        let own = self.own.binary_search_by_key(&parameter, |part| part.parameter);
        own.ok().map(|index| &self.own[index])
    }
}

/// A parameter that others read out of this rank's part, and that comes into `room` from others.
struct InTransit<'a> {
    backend: &'a dyn Backend,
    count: usize,
    own: Option<&'a OwnPart<'a>>,
    room: Option<&'a mut Buffer>,
}

impl Parameter for InTransit<'_> {
    type Number = f32;

    fn count(&self) -> usize {
        self.count
    }

    fn read(&self, first: usize, numbers: &mut [f32]) {
        let own = self.own.expect("a rank sends out of its part");
        let first = own.first + first - own.elements.start;
        self.backend.read_elements(own.buffer, first, numbers);
    }

    fn write(&mut self, first: usize, numbers: &[f32]) {
        let room = self.room.as_mut().expect("a rank gets the parameter that it wants");
        self.backend.write_elements(room, first, numbers);
    }
}
