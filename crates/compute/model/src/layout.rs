//! The place of every tensor of a checkpoint in the engine's parameters.
//!
//! Projections that read the same input are one matrix here (queries, keys and values; gate and
//! up), so that they are one product. A [`Layout`] gives each named tensor its rows of a parameter;
//! weights, gradients and optimizer moments all follow it.

use crate::adapter::AdapterLayout;
use crate::config::{BranchNorms, ModelConfig, QkNorm};
use crate::head_rows::HeadRows;
use isentrope_kernels::{
    Attention, Backend, DeltaRule, DeltaWeights, Grouped, Kind, Linear, Role, Router,
};
use std::ops::{Deref, Range, RangeFrom};

/// Number of a parameter in its [`ParameterList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(pub(crate) usize);

impl Id {
    /// The number.
    pub fn index(self) -> usize {
        self.0
    }
}

/// One parameter of the engine.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its shape.
    pub kind: Kind,
    /// The checkpoint's tensors that make up the parameter, in the order of its rows.
    pub tensors: Vec<NamedTensor>,
    /// The order of rows on a device, if it is another than in files.
    pub heads: Option<HeadRows>,
}

/// A tensor of the checkpoint.
#[derive(Clone, Debug)]
pub struct NamedTensor {
    /// The tensor's name in transformers' state dict.
    pub name: String,
    /// First row of the matrix (or element of the vector) that the tensor covers.
    pub first: usize,
    /// Rows (or elements) that it covers.
    pub len: usize,
    /// Columns of the matrix that it covers. The others hold zeros in its rows.
    pub columns: Range<usize>,
}

impl Parameter {
    /// The shape of one of the parameter's tensors.
    pub fn shape(&self, tensor: &NamedTensor) -> Vec<usize> {
        match self.kind {
            Kind::Vector(_) => vec![tensor.len],
            // Each channel of a convolution has one input of its own.
            Kind::Matrix(_) if tensor.name.ends_with("conv1d.weight") => {
                vec![tensor.len, 1, tensor.columns.len()]
            }
            Kind::Matrix(_) => vec![tensor.len, tensor.columns.len()],
        }
    }

    /// Whether its tensors cover it whole.
    pub(crate) fn is_covered(&self) -> bool {
        let covered = |tensor: &NamedTensor| tensor.len * tensor.columns.len();
        let rows = match self.kind {
            Kind::Vector(len) => len,
            Kind::Matrix(shape) => shape.outputs,
        };
        self.tensors.iter().map(covered).sum::<usize>() == rows * self.kind.row()
    }
}

/// Parameters in the order of the forward pass. Weights, gradients and moments follow it.
#[derive(Clone, Debug, Default)]
pub struct ParameterList {
    parameters: Vec<Parameter>,
    /// The first parameter of each group but the first.
    starts: Vec<usize>,
}

impl ParameterList {
    /// Every tensor of the checkpoint with the parameter that holds it.
    pub fn tensors(&self) -> impl Iterator<Item = (Id, &Parameter, &NamedTensor)> {
        let parameters = self.parameters.iter().enumerate();
        parameters.flat_map(|(i, p)| p.tensors.iter().map(move |t| (Id(i), p, t)))
    }

    /// Ranges of consecutive parameters whose gradients are complete together: the embedding, each
    /// block, and the final norm with the head. An adapter's first and last group are empty, as is
    /// the group of a block without an adapter.
    pub fn groups(&self) -> Vec<Range<usize>> {
        let starts = self.starts.iter().copied();
        let ends = starts.clone().chain([self.parameters.len()]);
        [0].into_iter().chain(starts).zip(ends).map(|(start, end)| start..end).collect()
    }

    /// Begins the next group with the next parameter.
    pub(crate) fn begin_group(&mut self) {
        self.starts.push(self.parameters.len());
    }

    /// The number of elements of each parameter on a device, padding included.
    pub fn numbers(&self, backend: &dyn Backend) -> impl Iterator<Item = usize> {
        self.parameters.iter().map(|parameter| backend.element_count(parameter.kind))
    }

