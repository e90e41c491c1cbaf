//! The exchanges of ranks that train together.
//!
//! A step has three meeting places. Between them every rank samples its share of the responses and
//! takes its shards of the sequences through the model; what follows from numbers that all ranks
//! have (the filter, advantages, the objective, the gradient's norm) every rank computes for
//! itself. Each rank makes its slice of the optimizer's update and gives it to the others. A run on
//! several ranks has the results of a run on one, to the last bit: no meeting lets the number of
//! ranks, or which of them is first, show in the order of what it gathers or adds.
//!
//! Every rank comes to every meeting, in the same order. So nothing that a rank alone knows may
//! decide whether there is one. While they sample, ranks meet whenever one of them has nothing
//! left, which others hear of by [`is_called`](TrainingRanks::is_called).

mod links;

use crate::error::{Error, Result};
use crate::shards::shards_of;
use isentrope_kernels::{Backend, Buffer, DeviceLinks, SplitWeights};
use isentrope_model::{Layout, Model, Scores};
use isentrope_ranks::{HostFloats, Parameter, Slices, Traffic, Wanted, World, shards_of_rank};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use links::{failures, try_links};

/// The ranks that train together, and this rank's share of the work.
#[derive(Clone)]
pub struct TrainingRanks {
    world: Arc<World>,
    /// Shards of an update.
    shards: usize,
    own_shards: Range<usize>,
}

impl TrainingRanks {
    /// One rank, whose updates have `shards` shards.
    pub fn alone(shards: usize) -> Self {
        Self { world: Arc::new(World::alone()), shards, own_shards: 0..shards }
    }

    /// The ranks of a world, over which the shards of an update are spread.
    pub fn new(world: Arc<World>, shards: usize) -> Result<Self> {
        let own_shards = shards_of_rank(shards, world.size(), world.rank())?;
        Ok(Self { world, shards, own_shards })
    }

    /// Whether this is rank 0, which writes what only one can.
    pub fn is_first(&self) -> bool {
        self.world.is_first()
    }

    /// This rank's number, from 0.
    pub fn rank(&self) -> usize {
        self.world.rank()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.world.size()
    }

    /// Shards of an update, over all ranks.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// The shards whose gradients this rank computes.
    pub fn own_shards(&self) -> Range<usize> {
        self.own_shards.clone()
    }

    /// This rank's range of consecutive items with these weights, for work that any rank may do.
    pub fn own(&self, weights: &[usize]) -> Range<usize> {
        let ranks = shards_of(weights, self.world.size());
        let own = self.world.rank();
        ranks.partition_point(|&rank| rank < own)..ranks.partition_point(|&rank| rank <= own)
    }

    /// Which of `count` groups this rank samples. The first update takes the first `first` of them,
    /// in shards: each rank samples about those that it will train on, since it has their
    /// activations then. Ranks that have sampled theirs take over responses of the others
    /// (`collect/exchange.rs`).
    pub fn own_groups(&self, first: usize, count: usize) -> Vec<usize> {
        let first = first.min(count);
        let rest = self.own(&vec![1; count - first]);
        self.own(&vec![1; first]).chain(first + rest.start..first + rest.end).collect()
    }

    /// Exchanges the unfinished work of all ranks while they sample, in the order of ranks. A rank
    /// with nothing left comes here and waits; the others come when they [are
    /// called](Self::is_called).
    ///
    /// # Errors
    /// When another rank has failed, as all of the methods that gather.
    pub fn balance<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Vec<T>> {
        self.world.balance(&encoded(own)?)?.iter().map(|record| decoded(record)).collect()
    }

    /// Whether a rank waits for this one in the next meeting.
    pub fn is_called(&self) -> bool {
        self.world.is_called()
    }

