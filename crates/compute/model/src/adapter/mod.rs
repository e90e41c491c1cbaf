//! Low-rank adapters beside a model's linear layers (LoRA, arXiv:2106.09685).
//!
//! A layer `y = W x + b` with an adapter is `y = W x + b + B (s * (A x))`, where A has `rank` rows
//! and `s = alpha / rank`, or `alpha / sqrt(rank)` (rsLoRA, arXiv:2312.03732). W and b are frozen.
//!
//! Tensors that are one matrix of the model (queries, keys and values; gate and up) are one
//! adapter of its layer: their As lie below each other, and their Bs along the diagonal of one
//! matrix, whose other numbers are 0 and stay 0.

mod config;
mod files;
mod merge;
mod targets;

use crate::Result;
use crate::layout::{BlockLayout, Id, Layout, Mixer, ParameterList, Projection};
use crate::model::Model;
use crate::parameters::Parameters;
use isentrope_kernels::{Backend, Buffer, Kind, Linear, LowRank, Role, Router};
use isentrope_random::{Draws, Purpose};

pub use config::{ADAPTER_CONFIG, AdapterConfig, BaseModel};
pub use files::{other_companions, write_adapter_files};
pub use merge::merge;
pub use targets::Targets;

/// The rank of an adapter if nothing says another.
pub const DEFAULT_RANK: usize = 16;

/// A module with an adapter: its own rank and scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank {
    /// Rows of A.
    pub rank: usize,
    /// The factor s of the adapter's branch.
    pub scale: f32,
}

/// The parameters of an adapter.
#[derive(Clone, Debug)]
pub struct AdapterLayout {
    /// A and B of each adapted layer, in the order of the forward pass.
    pub parameters: ParameterList,
    /// The adapter of each of the model's linear layers, by [`Projection::number`].
    pairs: Vec<Option<Pair>>,
}

/// The adapter of one linear layer.
#[derive(Clone, Debug)]
struct Pair {
    /// A: from the layer's inputs to all ranks.
    down: Linear,
    a: Id,
    /// B: from all ranks to the layer's outputs.
    up: Linear,
    b: Id,
    /// The scale of each of the ranks, `[ranks]`.
    scales: Vec<f32>,
    /// Whether the layer is an expert's, which some tokens pass over.
    of_expert: bool,
}

impl AdapterLayout {
    /// An adapter for those modules of a model that have a rank. `rank` is asked for each module
    /// that may have one, by its name in transformers, such as
    /// `model.layers.0.self_attn.q_proj`. None if no module has a rank.
    pub fn new(layout: &Layout, rank: impl Fn(&str) -> Option<Rank>) -> Option<Self> {
        let mut parameters = ParameterList::default();
        let mut pairs = Vec::new();
        for block in &layout.blocks {
            parameters.begin_group();
            let of_block = block.projections();
            pairs.extend(of_block.map(|of| Pair::new(layout, of, &rank, &mut parameters)));
        }
        parameters.begin_group();
        pairs.iter().any(Option::is_some).then_some(Self { parameters, pairs })
    }

    /// The linear layers of the branches, each with whether a residual is added to its outputs.
    pub(crate) fn linear_layers(&self) -> impl Iterator<Item = (Linear, bool)> {
        self.pairs.iter().flatten().flat_map(|pair| [(pair.down, false), (pair.up, true)])
    }

    /// The number of linear layers that have an adapter.
    pub(crate) fn layers(&self) -> usize {
        self.pairs.iter().flatten().count()
    }

    /// Most ranks of a layer's adapter.
    pub(crate) fn most_ranks(&self) -> usize {
        self.pairs.iter().flatten().map(|pair| pair.down.outputs).max().unwrap_or(0)
    }

    /// Inputs of the widest adapted layer.
    pub(crate) fn widest_input(&self) -> usize {
        self.pairs.iter().flatten().map(|pair| pair.down.inputs).max().unwrap_or(0)
    }

    /// The scale of each rank of each adapted layer.
    pub fn scales(&self) -> impl Iterator<Item = f32> {
        self.pairs.iter().flatten().flat_map(|pair| pair.scales.iter().copied())
    }

    /// Whether another adapter of the model has the same modules, ranks and scales.
    pub fn has_form_of(&self, other: &Self) -> bool {
        let shapes = |layout: &Self| -> Vec<(String, Vec<usize>)> {
            let tensors = layout.parameters.tensors();
            tensors.map(|(_, part, tensor)| (tensor.name.clone(), part.shape(tensor))).collect()
        };
        shapes(self) == shapes(other) && self.scales().eq(other.scales())
    }