    /// Bytes of one set of parameters of this role.
    pub fn bytes(&self, backend: &dyn Backend, role: impl Fn(Kind) -> Role) -> usize {
        let bytes = |sum: usize, kind| sum.saturating_add(backend.bytes(role(kind)));
        self.parameters.iter().map(|parameter| parameter.kind).fold(0, bytes)
    }

    /// The parameters that are zero outside their tensors.
    pub(crate) fn masked(&self) -> impl Iterator<Item = (Id, &Parameter)> {
        let uncovered = |(_, of): &(usize, &Parameter)| !of.is_covered();
        self.parameters.iter().enumerate().filter(uncovered).map(|(i, of)| (Id(i), of))
    }

    /// Bytes of the masks of these parameters that a [gradient](crate::Gradient) keeps.
    pub fn mask_bytes(&self, backend: &dyn Backend) -> usize {
        self.masked().map(|(_, parameter)| backend.bytes(Role::Gradient(parameter.kind))).sum()
    }

    fn vector<N: AsRef<str>>(&mut self, parts: &[(N, usize)]) -> Id {
        let part = |(name, len): &(N, usize)| (name.as_ref().to_owned(), *len, 0..1);
        self.push(Kind::Vector(parts.iter().map(|&(_, len)| len).sum()), parts.iter().map(part))
    }

    /// A matrix of tensors with all of its columns, each a name and a number of rows.
    pub(crate) fn matrix<N: AsRef<str>>(&mut self, shape: Linear, parts: &[(N, usize)]) -> Id {
        let part = |(name, len): &(N, usize)| (name.as_ref().to_owned(), *len, 0..shape.inputs);
        self.push(Kind::Matrix(shape), parts.iter().map(part))
    }

    /// A parameter of tensors below each other: each a name, a number of rows, and its columns. A
    /// tensor without a name leaves its rows to zeros.
    pub(crate) fn push(
        &mut self,
        kind: Kind,
        parts: impl IntoIterator<Item = (String, usize, Range<usize>)>,
    ) -> Id {
        let mut first = 0;
        let mut tensors = Vec::new();
        for (name, len, columns) in parts {
            if !name.is_empty() {
                tensors.push(NamedTensor { name, first, len, columns });
            }
            first += len;
        }
        self.parameters.push(Parameter { kind, tensors, heads: None });
        Id(self.parameters.len() - 1)
    }
}

impl ParameterList {
    /// Gives a parameter another order of rows.
    pub(crate) fn order_heads(&mut self, id: Id, heads: Option<HeadRows>) {
        self.parameters[id.0].heads = heads;
    }
}

impl Deref for ParameterList {
    type Target = [Parameter];
    fn deref(&self) -> &[Parameter] {
        &self.parameters
    }
}

/// A linear layer of a block, or of one of its experts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Projection {
    /// Its number among the model's, in the order of the forward pass.
    pub number: usize,
    pub shape: Linear,
    pub weight: Id,
    pub bias: Option<Id>,
}

impl Projection {
    /// Appends the parameters of a layer of these modules, each a name and its number of outputs.
    fn new(
        number: usize,
        list: &mut ParameterList,
        shape: Linear,
        modules: &[(String, usize)],
        biased: bool,
    ) -> Self {
        let tensors = |what: &str| -> Vec<_> {
            modules.iter().map(|(module, rows)| (format!("{module}.{what}"), *rows)).collect()
        };
        let weight = list.matrix(shape, &tensors("weight"));
        Self { number, shape, weight, bias: biased.then(|| list.vector(&tensors("bias"))) }
    }
}

/// The parameters of one decoder block.
#[derive(Clone, Debug)]
pub(crate) struct BlockLayout {
    pub attention_norms: Norms,
    /// The first product: queries, keys and values, or what the delta rule reads.
    pub qkv: Projection,
    pub mixer: Mixer,
    /// Its number among the blocks with the same kind of mixer: the layer of the cache, or the
    /// buffer of states.
    pub cache_layer: usize,
    pub output: Projection,
    pub mlp_norms: Norms,
    pub mlp: Mlp,
}

