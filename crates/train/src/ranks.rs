//! Where the ranks that train together meet. There is one rank so far, which has everything: what it gives is what it gets.
//!
//! A step has three meeting places. Between them every rank samples its share of the groups and takes its share of the
//! sequences through the model; what follows from numbers that all ranks have (the filter, advantages, the objective, the
//! gradient's norm, the learning rate) every rank computes for itself. The results of a run on several ranks must be those
//! of a run on one, to the last bit, so no meeting may let the number of ranks, or which of them is first, show in the order
//! of what it gathers or adds.

use crate::group::Group;
use isentrope_kernels::Backend;
use isentrope_model::{Parameters, Scores};

/// The ranks that train together.
#[derive(Clone, Copy, Debug)]
pub struct Ranks;

impl Ranks {
    /// After collecting: the groups that each rank has sampled and judged, to the groups of all.
    ///
    /// Groups come in the order of their positions in the data, each whole and with the bits of its log-probs and entropies.
    /// Whether a response's activations are cached is known only where it was sampled; elsewhere it has no slots.
    pub fn gather_groups(self, groups: Vec<Group>) -> Vec<Group> {
        groups
    }

    /// Before the objective: the log-probs and entropies of the sequences that each rank has taken forward, to those of the
    /// whole minibatch.
    ///
    /// They come in the order of the minibatch's sequences. Every rank then computes the objective over all of them, since
    /// it selects by covariance and averages over the whole minibatch, and goes backward through its own sequences.
    pub fn gather_scores(self, scores: Scores) -> Scores {
        scores
    }

    /// Before the optimizer: the gradient of each rank's sequences, to the gradient of the minibatch.
    ///
    /// f32 additions in another order give other bits. The order in which gradients are added therefore follows from the
    /// minibatch alone, and is the same for any number of ranks.
    pub fn sum_gradients<B: Backend>(self, gradient: &mut Parameters<B>) -> &mut Parameters<B> {
        gradient
    }
}
