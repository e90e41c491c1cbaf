//! Where the ranks that train together meet.
//!
//! A step has three meeting places. Between them every rank samples its share of the groups and takes its shards of the
//! sequences through the model; what follows from numbers that all ranks have (the filter, advantages, the objective, the
//! gradient's norm, the optimizer's update) every rank computes for itself. The results of a run on several ranks are those of
//! a run on one, to the last bit: no meeting lets the number of ranks, or which of them is first, show in the order of what it
//! gathers or adds.
//!
//! Every rank comes to every meeting, in the same order. So nothing that a rank alone knows may decide whether there is one.

use crate::error::{Error, Result};
use crate::group::Group;
use crate::shards::shards_of;
use isentrope_kernels::Backend;
use isentrope_model::{Parameters, Scores};
use isentrope_ranks::{HostFloats, Parameter, Slices, Traffic, World, shards_of_rank};
use isentrope_rollout::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::Range;
use std::sync::Arc;

/// The ranks that train together, and what of their work is this one's.
#[derive(Clone)]
pub struct Ranks {
    world: Arc<World>,
    /// Of an update.
    shards: usize,
    own_shards: Range<usize>,
}

impl Ranks {
    /// One rank, whose updates have so many shards.
    pub fn alone(shards: usize) -> Self {
        Self { world: Arc::new(World::alone()), shards, own_shards: 0..shards }
    }

    /// The ranks of a world, over which the shards of an update are spread.
    ///
    /// # Errors
    /// When they cannot be.
    pub fn new(world: Arc<World>, shards: usize) -> Result<Self> {
        let own_shards = shards_of_rank(shards, world.size(), world.rank())?;
        Ok(Self { world, shards, own_shards })
    }

    /// Whether this is the rank that writes for all.
    pub fn is_first(&self) -> bool {
        self.world.is_first()
    }

    /// Which of them this is, from 0.
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

    /// Those whose gradients this rank computes.
    pub fn own_shards(&self) -> Range<usize> {
        self.own_shards.clone()
    }

    /// Which of consecutive items of these weights are this rank's, where it does not matter whose they are.
    pub fn own(&self, weights: &[usize]) -> Range<usize> {
        let ranks = shards_of(weights, self.world.size());
        let own = self.world.rank();
        ranks.partition_point(|&rank| rank < own)..ranks.partition_point(|&rank| rank <= own)
    }

    /// Which of `count` groups this rank samples. The first update takes the first `first` of them, in shards: each rank samples
    /// about those that it will train on, since it has their activations then.
    pub fn own_groups(&self, first: usize, count: usize) -> Vec<usize> {
        let first = first.min(count);
        let rest = self.own(&vec![1; count - first]);
        self.own(&vec![1; first]).chain(first + rest.start..first + rest.end).collect()
    }

    /// After collecting: the groups that each rank has sampled and judged, to the groups of all.
    ///
    /// Groups come in the order of their positions in the data, each whole and with the bits of its log-probs and entropies.
    /// Whether a response's activations are cached is known only where it was sampled; elsewhere it has no slots.
    ///
    /// # Errors
    /// When another rank has failed, as all of the methods that gather.
    pub fn gather_groups(&self, groups: Vec<Group>) -> Result<Vec<Group>> {
        let mut all = self.gather(groups)?;
        all.sort_by_key(|group| group.position);
        Ok(all)
    }

    /// The responses to the problems that each rank has asked, `[problems][samples]`, in the order of ranks: to those of all.
    ///
    /// # Errors
    /// As [`gather_groups`](Self::gather_groups).
    pub fn gather_responses(&self, responses: Vec<Vec<Response>>) -> Result<Vec<Vec<Response>>> {
        self.gather(responses)
    }

    /// Before the objective: the log-probs, entropies and log-masses of the sequences that each rank has taken forward, to those
    /// of the whole minibatch.
    ///
    /// They come in the order of the minibatch's sequences. Every rank then computes the objective over all of them, since
    /// it selects by covariance and averages over the whole minibatch, and goes backward through its own sequences.
    ///
    /// # Errors
    /// As [`gather_groups`](Self::gather_groups).
    pub fn gather_scores(&self, scores: Scores) -> Result<Scores> {
        let Scores { logprobs, entropies, log_masses } = scores;
        let [logprobs, entropies, log_masses] = self.gather_numbers([logprobs, entropies, log_masses])?;
        Ok(Scores { logprobs, entropies, log_masses })
    }