    /// Before the objective: concatenates the scores of the sequences that each rank has taken
    /// forward, in the minibatch's order. Every rank computes the objective over all of them, since
    /// it selects by covariance and averages over the whole minibatch, and goes backward through
    /// its own sequences.
    pub fn gather_scores(&self, scores: Scores) -> Result<Scores> {
        let Scores { logprobs, entropies, log_masses } = scores;
        let [logprobs, entropies, log_masses] =
            self.gather_floats([logprobs, entropies, log_masses])?;
        Ok(Scores { logprobs, entropies, log_masses })
    }

    /// Concatenates the ranks' arrays in the order of ranks, each of the N separately. The N arrays
    /// of a rank have equal length.
    pub fn gather_floats<const N: usize>(&self, own: [Vec<f32>; N]) -> Result<[Vec<f32>; N]> {
        if self.world.size() == 1 {
            return Ok(own);
        }
        let record: Vec<u8> =
            own.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
        let records = self.world.gather(&record)?;
        let mut all = [const { Vec::new() }; N];
        for record in &records {
            let numbers: Vec<f32> = record
                .chunks_exact(size_of::<f32>())
                .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
                .collect();
            let each = numbers.len() / N;
            for (i, all) in all.iter_mut().enumerate() {
                all.extend(&numbers[i * each..(i + 1) * each]);
            }
        }
        Ok(all)
    }

    /// The elements of all parameters that each rank updates.
    pub fn slices(&self, model: &Model) -> Slices {
        self.slices_of(&model.layout, &*model.backend)
    }

    /// The elements of each parameter that this rank updates of a model with this layout.
    pub(crate) fn own_elements(&self, layout: &Layout, backend: &dyn Backend) -> Vec<Range<usize>> {
        let slices = self.slices_of(layout, backend);
        let mut own = vec![0..0; layout.trained().len()];
        for (parameter, elements) in slices.by_parameter(&slices.of_rank(self.rank())) {
            own[parameter] = elements;
        }
        own
    }

    fn slices_of(&self, layout: &Layout, backend: &dyn Backend) -> Slices {
        let trained = layout.trained();
        let lengths: Vec<usize> = trained.numbers(backend).collect();
        let groups = trained.groups().into_iter().map(|group| lengths[group].to_vec());
        Slices::new(groups, self.world.size())
    }

    /// Before the optimizer: adds the ranks' gradients. Each rank then has its slice of the
    /// minibatch's gradient; the rest of its buffer is overwritten.
    ///
    /// f32 additions in another order give other bits. The order in which gradients are added
    /// therefore follows from the shards alone (docs/concepts/numerics.md), and is the same for any
    /// number of ranks.
    ///
    /// `gradient` has a buffer for each parameter of `slices`, which are of all groups or of one.
    pub fn sum_gradients(
        &self,
        backend: &dyn Backend,
        gradient: &mut [Buffer],
        slices: &Slices,
    ) -> Result<()> {
        match self.links(backend) {
            Some(links) => links::sum(&self.world, links, gradient, slices),
            None => Ok(self.world.sum(&mut floats(backend, gradient, slices), slices)?),
        }
    }

