//! The sets of parameters that a run holds all along: weights, gradients, moments.

use crate::moments::moment_bytes;
use crate::shards::waiting_sums;
use isentrope_kernels::{Backend, Role};
use isentrope_model::Layout;

/// What a run has beside the policy's weights, gradient and moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterSets {
    /// Whether a reference model is kept: weights alone.
    pub reference: bool,
    /// Whether a process model is trained: weights, gradient and moments.
    pub process_model: bool,
    /// Shards of an update: beside the gradient of one of them, sums of others wait.
    pub shards: usize,
    /// Ranks that share the moments.
    pub ranks: usize,
}

impl ParameterSets {
    /// Models that are trained, each with a gradient and moments of its own.
    pub fn trained(self) -> usize {
        1 + usize::from(self.process_model)
    }

    /// Bytes of all weights, gradients and moments, of a rank.
    pub fn bytes<B: Backend>(self, backend: &B, layout: &Layout) -> [usize; 3] {
        let trained = self.trained();
        let models = trained + usize::from(self.reference);
        [
            (models, layout.parameter_bytes(backend, Role::Weight)),
            (trained * (1 + waiting_sums(self.shards)), layout.parameter_bytes(backend, Role::Gradient)),
            (trained, moment_bytes(backend, layout, self.ranks)),
        ]
        .map(|(count, bytes)| bytes.saturating_mul(count))
    }

    /// Settings by which there would be fewer, in the order of what they save.
    pub fn remedies(self) -> Vec<&'static str> {
        let fewer = match (self.reference, self.process_model) {
            (_, true) => Some("objective.advantage = \"rloo\""),
            (true, false) => Some("objective.reference_kl.coefficient = 0"),
            (false, false) => None,
        };
        fewer
            .into_iter()
            .chain((self.shards > 1).then_some("fewer shards (update.shards, sft.shards)"))
            .collect()
    }
}