/// The operation that mixes tokens in the first branch of a block.
#[derive(Clone, Debug)]
pub(crate) enum Mixer {
    Attention(AttentionLayout),
    Delta(DeltaLayout),
}

/// Attention, and the parameters of its norms.
#[derive(Clone, Debug)]
pub(crate) struct AttentionLayout {
    pub shape: Attention,
    pub qk_norm: Option<QkNorms>,
    pub rotation: Rotation,
    /// Whether the product has gates of the output behind queries, keys and values.
    pub is_gated: bool,
}

/// The gated delta rule, and its parameters besides the two products.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeltaLayout {
    pub rule: DeltaRule,
    pub weights: DeltaWeights<Id>,
}

/// The second branch of a block.
#[derive(Clone, Debug)]
pub(crate) enum Mlp {
    Dense { gate_up: Projection, down: Projection },
    Experts(Mixture),
}

/// A mixture of experts.
#[derive(Clone, Debug)]
pub(crate) struct Mixture {
    /// The number of its block.
    pub block: usize,
    pub routed: ExpertsLayout,
    /// An expert that all tokens go to, with the sigmoid of a logit as its weight. A softmax of the
    /// logit and 0 is that sigmoid: so the expert is one of two, of which the other gives nothing.
    pub shared: Option<ExpertsLayout>,
}

/// The parameters of some experts and of their router.
#[derive(Clone, Debug)]
pub(crate) struct ExpertsLayout {
    pub router: Router,
    /// The router's matrix, from hidden features to experts.
    pub gate: Id,
    pub gate_shape: Linear,
    /// The experts that have parameters.
    pub experts: Vec<Expert>,
}

/// The linear layers of one expert.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expert {
    pub gate_up: Projection,
    pub down: Projection,
}

impl DeltaLayout {
    /// Appends the parameters. `name` makes a tensor's name of its part.
    fn new(list: &mut ParameterList, rule: DeltaRule, name: impl Fn(&str) -> String) -> Self {
        let name = |part: &str| name(&format!("linear_attn.{part}"));
        let channels = rule.channels();
        let weights = DeltaWeights {
            conv: list.matrix(rule.convolution(), &[(name("conv1d.weight"), channels)]),
            a_log: list.vector(&[(name("A_log"), rule.value_heads)]),
            dt_bias: list.vector(&[(name("dt_bias"), rule.value_heads)]),
            norm: list.vector(&[(name("norm.weight"), rule.value_dim)]),
        };
        Self { rule, weights }
    }
}

impl Expert {
    /// Appends the parameters of an expert with `size` inner features. `numbers` gives its layers
    /// theirs.
    fn new(
        list: &mut ParameterList,
        hidden: usize,
        size: usize,
        numbers: &mut RangeFrom<usize>,
        name: &str,
    ) -> Self {
        let mut layer = |shape, parts: &[(&str, usize)]| {
            let modules: Vec<_> =
                parts.iter().map(|(part, rows)| (format!("{name}.{part}_proj"), *rows)).collect();
            let number = numbers.next().expect("numbers without an end");
            Projection::new(number, list, shape, &modules, false)
        };
        let first = Linear { inputs: hidden, outputs: 2 * size };
        let gate_up = layer(first, &[("gate", size), ("up", size)]);
        let down = layer(Linear { inputs: size, outputs: hidden }, &[("down", hidden)]);
        Self { gate_up, down }
    }
}

impl ExpertsLayout {
    /// Appends the parameters of a block's experts. `name` makes a tensor's name of its part;
    /// `numbers` gives the experts' layers theirs.
    fn routed(
        list: &mut ParameterList,
        router: Router,
        shapes: &Shapes,
        numbers: &mut RangeFrom<usize>,
        name: impl Fn(&str) -> String,
    ) -> Self {
        let gate_shape = Linear { inputs: shapes.hidden, outputs: router.experts };
        let gate = list.matrix(gate_shape, &[(name("mlp.gate.weight"), router.experts)]);
        let experts = (0..router.experts).map(|number| {
            let name = name(&format!("mlp.experts.{number}"));
            Expert::new(list, shapes.hidden, shapes.intermediate, numbers, &name)
        });
        let experts = experts.collect();
        Self { router, gate, gate_shape, experts }
    }