    /// The links between the ranks' devices, which all ranks have, or none. After a failure bytes
    /// travel through the host.
    fn links<'b>(&self, backend: &'b dyn Backend) -> Option<&'b dyn DeviceLinks> {
        backend.device_links().filter(|_| !self.world.has_gone_on())
    }

    /// A model's weights in two parts on its `backend`, if each rank keeps the remainders of its
    /// own slice alone: of a whole model on several ranks. Adapters are small and stay whole.
    pub(crate) fn split<'b>(
        &self,
        model: &Model,
        backend: &'b dyn Backend,
    ) -> Option<&'b dyn SplitWeights> {
        let is_sliced = self.count() > 1 && model.adapter.is_none();
        if is_sliced { backend.split_weights() } else { None }
    }

    /// After the optimizer: exchanges the ranks' slices of weights, of weights in two parts only
    /// what operations read.
    pub(crate) fn share_weights(&self, model: &mut Model, slices: &Slices) -> Result<()> {
        let backend = model.backend.clone();
        let is_split = self.split(model, &*backend).is_some();
        let weights = model.trained_mut().buffers_mut();
        match is_split {
            true => self.share_read(&*backend, weights, slices),
            false => self.share(&*backend, weights, slices),
        }
    }

    /// Exchanges the ranks' slices of what operations read of weights. `weights` has a buffer for
    /// each parameter of `slices`, which are of all groups or of one.
    pub(crate) fn share_read(
        &self,
        backend: &dyn Backend,
        weights: &mut [Buffer],
        slices: &Slices,
    ) -> Result<()> {
        let Some(split) = backend.split_weights() else {
            return self.share(backend, weights, slices);
        };
        if let Some(links) = self.links(backend) {
            return links::share(&self.world, links, weights, true, slices);
        }
        let counted = slices.lengths().zip(weights);
        let parameters = counted.map(|(count, buffer)| Rounded { split, count, buffer });
        Ok(self.world.share(&mut HostFloats::new(parameters), slices)?)
    }

    /// Exchanges the ranks' slices of exact weights or moments: every rank then has all. `buffers`
    /// has one for each parameter of `slices`, which are of all groups or of one.
    pub fn share(
        &self,
        backend: &dyn Backend,
        buffers: &mut [Buffer],
        slices: &Slices,
    ) -> Result<()> {
        match self.links(backend) {
            Some(links) => links::share(&self.world, links, buffers, false, slices),
            None => Ok(self.world.share(&mut floats(backend, buffers, slices), slices)?),
        }
    }

    /// Gives each rank the elements that it wants out of the slices of the others: see
    /// [`World::deliver`].
    pub(crate) fn deliver<P: Parameter>(
        &self,
        floats: &mut HostFloats<P>,
        slices: &Slices,
        wanted: &[Option<Wanted>],
    ) -> Result<()> {
        Ok(self.world.deliver(floats, slices, wanted)?)
    }

    /// Puts each rank's elements at its `places` in one array, on all ranks.
    pub fn gather_slices(
        &self,
        own: Vec<f32>,
        places: impl Fn(usize) -> Vec<Range<usize>>,
    ) -> Result<Vec<f32>> {
        let [gathered] = self.gather_floats([own])?;
        let mut all = vec![0.0; gathered.len()];
        let mut rest = &gathered[..];
        for place in (0..self.world.size()).flat_map(places) {
            let (elements, after) = rest.split_at(place.len());
            all[place].copy_from_slice(elements);
            rest = after;
        }
        Ok(all)
    }

    /// The traffic of this rank's exchanges so far.
    pub fn traffic(&self) -> Traffic {
        self.world.traffic()
    }

    /// Whether any rank says so.
    pub fn any(&self, flag: bool) -> Result<bool> {
        Ok(self.world.any(flag)?)
    }

    /// The first rank's value, on all ranks.
    pub fn broadcast<T: Serialize + DeserializeOwned>(&self, value: T) -> Result<T> {
        if self.world.size() == 1 {
            return Ok(value);
        }
        decoded(&self.world.broadcast(&encoded(&value)?)?)
    }

    /// Finds a value on the first rank, for all ranks.
    pub fn first_finds<T>(&self, find: impl FnOnce() -> Result<T>) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
    {
        let found = if self.is_first() { encoded(&find()?)? } else { Vec::new() };
        decoded(&self.world.broadcast(&found)?)
    }

    /// After an error that ends the run: reports it to all ranks, unless they know, and gathers
    /// every rank's vote on what is still to be done together. Returns nothing if a rank is lost,
    /// because then nothing can be done together.
    pub fn vote<T: Serialize + DeserializeOwned>(&self, error: &Error, own: &T) -> Vec<T> {
        self.world.fail(&error.to_string());
        let votes = encoded(own).ok().and_then(|own| self.world.vote(&own)).unwrap_or_default();
        votes.iter().map(|vote| decoded(vote)).collect::<Result<_>>().unwrap_or_default()
    }

    /// After a [`vote`](Self::vote) by which nothing is done together.
    pub fn stop_again(&self) {
        self.world.stop_again();
    }

    /// Ends what ranks have done together after a [`vote`](Self::vote): a rank that has failed in
    /// it says so, and nothing more is exchanged.
    pub fn end_vote(&self, done: Result<()>) {
        let _ = match done {
            Ok(()) => self.world.any(false).map(drop), // all wait for the last
            Err(error) => Err(self.world.fail(&error.to_string())),
        };
        self.stop_again();
    }

    /// Notes a computed value. All ranks must note the same value; the next meeting compares them.
    pub fn note(&self, what: &str, value: &impl Serialize) -> Result<()> {
        if self.world.size() > 1 {
            self.world.note(what, &encoded(value)?);
        }
        Ok(())
    }

    /// Requires that all see the directory of a run.
    pub fn require_directory(&self, dir: &Path) -> Result<()> {
        match self.world.size() {
            1 => Ok(()),
            _ => Ok(self.world.require_directory(dir, "run.out")?),
        }
    }

    /// Gathers each rank's items, in the order of ranks. A response comes with the bits of its
    /// log-probs and entropies, and without its slots in the activation cache, which are known only
    /// where it was sampled.
    pub fn gather<T: Serialize + DeserializeOwned>(&self, own: Vec<T>) -> Result<Vec<T>> {
        if self.world.size() == 1 {
            return Ok(own);
        }
        let records = self.world.gather(&encoded(&own)?)?;
        let mut own = Some(own);
        let mut all = Vec::new();
        for (rank, record) in records.iter().enumerate() {
            match own.take_if(|_| rank == self.world.rank()) {
                Some(own) => all.extend(own),
                None => all.extend(decoded::<Vec<T>>(record)?),
            }
        }
        Ok(all)
    }
}