    /// Numbers of consecutive targets that each rank has, of equal length on a rank: to those of all.
    ///
    /// # Errors
    /// As [`gather_groups`](Self::gather_groups).
    pub fn gather_numbers<const N: usize>(&self, own: [Vec<f32>; N]) -> Result<[Vec<f32>; N]> {
        if self.world.size() == 1 {
            return Ok(own);
        }
        let record: Vec<u8> = own.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
        let records = self.world.gather(&record)?;
        let mut all = [const { Vec::new() }; N];
        for record in &records {
            let numbers: Vec<f32> = record
                .chunks_exact(size_of::<f32>())
                .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
                .collect();
            let each = numbers.len() / N;
            all.iter_mut().enumerate().for_each(|(i, all)| all.extend(&numbers[i * each..(i + 1) * each]));
        }
        Ok(all)
    }

    /// Before the optimizer: the gradient of each rank's shards, to the gradient of the minibatch.
    ///
    /// f32 additions in another order give other bits. The order in which gradients are added therefore follows from the
    /// shards alone (docs/numerics.md), and is the same for any number of ranks.
    ///
    /// # Errors
    /// As [`gather_groups`](Self::gather_groups).
    pub fn sum_gradients<B: Backend>(&self, backend: &B, gradient: &mut Parameters<B>) -> Result<()> {
        if self.world.size() == 1 {
            return Ok(());
        }
        let lengths = gradient.buffers().iter().map(|buffer| backend.numbers(buffer));
        let slices = Slices::new(lengths, self.world.size());
        let parameters = gradient.buffers_mut().iter_mut().map(|buffer| OfGradient { backend, buffer });
        let mut floats = HostFloats::new(parameters);
        self.world.sum(&mut floats, &slices)?;
        Ok(self.world.share(&mut floats, &slices)?)
    }

    /// What the exchanges of this rank have taken so far.
    pub fn traffic(&self) -> Traffic {
        self.world.traffic()
    }

    /// Whether any rank says so.
    ///
    /// # Errors
    /// As [`gather_groups`](Self::gather_groups).
    pub fn any(&self, flag: bool) -> Result<bool> {
        Ok(self.world.any(flag)?)
    }

    /// What the first rank says.
    ///
    /// # Errors
    /// As [`gather_groups`](Self::gather_groups).
    pub fn first_says<T: Serialize + DeserializeOwned>(&self, value: T) -> Result<T> {
        if self.world.size() == 1 {
            return Ok(value);
        }
        decoded(&self.world.broadcast(&encoded(&value)?)?)
    }

    /// Notes what was computed, which must be the same everywhere: the next meeting compares.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, what: &str, value: &impl Serialize) -> Result<()> {
        if self.world.size() > 1 {
            self.world.note(what, &encoded(value)?);
        }
        Ok(())
    }

    /// Each rank's items, in the order of ranks. Its own are those that it has given.
    fn gather<T: Serialize + DeserializeOwned>(&self, own: Vec<T>) -> Result<Vec<T>> {
        if self.world.size() == 1 {
            return Ok(own);
        }
        let records = self.world.gather(&encoded(&own)?)?;
        let (before, after) = records.split_at(self.world.rank());
        let mut all = Vec::new();
        for record in before {
            all.extend(decoded::<Vec<T>>(record)?);
        }
        all.extend(own);
        for record in &after[1..] {
            all.extend(decoded::<Vec<T>>(record)?);
        }
        Ok(all)
    }
}

/// A parameter of a gradient, on whatever device it is.
struct OfGradient<'a, B: Backend> {
    backend: &'a B,
    buffer: &'a mut B::Buffer,
}

impl<B: Backend> Parameter for OfGradient<'_, B> {
    fn count(&self) -> usize {
        self.backend.numbers(self.buffer)
    }

    fn read(&self, first: usize, numbers: &mut [f32]) {
        self.backend.read_numbers(self.buffer, first, numbers);
    }

    fn write(&mut self, first: usize, numbers: &[f32]) {
        self.backend.write_numbers(self.buffer, first, numbers);
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