    /// Appends the parameters of an expert of `size` inner features that all tokens go to. The
    /// logit of the other is 0, since its row of the router has no tensor.
    fn shared(
        list: &mut ParameterList,
        size: usize,
        shapes: &Shapes,
        numbers: &mut RangeFrom<usize>,
        name: impl Fn(&str) -> String,
    ) -> Self {
        let router = Router { experts: 2, chosen: 2, normalised: false };
        let gate_shape = Linear { inputs: shapes.hidden, outputs: router.experts };
        let own = (name("mlp.shared_expert_gate.weight"), 1, 0..shapes.hidden);
        let gate = list.push(Kind::Matrix(gate_shape), [own, (String::new(), 1, 0..0)]);
        let name = name("mlp.shared_expert");
        let experts = vec![Expert::new(list, shapes.hidden, size, numbers, &name)];
        Self { router, gate, gate_shape, experts }
    }

    /// The first expert. All have its shapes.
    pub fn expert(&self) -> Expert {
        self.experts[0]
    }
}

impl Mixture {
    /// The chosen experts, then the shared one.
    pub fn each(&self) -> impl Iterator<Item = &ExpertsLayout> {
        [&self.routed].into_iter().chain(&self.shared)
    }
}

impl BlockLayout {
    /// Its linear layers, by their numbers. A router is none.
    pub fn projections(&self) -> impl Iterator<Item = &Projection> {
        let (mlp, mixture) = match &self.mlp {
            Mlp::Dense { gate_up, down } => (Some([gate_up, down]), None),
            Mlp::Experts(of) => (None, Some(of)),
        };
        let experts = mixture.into_iter().flat_map(Mixture::each).flat_map(|of| &of.experts);
        let of_experts = experts.flat_map(|expert| [&expert.gate_up, &expert.down]);
        [&self.qkv, &self.output].into_iter().chain(mlp.into_iter().flatten()).chain(of_experts)
    }
}

/// The norms of one branch of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Norms {
    /// The norm before the branch.
    pub input: Option<Id>,
    /// The norm behind it.
    pub output: Option<Id>,
}

/// The norms of queries and keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QkNorms {
    pub queries: Id,
    pub keys: Id,
    pub span: QkNorm,
}

impl QkNorms {
    /// The parts of a row of `attention` that are normed, each with its weights.
    pub fn groups(&self, attention: Attention) -> [(Grouped, Id); 2] {
        let parts = [(attention.query_heads(), self.queries), (attention.key_heads(), self.keys)];
        parts.map(|(heads, id)| match self.span {
            QkNorm::Heads => (heads, id),
            QkNorm::Whole => {
                (Grouped { groups: 1, features: heads.groups * heads.features, ..heads }, id)
            }
        })
    }
}

/// The rotation of queries and keys by their positions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rotation {
    /// By the model's rotary embedding.
    Full,
    /// By that of the layers with a window.
    Windowed,
    /// None.
    Still,
}

/// All parameters of a model, and the shapes of its products.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The model's own parameters. An adapter has its own list.
    pub parameters: ParameterList,
    /// The parameters of an adapter; the model's are frozen then.
    pub adapter: Option<AdapterLayout>,
    pub(crate) embedding: Id,
    pub(crate) blocks: Vec<BlockLayout>,
    pub(crate) norm: Id,
    /// The output head; the embedding itself when the two are tied.
    pub(crate) head: Id,
    pub(crate) shapes: Shapes,
}

/// Shapes that all blocks share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shapes {
    pub hidden: usize,
    pub intermediate: usize,
    /// The map from hidden states to logits: the head, or the transposed embedding if the head is
    /// tied.
    pub vocabulary: Linear,
    /// The products of a block with attention.
    pub qkv: Linear,
    pub output: Linear,
    /// The first product of the MLP, or of each expert.
    pub gate_up: Linear,
    pub down: Linear,
    pub router: Option<Router>,
}