    /// Weights of the adapters' products that a token goes through on average.
    pub(crate) fn product_weights(&self, router: Option<Router>) -> f64 {
        let weights = |shape: Linear| shape.inputs as f64 * shape.outputs as f64;
        let share = router.map_or(1.0, |of| of.chosen as f64 / of.experts as f64);
        let of_pair = |pair: &Pair| {
            let share = if pair.of_expert { share } else { 1.0 };
            share * (weights(pair.down) + weights(pair.up))
        };
        self.pairs.iter().flatten().map(of_pair).sum()
    }

    /// Bytes of the weights beside experts.
    pub(crate) fn expert_bytes(&self, backend: &dyn Backend) -> usize {
        let bytes = |pair: &Pair| -> usize {
            let kinds = [pair.down, pair.up].map(Kind::Matrix);
            kinds.map(|kind| backend.bytes_read(kind)).iter().sum()
        };
        self.pairs.iter().flatten().filter(|pair| pair.of_expert).map(bytes).sum()
    }
}

impl Layout {
    /// The layout with an adapter of the default rank for each linear layer; experts have none.
    #[must_use]
    pub fn with_default_adapter(&self) -> Self {
        let rank = Rank { rank: DEFAULT_RANK, scale: 1.0 };
        let rank = |module: &str| (!is_of_expert(module)).then_some(rank);
        Self { adapter: AdapterLayout::new(self, rank), ..self.clone() }
    }

    /// Whether the backward pass reads the output of a block's attention: gates behind it do, and
    /// the product behind it if that is trained.
    pub(crate) fn reads_attended(&self, block: &BlockLayout) -> bool {
        let is_gated = matches!(&block.mixer, Mixer::Attention(of) if of.is_gated);
        let of = block.output.number;
        is_gated || self.adapter.as_ref().is_none_or(|adapter| adapter.pairs[of].is_some())
    }
}

/// The names of a model's modules that can have an adapter.
pub fn adaptable_modules(layout: &Layout) -> impl Iterator<Item = &str> {
    layout.projections().flat_map(|projection| {
        layout.parameters[projection.weight.0].tensors.iter().map(|t| module_of(&t.name))
    })
}

/// Whether a module is a linear layer of an expert.
fn is_of_expert(module: &str) -> bool {
    module.contains(".experts.")
}

fn module_of(tensor: &str) -> &str {
    tensor.strip_suffix(".weight").unwrap_or(tensor)
}

impl Pair {
    fn new(
        layout: &Layout,
        projection: &Projection,
        rank: &impl Fn(&str) -> Option<Rank>,
        list: &mut ParameterList,
    ) -> Option<Self> {
        let modules: Vec<(&str, usize, Option<Rank>)> = layout.parameters[projection.weight.0]
            .tensors
            .iter()
            .map(|tensor| {
                let module = module_of(&tensor.name);
                (module, tensor.len, rank(module))
            })
            .collect();
        let ranked = || modules.iter().filter_map(|&(module, _, rank)| Some((module, rank?)));
        let ranks: usize = ranked().map(|(_, of)| of.rank).sum();
        if ranks == 0 {
            return None;
        }
        let Linear { inputs, outputs } = projection.shape;
        let (down, up) = (Linear { inputs, outputs: ranks }, Linear { inputs: ranks, outputs });
        let parts: Vec<_> =
            ranked().map(|(module, of)| (format!("{module}.lora_A.weight"), of.rank)).collect();
        let a = list.matrix(down, &parts);
        let mut column = 0;
        let rows = modules.iter().map(|&(module, rows, rank)| {
            let Some(Rank { rank, .. }) = rank else { return (String::new(), rows, 0..0) };
            column += rank;
            (format!("{module}.lora_B.weight"), rows, column - rank..column)
        });
        let b = list.push(Kind::Matrix(up), rows);
        list.order_heads(b, layout.parameters[projection.weight.0].heads);
        let scales = ranked().flat_map(|(_, of)| vec![of.scale; of.rank]).collect();
        let of_expert = modules.iter().any(|(module, ..)| is_of_expert(module));
        Some(Self { down, a, up, b, scales, of_expert })
    }
}

/// The weights of an adapter on a device. Their places are in [`Layout::adapter`].
pub struct Adapter {
    /// The weights.
    pub weights: Parameters,
    /// The scale of each of a pair's ranks, by [`Projection::number`].
    scales: Vec<Option<Buffer>>,
}

impl Adapter {
    /// An adapter of zeros.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    fn zeros(
        backend: &dyn Backend,
        layout: &AdapterLayout,
        role: fn(Kind) -> Role,
    ) -> Result<Self> {
        let weights = Parameters::zeros(backend, &layout.parameters, role)?;
        let scales = layout.pairs.iter().map(|pair| {
            pair.as_ref().map(|pair| {
                let mut scales = backend.buffer(Role::Exact(1, pair.scales.len()));
                backend.write(&mut scales, 0, &pair.scales);
                scales
            })
        });
        Ok(Self { weights, scales: scales.collect() })
    }
}

