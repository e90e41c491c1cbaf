//! The sets of parameters that a run holds: weights and moments always, gradients during updates.

use isentrope_kernels::{Backend, Kind, NORM_BLOCK, Role, Work};
use isentrope_model::{Layout, Parameter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most bytes before the remainders of a parameter's weights.
const ALIGNMENT: usize = 16;
/// Blocks whose gradients exist at once where ranks share gradients: passes go through one while
/// the one above it is added over the ranks. As many have weights where ranks share these: the next
/// one is gathered meanwhile.
const BLOCKS: usize = 2;
/// AdamW's moments of an element.
pub const MOMENTS: usize = 2;
/// The remedy of moments in the host's memory.
pub(super) const OFFLOADING: &str = "memory.offload_moments = true";

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

/// The sets of parameters that ranks share, instead of each having the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shard {
    /// Moments; gradients too if the run would not fit otherwise; weights too if not even then.
    #[default]
    Auto,
    /// Moments (ZeRO stage 1).
    Optimizer,
    /// Moments and gradients (ZeRO stage 2).
    Gradients,
    /// Moments, gradients, and the weights while an update learns (ZeRO stage 3).
    Weights,
}

/// The sets of parameters of a run beside the policy's weights, gradient and moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterSets {
    /// Whether a reference model is kept: weights alone.
    pub reference: bool,
    /// Whether the reference has an adapter of its own, a copy of the one that training starts
    /// from.
    pub reference_is_adapted: bool,
    /// The settings that would do without that model, unless a process model is trained.
    pub without_reference: &'static str,
    /// Whether a process model is trained: weights, gradient and moments.
    pub process_model: bool,
    /// Shards of an update. Besides one shard's gradient, sums of others wait to be added.
    pub shards: usize,
    /// Ranks that share the moments.
    pub ranks: usize,
    /// The sets that they share; a plan decides what is left to it.
    pub shard: Shard,
    /// Whether the inputs of blocks wait in the host's memory for the way back, if gradients are
    /// complete layer by layer; a plan decides it.
    pub offloads_inputs: bool,
    /// Whether gradients may go from device to device, and not through the hosts.
    pub may_link: bool,
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
            reference_is_adapted: false,
            without_reference: "objective.reference_kl.coefficient = 0",
            process_model: false,
            shards: 1,
            ranks: 1,
            shard: Shard::Auto,
            offloads_inputs: false,
            may_link: true,
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
    /// the reference share one set of frozen weights; a reference that starts from an adapter has a
    /// copy of that, too. Of weights that ranks share, these are the rank's slice; what is
    /// [whole](Self::whole_bytes) is beside it while no update learns, and the layers that passes
    /// are in count as gradients, because they are there together.
    pub fn bytes(self, backend: &dyn Backend, layout: &Layout) -> [usize; 3] {
        let (trained, list) = (self.trained(), layout.trained());
        let frozen = usize::from(self.reference || layout.adapter.is_some());
        let frozen = layout.parameters.bytes(backend, Role::Frozen).saturating_mul(frozen);
        let of_reference = match &layout.adapter {
            Some(adapter) if self.reference && self.reference_is_adapted => {
                adapter.parameters.bytes(backend, Role::Frozen)
            }
            _ => 0,
        };
        let frozen = frozen.saturating_add(of_reference);
        let weights = match self.shares_weights() {
            true => self.slice_bytes(backend, layout),
            false => self.trained_bytes(backend, layout).saturating_mul(trained),
        };
        let own = moments_of_rank(backend, layout, self.ranks);
        let masks = list.mask_bytes(backend).saturating_mul(trained);
        let gradients = match self.goes_by_layer() {
            false => list.bytes(backend, Role::Gradient).saturating_mul(trained),
            true => backend
                .bytes(Role::Moment(own))
                .saturating_mul(trained)
                .saturating_add(layout.gradient_bytes_by_layer(backend, BLOCKS)),
        };
        let layers = match self.shares_weights() {
            true => layout.weight_bytes_by_layer(backend, BLOCKS),
            false => 0,
        };
        let gradients = gradients.saturating_add(layers);
        let gradients =
            gradients.saturating_add(masks).saturating_add(self.sum_bytes(backend, layout));
        let moments = backend.bytes(self.moment(own));
        [frozen.saturating_add(weights), gradients, moments.saturating_mul(trained * MOMENTS)]
    }

    /// The sets that a plan tries, one after the other, each if those before do not fit.
    pub(super) fn choices(self, backend: &dyn Backend, layout: &Layout) -> Vec<Self> {
        let with = |shard| Self { shard, ..self };
        let mut shards = match self.shard {
            Shard::Auto => vec![Shard::Optimizer],
            shard => vec![shard],
        };
        if self.shard == Shard::Auto && self.may_go_by_layer(layout) {
            shards.push(Shard::Gradients);
            shards.extend(self.may_share_weights(layout).then_some(Shard::Weights));
        }
        let has_own_memory = backend.host_bytes(Role::OffloadedActivation(1, 1)) > 0;
        let both = |shard| {
            let sets = with(shard);
            let offloads = has_own_memory && sets.goes_by_layer();
            [Some(sets), offloads.then_some(Self { offloads_inputs: true, ..sets })]
        };
        shards.into_iter().flat_map(both).flatten().collect()
    }

    /// Whether gradients are complete layer by layer, because ranks share them.
    pub fn goes_by_layer(self) -> bool {
        self.ranks > 1 && matches!(self.shard, Shard::Gradients | Shard::Weights)
    }

    /// Whether a rank has its slice of the weights alone while an update learns.
    pub fn shares_weights(self) -> bool {
        self.ranks > 1 && self.shard == Shard::Weights
    }

    /// Whether ranks can share the weights: all weights of one model are trained, and none of them
    /// are experts'.
    pub fn may_share_weights(self, layout: &Layout) -> bool {
        let is_plain = layout.adapter.is_none() && !layout.has_experts();
        self.may_go_by_layer(layout) && is_plain && !self.process_model
    }

    /// Whether gradients can be complete layer by layer. Where the head is the embedding, its
    /// gradient is begun by the first layer and complete with the last, so that of several shards
    /// each would need its memory in between.
    pub fn may_go_by_layer(self, layout: &Layout) -> bool {
        self.ranks > 1 && (self.shards == 1 || !layout.head_trains_embedding())
    }

    /// Bytes of the sums of shards that wait to be added, beside the gradients.
    pub fn sum_bytes(self, backend: &dyn Backend, layout: &Layout) -> usize {
        match self.goes_by_layer() {
            // One model is updated at a time.
            true => layout.gradient_bytes_by_layer(backend, 1),
            false => {
                let set = layout.trained().bytes(backend, Role::Gradient);
                set.saturating_mul(self.trained())
            }
        }
        .saturating_mul(waiting_sums(self.shards))
    }

    /// Bytes of one model's trained weights on a rank. Where a device keeps them as what passes
    /// read and remainders, a rank of several has the remainders of its own slice alone.
    fn trained_bytes(self, backend: &dyn Backend, layout: &Layout) -> usize {
        let list = layout.trained();
        let [exact, read] = [Role::Weight, Role::Frozen].map(|role| list.bytes(backend, role));
        let remainders = exact.saturating_sub(read);
        if self.ranks == 1 || layout.adapter.is_some() || remainders == 0 {
            return exact;
        }
        let numbers = list.numbers(backend).fold(0, usize::saturating_add);
        let own = moments_of_rank(backend, layout, self.ranks);
        let own = remainders as u128 * own as u128 / numbers.max(1) as u128;
        // The remainders of each parameter begin at a multiple of a few bytes.
        read.saturating_add(own as usize + ALIGNMENT * list.len()).min(exact)
    }

    /// Bytes of a rank's slice of one model's weights, exact.
    pub(super) fn slice_bytes(self, backend: &dyn Backend, layout: &Layout) -> usize {
        let own = Kind::Vector(moments_of_rank(backend, layout, self.ranks));
        // The remainders of each parameter begin at a multiple of a few bytes.
        backend.bytes(Role::Weight(own)).saturating_add(ALIGNMENT * layout.trained().len())
    }

    /// Bytes that weights take beside the slice that is always there while no update learns, when
    /// the model has all of them; 0 if ranks do not share weights.
    pub fn whole_bytes(self, backend: &dyn Backend, layout: &Layout) -> usize {
        match self.shares_weights() {
            true => self
                .trained_bytes(backend, layout)
                .saturating_sub(self.slice_bytes(backend, layout)),
            false => 0,
        }
    }

    /// Most bytes beside whole weights that ranks share: one parameter's, in f32, while weights are
    /// loaded or saved, or moments of a checkpoint are read. To take weights apart and make them
    /// whole needs less.
    pub fn changing_bytes(self, backend: &dyn Backend, layout: &Layout) -> usize {
        let bytes = |of: &Parameter| backend.bytes(Role::Gradient(of.kind));
        let largest = layout.trained().iter().map(bytes).max().unwrap_or(0);
        if self.shares_weights() { largest } else { 0 }
    }

    /// Bytes of a rank's moments in the host's memory, if the device has its own.
    pub fn host_bytes(self, backend: &dyn Backend, layout: &Layout) -> usize {
        let moments = self.moment(moments_of_rank(backend, layout, self.ranks));
        backend.host_bytes(moments).saturating_mul(self.trained() * MOMENTS)
    }

    /// Bytes that an update of the weights takes on the device besides these sets.
    pub fn update_bytes(self, backend: &dyn Backend, layout: &Layout) -> usize {
        let own = moments_of_rank(backend, layout, self.ranks);
        if self.offloads_moments { backend.workspace(Work::OffloadedMoments(own)) } else { 0 }
    }

    /// Bytes of gradients that come from other devices, to be added beside passes.
    pub fn linked_bytes(self, backend: &dyn Backend, layout: &Layout) -> usize {
        let numbers = layout.trained().numbers(backend).fold(0, usize::saturating_add);
        let adds = self.ranks > 1 && self.may_link;
        if adds { backend.workspace(Work::LinkedSums(numbers)) } else { 0 }
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
        if let Some(sets) = self.with_offloaded_moments(backend) {
            add(OFFLOADING, sets);
        }
        remedies
    }

    /// The sets with moments in the host's memory, if these are not and the device has its own.
    pub(super) fn with_offloaded_moments(self, backend: &dyn Backend) -> Option<Self> {
        let has_own_memory = backend.host_bytes(Role::OffloadedMoment(1)) > 0;
        let may = !self.offloads_moments && has_own_memory;
        may.then_some(Self { offloads_moments: true, ..self })
    }
}