impl Layout {
    /// The parameters that training changes.
    pub fn trained(&self) -> &ParameterList {
        self.adapter.as_ref().map_or(&self.parameters, |adapter| &adapter.parameters)
    }

    /// The linear layers of all blocks that adapters can stand beside, by their numbers.
    pub(crate) fn projections(&self) -> impl Iterator<Item = &Projection> {
        self.blocks.iter().flat_map(BlockLayout::projections)
    }

    /// The linear layers of a block without its adapters, each with whether its outputs are wanted
    /// before they are rounded: a bias or a residual is added to them, or they are a router's.
    pub fn linear_layers(&self) -> Vec<(Linear, bool)> {
        let Shapes { qkv, output, gate_up, down, .. } = self.shapes;
        let has = |of: fn(&BlockLayout) -> Option<Projection>| {
            self.blocks.iter().any(|block| of(block).is_some_and(|layer| layer.bias.is_some()))
        };
        let biased = |block: &BlockLayout| match block.mlp {
            Mlp::Dense { gate_up, .. } => Some(gate_up),
            Mlp::Experts(_) => None,
        };
        let mut all = vec![
            (qkv, has(|block| Some(block.qkv))),
            (output, true),
            (gate_up, has(biased)),
            // Outputs of experts are rounded before they are added to exact sums.
            (down, self.shapes.router.is_none()),
        ];
        if let Some((block, _)) = self.delta_rule() {
            all.extend([(block.qkv.shape, false), (block.output.shape, true)]);
        }
        let router = self.shapes.router;
        all.extend(router.map(|of| (Linear { inputs: output.outputs, outputs: of.experts }, true)));
        if let Some(of) = self.shared_expert() {
            let Expert { gate_up, down } = of.expert();
            all.extend([(of.gate_shape, true), (gate_up.shape, false), (down.shape, false)]);
        }
        all
    }

    /// The linear layers of the adapters, each with whether a residual is added to its outputs; a
    /// layer may be there more than once.
    pub fn adapter_layers(&self) -> impl Iterator<Item = (Linear, bool)> {
        self.adapter.iter().flat_map(AdapterLayout::linear_layers)
    }