/// Parameters as ranks exchange them, on whatever device they are.
fn floats<'a>(
    backend: &'a dyn Backend,
    buffers: &'a mut [Buffer],
    slices: &Slices,
) -> HostFloats<OnDevice<'a>> {
    let counted = slices.lengths().zip(buffers);
    HostFloats::new(counted.map(|(count, buffer)| OnDevice { backend, count, buffer }))
}

struct OnDevice<'a> {
    backend: &'a dyn Backend,
    count: usize,
    buffer: &'a mut Buffer,
}

impl Parameter for OnDevice<'_> {
    type Number = f32;

    fn count(&self) -> usize {
        self.count
    }

    fn read(&self, first: usize, numbers: &mut [f32]) {
        self.backend.read_elements(self.buffer, first, numbers);
    }

    fn write(&mut self, first: usize, numbers: &[f32]) {
        self.backend.write_elements(self.buffer, first, numbers);
    }
}

/// The bf16s of weights in two parts.
struct Rounded<'a> {
    split: &'a dyn SplitWeights,
    count: usize,
    buffer: &'a mut Buffer,
}

impl Parameter for Rounded<'_> {
    type Number = u16;

    fn count(&self) -> usize {
        self.count
    }

    fn read(&self, first: usize, numbers: &mut [u16]) {
        self.split.read_rounded(self.buffer, first, numbers);
    }

    fn write(&mut self, first: usize, numbers: &[u16]) {
        self.split.write_rounded(self.buffer, first, numbers);
    }
}

/// As checkpoints have it: exact.
fn encoded(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|error| Error::Run(format!("what ranks exchange cannot be written: {error}")))
}

fn decoded<T: DeserializeOwned>(record: &[u8]) -> Result<T> {
    serde_json::from_slice(record)
        .map_err(|error| Error::Run(format!("what another rank has sent cannot be read: {error}")))
}
