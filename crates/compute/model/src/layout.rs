//! The place of every tensor of a checkpoint in the engine's parameters.
//!
//! Projections that read the same input are one matrix here (queries, keys and values; gate and
//! up), so that they are one product. A [`Layout`] gives each named tensor its rows of a parameter;
//! weights, gradients and optimizer moments all follow it.

use crate::config::ModelConfig;
use isentrope_kernels::{Attention, Kind, Linear};

/// Number of a parameter in [`Layout::parameters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(pub(crate) usize);

/// One parameter of the engine.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its shape.
    pub kind: Kind,
    /// The checkpoint's tensors that make up the parameter, in the order of its rows.
    pub tensors: Vec<NamedTensor>,
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
}

impl Parameter {
    /// The shape of one of the parameter's tensors.
    pub fn shape(&self, tensor: &NamedTensor) -> Vec<usize> {
        match self.kind {
            Kind::Vector(_) => vec![tensor.len],
            Kind::Matrix(shape) => vec![tensor.len, shape.inputs],
        }
    }
}

/// The parameters of one decoder block.
#[derive(Clone, Debug)]
pub(crate) struct BlockLayout {
    pub input_norm: Id,
    pub qkv: Id,
    pub qkv_bias: Option<Id>,
    pub qk_norm: Option<(Id, Id)>,
    pub output: Id,
    pub output_bias: Option<Id>,
    pub mlp_norm: Id,
    pub gate_up: Id,
    pub gate_up_bias: Option<Id>,
    pub down: Id,
    pub down_bias: Option<Id>,
    pub attention: Attention,
    /// Whether queries and keys are rotated by their positions.
    pub rotated: bool,
}

/// All parameters of a model, and the shapes of its products.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The parameters in the order of the forward pass.
    pub parameters: Vec<Parameter>,
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
    pub qkv: Linear,
    pub output: Linear,
    pub gate_up: Linear,
    pub down: Linear,
}

impl Layout {
    /// The linear layers of a block, each with whether a bias or a residual is added to its
    /// outputs.
    pub fn linear_layers(&self) -> Vec<(Linear, bool)> {
        let Shapes { qkv, output, gate_up, down, .. } = self.shapes;
        let has = |bias: fn(&BlockLayout) -> Option<Id>| {
            self.blocks.iter().any(|block| bias(block).is_some())
        };
        vec![
            (qkv, has(|block| block.qkv_bias)),
            (output, true),
            (gate_up, has(|block| block.gate_up_bias)),
            (down, true),
        ]
    }