    /// The parameters of a model of this configuration.
    pub fn new(config: &ModelConfig) -> Self {
        let (hidden, intermediate, dim) =
            (config.hidden_size, config.intermediate_size, config.head_dim);
        let attention_features = config.heads * dim;
        let kv_features = config.kv_heads * dim;
        let is_gated = config.delta.is_some();
        let query_features = if is_gated { 2 * attention_features } else { attention_features };
        let row = query_features + 2 * kv_features;
        let shapes = Shapes {
            hidden,
            intermediate,
            vocabulary: Linear { inputs: hidden, outputs: config.vocab_size },
            qkv: Linear { inputs: hidden, outputs: row },
            output: Linear { inputs: attention_features, outputs: hidden },
            gate_up: Linear { inputs: hidden, outputs: 2 * intermediate },
            down: Linear { inputs: intermediate, outputs: hidden },
            router: config.experts,
        };
        let mut list = ParameterList::default();
        let embedding =
            list.matrix(shapes.vocabulary, &[("model.embed_tokens.weight", config.vocab_size)]);
        let blocks = (0..config.layers)
            .map(|layer| {
                list.begin_group();
                let name = |part: &str| format!("model.layers.{layer}.{part}");
                let names = &config.family.modules;
                let modules = |whole: Option<&str>, parts: &[(&str, usize)]| -> Vec<_> {
                    let fused =
                        whole.map(|whole| (whole, parts.iter().map(|(_, rows)| rows).sum()));
                    let parts = fused.as_ref().map_or(parts, std::slice::from_ref);
                    parts.iter().map(|(part, rows)| (name(part), *rows)).collect()
                };
                let delta = config.delta.filter(|_| config.is_linear[layer]);
                let qkv = match delta {
                    Some(rule) => modules(
                        None,
                        &[
                            ("linear_attn.in_proj_qkv", rule.channels()),
                            ("linear_attn.in_proj_z", rule.value_features()),
                            ("linear_attn.in_proj_b", rule.value_heads),
                            ("linear_attn.in_proj_a", rule.value_heads),
                        ],
                    ),
                    None => modules(
                        names.qkv,
                        &[
                            ("self_attn.q_proj", query_features),
                            ("self_attn.k_proj", kv_features),
                            ("self_attn.v_proj", kv_features),
                        ],
                    ),
                };
                let gate_up = modules(
                    names.gate_up,
                    &[("mlp.gate_proj", intermediate), ("mlp.up_proj", intermediate)],
                );
                let output = match delta {
                    Some(_) => [(name("linear_attn.out_proj"), hidden)],
                    None => [(name("self_attn.o_proj"), hidden)],
                };
                let (qkv_shape, output_shape) = match delta {
                    Some(rule) => (
                        Linear { inputs: hidden, outputs: rule.row() },
                        Linear { inputs: rule.value_features(), outputs: hidden },
                    ),
                    None => (shapes.qkv, shapes.output),
                };
                let is_attention = delta.is_none();
                let down = [(name(names.down), hidden)];
                let experts = config.experts.map_or(1, |router| router.experts);
                let shared = usize::from(config.shared_expert.is_some());
                let projections = 2 + 2 * (experts + shared);
                let mut numbers = projections * layer..;
                let mut projection = |list: &mut ParameterList, shape, modules: &[_], biased| {
                    let number = numbers.next().expect("numbers without an end");
                    Projection::new(number, list, shape, modules, biased)
                };
                let [before_attention, behind_attention, before_mlp, behind_mlp] =
                    norm_names(config.norms);
                let norm = |list: &mut ParameterList, part: Option<&str>| {
                    part.map(|part| list.vector(&[(name(&format!("{part}.weight")), hidden)]))
                };
                let attention_input = norm(&mut list, before_attention);
                let qkv_bias = config.qkv_bias && is_attention;
                let qkv = projection(&mut list, qkv_shape, &qkv, qkv_bias);
                for id in [Some(qkv.weight), qkv.bias].into_iter().flatten() {
                    list.order_heads(id, config.head_rows().filter(|_| is_attention));
                }
                let qk_norm = config.qk_norm.filter(|_| is_attention).map(|span| {
                    let mut norm = |part: &str, heads: usize| {
                        let groups = if span == QkNorm::Whole { heads } else { 1 };
                        let weights = (name(&format!("self_attn.{part}.weight")), groups * dim);
                        let id = list.vector(&[weights]);
                        list.order_heads(id, config.norm_rows());
                        id
                    };
                    let queries = norm("q_norm", config.heads);
                    QkNorms { queries, keys: norm("k_norm", config.kv_heads), span }
                });
                let mixer = match delta {
                    Some(rule) => Mixer::Delta(DeltaLayout::new(&mut list, rule, name)),
                    None => Mixer::Attention(AttentionLayout {
                        shape: Attention {
                            heads: config.heads,
                            kv_heads: config.kv_heads,
                            head_dim: dim,
                            window: config.sliding_window[layer],
                            scale: config.scales.scores,
                        },
                        qk_norm,
                        rotation: match config.sliding_window[layer] {
                            _ if !config.rotated[layer] => Rotation::Still,
                            Some(_) if config.window_rope.is_some() => Rotation::Windowed,
                            _ => Rotation::Full,
                        },
                        is_gated,
                    }),
                };
                let output_bias = config.output_bias && is_attention;
                let output = projection(&mut list, output_shape, &output, output_bias);
                let attention_output = norm(&mut list, behind_attention);
                let mlp_input = norm(&mut list, before_mlp);
                let mlp = match config.experts {
                    Some(router) => {
                        let numbers = &mut (projections * layer + 2..);
                        let list = &mut list;
                        let routed = ExpertsLayout::routed(list, router, &shapes, numbers, name);
                        let shared = config
                            .shared_expert
                            .map(|size| ExpertsLayout::shared(list, size, &shapes, numbers, name));
                        Mlp::Experts(Mixture { block: layer, routed, shared })
                    }
                    None => {
                        let bias = config.mlp_bias;
                        let gate_up = projection(&mut list, shapes.gate_up, &gate_up, bias);
                        let down = projection(&mut list, shapes.down, &down, bias);
                        Mlp::Dense { gate_up, down }
                    }
                };
                let mlp_output = norm(&mut list, behind_mlp);
                BlockLayout {
                    attention_norms: Norms { input: attention_input, output: attention_output },
                    qkv,
                    mixer,
                    cache_layer: config.is_linear[..layer]
                        .iter()
                        .filter(|is_linear| **is_linear != is_attention)
                        .count(),
                    output,
                    mlp_norms: Norms { input: mlp_input, output: mlp_output },
                    mlp,
                }
            })
            .collect();
        list.begin_group();
        let norm = list.vector(&[("model.norm.weight", hidden)]);
        let head = if config.tie_word_embeddings {
            embedding
        } else {
            list.matrix(shapes.vocabulary, &[("lm_head.weight", config.vocab_size)])
        };
        Self { parameters: list, adapter: None, embedding, blocks, norm, head, shapes }
    }

