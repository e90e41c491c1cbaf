//! The sets of parameters that a run holds: weights and moments always, gradients during updates.

use isentrope_kernels::{Backend, NORM_BLOCK, Role, Work};
use isentrope_model::Layout;

/// AdamW's moments of an element.
pub const MOMENTS: usize = 2;

/// The most elements whose moments a rank holds, of `ranks` ranks.
pub fn moments_of_rank(backend: &dyn Backend, layout: &Layout, ranks: usize) -> usize {
    let (mut blocks, mut elements) = (0usize, 0usize);
    for of_parameter in layout.trained().numbers(backend) {
        blocks = blocks.saturating_add(of_parameter.div_ceil(NORM_BLOCK));
        elements = elements.saturating_add(of_parameter);
    }
    blocks.div_ceil(ranks).saturating_mul(NORM_BLOCK).min(elements)
}

/// Sets of parameters that wait to be added while the gradients of `shards` shards are computed one
/// after the other.
pub fn waiting_sums(shards: usize) -> usize {
    shards.next_power_of_two().trailing_zeros() as usize
}

/// The sets of parameters of a run beside the policy's weights, gradient and moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterSets {
    /// Whether a reference model is kept: weights alone.
    pub reference: bool,
    /// The settings that would do without that model, unless a process model is trained.
    pub without_reference: &'static str,
    /// Whether a process model is trained: weights, gradient and moments.
    pub process_model: bool,
    /// Shards of an update. Besides one shard's gradient, sums of others wait to be added.
    pub shards: usize,
    /// Ranks that share the moments.
    pub ranks: usize,
    /// Whether moments live in the host's memory, although the device has its own.
    pub offloads_moments: bool,
    /// Whether the run could train adapters in place of all weights.
    pub may_adapt: bool,
}

/// The default is a policy alone, on one rank.
impl Default for ParameterSets {
    fn default() -> Self {
        Self {
            reference: false,
            without_reference: "objective.reference_kl.coefficient = 0",
            process_model: false,
            shards: 1,
            ranks: 1,
            offloads_moments: false,
            may_adapt: true,
        }
    }
}

impl ParameterSets {
    /// Models that are trained, each with a gradient and moments of its own.
    pub fn trained(self) -> usize {
        1 + usize::from(self.process_model)
    }

    /// Bytes of all weights, gradients and moments of a rank, in the device's memory. Adapters and
    /// the reference share one set of frozen weights.
    pub fn bytes(self, backend: &dyn Backend, layout: &Layout) -> [usize; 3] {
        let (trained, list) = (self.trained(), layout.trained());
        let frozen = usize::from(self.reference || layout.adapter.is_some());
        let frozen = layout.parameters.bytes(backend, Role::Frozen).saturating_mul(frozen);
        let weights = list.bytes(backend, Role::Weight).saturating_mul(trained);
        let gradients = (1 + waiting_sums(self.shards))
            .saturating_mul(list.bytes(backend, Role::Gradient))
            .saturating_add(list.mask_bytes(backend));
        let moments = backend.bytes(self.moment(moments_of_rank(backend, layout, self.ranks)));
        [
            frozen.saturating_add(weights),
            gradients.saturating_mul(trained),
            moments.saturating_mul(trained * MOMENTS),
        ]
    }

    /// Bytes of a rank's moments in the host's memory, if the device has its own.
    pub fn host_bytes(self, backend: &dyn Backend, layout: &Layout) -> usize {
        let moments = self.moment(moments_of_rank(backend, layout, self.ranks));
        backend.host_bytes(moments).saturating_mul(self.trained() * MOMENTS)
    }

    /// Bytes that an update of the weights takes on the device besides these sets.
    pub fn update_bytes(self, backend: &dyn Backend, layout: &Layout) -> usize {
        let numbers = moments_of_rank(backend, layout, self.ranks);
        if self.offloads_moments { backend.workspace(Work::OffloadedMoments(numbers)) } else { 0 }
    }

    /// The role of a moment by its number of elements.
    pub fn moment(self, numbers: usize) -> Role {
        if self.offloads_moments { Role::OffloadedMoment(numbers) } else { Role::Moment(numbers) }
    }

    /// Settings that would make do with fewer parameter sets, largest saving first, each with the
    /// sets that would remain.
    pub fn remedies(self, backend: &dyn Backend) -> Vec<(String, Self)> {
        let mut remedies = Vec::new();
        let mut add = |what: &str, sets| remedies.push((what.to_owned(), sets));
        let alone = Self { reference: false, process_model: false, ..self };
        if self.process_model {
            add("objective.advantage = \"rloo\"", alone); // it is compared with the reference
        } else if self.reference {
            add(self.without_reference, alone);
        }
        if self.shards > 1 {
            add("fewer shards (update.shards, sft.shards)", Self { shards: 1, ..self });
        }
        if !self.offloads_moments && backend.host_bytes(Role::OffloadedMoment(1)) > 0 {
            add("memory.offload_moments = true", Self { offloads_moments: true, ..self });
        }
        remedies
    }
}