    /// The parameters of a model of this configuration.
    pub fn new(config: &ModelConfig) -> Self {
        let (hidden, intermediate, dim) =
            (config.hidden_size, config.intermediate_size, config.head_dim);
        let attention_features = config.heads * dim;
        let kv_features = config.kv_heads * dim;
        let row = attention_features + 2 * kv_features;
        let shapes = Shapes {
            hidden,
            intermediate,
            vocabulary: Linear { inputs: hidden, outputs: config.vocab_size },
            qkv: Linear { inputs: hidden, outputs: row },
            output: Linear { inputs: attention_features, outputs: hidden },
            gate_up: Linear { inputs: hidden, outputs: 2 * intermediate },
            down: Linear { inputs: intermediate, outputs: hidden },
        };
        let mut list = List::default();
        let embedding =
            list.matrix(shapes.vocabulary, &[("model.embed_tokens.weight", config.vocab_size)]);
        let blocks = (0..config.layers)
            .map(|layer| {
                let name = |part: &str| format!("model.layers.{layer}.{part}");
                let parts = |whole: &str, parts: &[(&str, usize)], what: &str| -> Vec<_> {
                    let fused = [(whole, parts.iter().map(|(_, rows)| rows).sum())];
                    let parts = if config.family.fused { &fused[..] } else { parts };
                    parts
                        .iter()
                        .map(|(part, rows)| (name(&format!("{part}.{what}")), *rows))
                        .collect()
                };
                let qkv_parts = |what: &str| {
                    let (q, k, v) = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj");
                    let split = [(q, attention_features), (k, kv_features), (v, kv_features)];
                    parts("self_attn.qkv_proj", &split, what)
                };
                let mlp_parts = |what: &str| {
                    let split = ["mlp.gate_proj", "mlp.up_proj"].map(|part| (part, intermediate));
                    parts("mlp.gate_up_proj", &split, what)
                };
                BlockLayout {
                    input_norm: list.vector(&[(name("input_layernorm.weight"), hidden)]),
                    qkv: list.matrix(shapes.qkv, &qkv_parts("weight")),
                    qkv_bias: config.qkv_bias.then(|| list.vector(&qkv_parts("bias"))),
                    qk_norm: config.qk_norm.then(|| {
                        let mut norm = |part: &str| {
                            list.vector(&[(name(&format!("self_attn.{part}.weight")), dim)])
                        };
                        (norm("q_norm"), norm("k_norm"))
                    }),
                    output: list
                        .matrix(shapes.output, &[(name("self_attn.o_proj.weight"), hidden)]),
                    output_bias: config
                        .output_bias
                        .then(|| list.vector(&[(name("self_attn.o_proj.bias"), hidden)])),
                    mlp_norm: list.vector(&[(name("post_attention_layernorm.weight"), hidden)]),
                    gate_up: list.matrix(shapes.gate_up, &mlp_parts("weight")),
                    gate_up_bias: config.mlp_bias.then(|| list.vector(&mlp_parts("bias"))),
                    down: list.matrix(shapes.down, &[(name("mlp.down_proj.weight"), hidden)]),
                    down_bias: config
                        .mlp_bias
                        .then(|| list.vector(&[(name("mlp.down_proj.bias"), hidden)])),
                    attention: Attention {
                        heads: config.heads,
                        kv_heads: config.kv_heads,
                        head_dim: dim,
                        window: config.sliding_window[layer],
                        scale: (1.0 / (dim as f64).sqrt()) as f32,
                    },
                    rotated: config.rotated[layer],
                }
            })
            .collect();
        let norm = list.vector(&[("model.norm.weight", hidden)]);
        let head = if config.tie_word_embeddings {
            embedding
        } else {
            list.matrix(shapes.vocabulary, &[("lm_head.weight", config.vocab_size)])
        };
        Self { parameters: list.0, embedding, blocks, norm, head, shapes }
    }

    /// The shape of every block's attention, except its window.
    pub(crate) fn attention(&self) -> Attention {
        self.blocks[0].attention // a configuration has at least one layer
    }

    /// Every tensor of the checkpoint with the parameter that holds it.
    pub fn tensors(&self) -> impl Iterator<Item = (Id, &Parameter, &NamedTensor)> {
        self.parameters
            .iter()
            .enumerate()
            .flat_map(|(i, p)| p.tensors.iter().map(move |t| (Id(i), p, t)))
    }
}

#[derive(Default)]
struct List(Vec<Parameter>);

impl List {
    fn vector<N: AsRef<str>>(&mut self, parts: &[(N, usize)]) -> Id {
        self.push(Kind::Vector(parts.iter().map(|&(_, len)| len).sum()), parts)
    }

    fn matrix<N: AsRef<str>>(&mut self, shape: Linear, parts: &[(N, usize)]) -> Id {
        self.push(Kind::Matrix(shape), parts)
    }

    fn push<N: AsRef<str>>(&mut self, kind: Kind, parts: &[(N, usize)]) -> Id {
        let mut first = 0;
        let tensors = parts
            .iter()
            .map(|(name, len)| {
                let tensor = NamedTensor { name: name.as_ref().to_owned(), first, len: *len };
                first += len;
                tensor
            })
            .collect();
        self.0.push(Parameter { kind, tensors });
        Id(self.0.len() - 1)
    }
}