    /// The shape of every attention, except its window.
    pub(crate) fn attention(&self) -> Attention {
        let shape = |block: &BlockLayout| match &block.mixer {
            Mixer::Attention(of) => Some(of.shape),
            Mixer::Delta(_) => None,
        };
        self.blocks.iter().find_map(shape).expect("a configuration has a layer with attention")
    }

    /// Blocks with attention.
    pub(crate) fn attention_layers(&self) -> usize {
        self.blocks.iter().filter(|block| matches!(block.mixer, Mixer::Attention(_))).count()
    }

    /// Blocks with a recurrent state.
    pub(crate) fn state_layers(&self) -> usize {
        self.blocks.len() - self.attention_layers()
    }

    /// The shared expert of the first block, if there is one. All have one shape.
    pub(crate) fn shared_expert(&self) -> Option<&ExpertsLayout> {
        match &self.blocks.first()?.mlp {
            Mlp::Dense { .. } => None,
            Mlp::Experts(of) => of.shared.as_ref(),
        }
    }

    /// The first block with a delta rule, all of which have one shape.
    pub(crate) fn delta_rule(&self) -> Option<(&BlockLayout, DeltaRule)> {
        self.blocks.iter().find_map(|block| match &block.mixer {
            Mixer::Delta(of) => Some((block, of.rule)),
            Mixer::Attention(_) => None,
        })
    }
}

/// The names of a block's norms: before and behind attention, before and behind the MLP.
fn norm_names(norms: BranchNorms) -> [Option<&'static str>; 4] {
    match norms {
        BranchNorms::Before => {
            [Some("input_layernorm"), None, Some("post_attention_layernorm"), None]
        }
        BranchNorms::Behind => {
            [None, Some("post_attention_layernorm"), None, Some("post_feedforward_layernorm")]
        }
        BranchNorms::Around => [
            Some("input_layernorm"),
            Some("post_attention_layernorm"),
            Some("pre_feedforward_layernorm"),
            Some("post_feedforward_layernorm"),
        ],
    }
}

/// A mixture of experts for tests of estimates: 32 hidden features, 2 experts for each token.
#[cfg(test)]
pub(crate) fn mixture(layers: usize, experts: usize, size: usize) -> Layout {
    mixture_with(serde_json::json!({
        "model_type": "qwen3_moe", "moe_intermediate_size": size, "num_experts": experts,
        "num_hidden_layers": layers
    }))
}

/// A mixture of two layers with these keys.
#[cfg(test)]
pub(crate) fn mixture_with(keys: serde_json::Value) -> Layout {
    let dir = tempfile::tempdir().unwrap();
    let mut config = serde_json::json!({
        "hidden_size": 32, "moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
        "head_dim": 16, "vocab_size": 64
    });
    config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    Layout::new(&ModelConfig::read(dir.path()).unwrap())
}