impl Model {
    /// The model with a new adapter, which changes nothing yet: B is 0. A is uniform within +- 1 /
    /// sqrt(inputs), as in peft.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn with_new_adapter(self, adapter: AdapterLayout, seed: u64) -> Result<Self> {
        let backend = self.backend.clone();
        let mut weights = Adapter::zeros(&*backend, &adapter, Role::Weight)?;
        for (number, (id, parameter, tensor)) in adapter.parameters.tensors().enumerate() {
            if tensor.name.ends_with(".lora_A.weight") {
                let len = parameter.shape(tensor).iter().product::<usize>() as u64;
                let bound = 1.0 / (parameter.kind.row() as f64).sqrt();
                let mut draws = Draws::of(seed, Purpose::Adapter, number as u64, 0);
                let mut draw = |place| ((2.0 * draws.uniform(place) - 1.0) * bound) as f32;
                let values: Vec<f32> = (0..len).map(&mut draw).collect();
                weights.weights.set_rows(&*backend, id, parameter, tensor, 0, &values);
            }
        }
        Ok(self.adapted(adapter, weights))
    }

    /// A model with a copy of the trained weights, which later updates do not change: of its
    /// adapter, beside the same base, or of all.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn snapshot(&self) -> Result<Self> {
        let b = &*self.backend;
        let (Some(layout), Some(own)) = (&self.layout.adapter, &self.adapter) else {
            let Self { config, layout, weights, backend, .. } = self;
            let mut copy = Parameters::zeros(b, &layout.parameters, Role::Weight)?;
            copy.copy_from(b, &layout.parameters, weights);
            return Ok(Self::new(config.clone(), layout.clone(), copy, backend.clone()));
        };
        let mut copy = Adapter::zeros(b, layout, Role::Weight)?;
        copy.weights.copy_from(b, &layout.parameters, &own.weights);
        Ok(self.base().adapted(layout.clone(), copy))
    }

    fn adapted(mut self, layout: AdapterLayout, adapter: Adapter) -> Self {
        self.layout.adapter = Some(layout);
        self.adapter = Some(adapter);
        self
    }

    /// The adapter of a linear layer.
    pub(crate) fn low_rank(&self, projection: &Projection) -> Option<LowRank<'_>> {
        self.pair(projection).map(|(_, adapter)| adapter)
    }

    fn pair(&self, projection: &Projection) -> Option<(&Pair, LowRank<'_>)> {
        let (layout, adapter) = (self.layout.adapter.as_ref()?, self.adapter.as_ref()?);
        let pair = layout.pairs[projection.number].as_ref()?;
        let scales = adapter.scales[projection.number].as_ref()?;
        let (a, b) = (&adapter.weights[pair.a], &adapter.weights[pair.b]);
        Some((pair, LowRank { down: pair.down, a, scales, up: pair.up, b }))
    }

    /// `s * (dy B)`, the gradient of A x, `[tokens, ranks]`; none without an adapter.
    pub(crate) fn reduced_gradient(
        &self,
        of: &Projection,
        dy: &Buffer,
        tokens: usize,
    ) -> Option<Buffer> {
        let LowRank { up, b, scales, .. } = self.low_rank(of)?;
        let mut reduced = self.activations(tokens, up.inputs);
        self.backend.linear_backward_input(up, dy, b, &mut reduced, tokens);
        self.backend.scale_rows(scales, &mut reduced, tokens);
        Some(reduced)
    }

    /// Adds to the gradients of A and B, from the layer's input `x`, the gradient `dy` of its
    /// output and [`reduced_gradient`](Self::reduced_gradient).
    pub(crate) fn adapter_backward_weight(
        &self,
        of: &Projection,
        x: &Buffer,
        dy: &Buffer,
        reduced_gradient: &Buffer,
        gradient: &mut Parameters,
        tokens: usize,
    ) {
        if let Some((pair, adapter)) = self.pair(of) {
            let b = &*self.backend;
            let mut reduced = self.activations(tokens, pair.down.outputs);
            b.reduce(adapter, x, &mut reduced, tokens);
            b.linear_backward_weight(pair.up, dy, &reduced, &mut gradient[pair.b], tokens);
            b.linear_backward_weight(pair.down, reduced_gradient, x, &mut gradient[pair.a], tokens);
        }
    }

    /// `dx += d A`, where d is [`reduced_gradient`](Self::reduced_gradient).
    pub(crate) fn adapter_backward_input(
        &self,
        of: &Projection,
        reduced_gradient: &Buffer,
        dx: &mut Buffer,
        tokens: usize,
    ) {
        if let Some(LowRank { down, a, .. }) = self.low_rank(of) {
            self.backend.linear_backward_input_add(down, reduced_gradient, a, dx, tokens);
        }
    }
}
