//! config.json, resolved. Defaults come from the family's configuration class in transformers (4 or
//! 5), numbers are bounded, and keys that would change the mathematics are refused by name.

pub(crate) mod experts;
mod family;
pub(crate) mod fields;
mod layer_windows;
mod linear_attention;
mod rope_parameters;
mod rotated_layers;
mod scales;
pub(crate) mod stored_form;
pub(crate) mod unsupported;

use std::path::Path;

use serde_json::{Map, Value};

use crate::adapter::AdapterConfig;
use crate::head_rows::HeadRows;
use crate::rope::{Rope, RopeScaling};
use crate::{Error, Result, json_file};
use family::AttentionBias;
use fields::Fields;
use isentrope_kernels::{DeltaRule, Gate, RmsNorm, Router};
use stored_form::StoredForm;

pub use family::{BranchNorms, Family, QkNorm};
pub use scales::Scales;

/// Largest dimension: far above every published model, and so small that the product of two, times
/// the layers, fits 64 bits.
const MAX_DIMENSION: usize = 1 << 24;
/// Largest number of positions. Up to here they are exact in f32.
const MAX_POSITIONS: usize = 1 << 24;
const MAX_LAYERS: usize = 1 << 12;

/// Shape and variants of one decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Family, from `model_type`.
    pub family: &'static Family,
    /// Rows of the embedding and of the output head.
    pub vocab_size: usize,
    /// Features of the residual stream.
    pub hidden_size: usize,
    /// Features between the two halves of the MLP, or of each expert.
    pub intermediate_size: usize,
    /// The choice among experts; none if blocks have a single MLP.
    pub experts: Option<Router>,
    /// Inner features of an expert that all tokens go to beside the chosen ones, if there is one.
    pub shared_expert: Option<usize>,
    /// Decoder blocks.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Features of one head; even.
    pub head_dim: usize,
    /// Added to the mean square in every RMS norm.
    pub rms_norm_eps: f32,
    /// Context in tokens.
    pub max_position_embeddings: usize,
    /// Whether the output head is the embedding.
    pub tie_word_embeddings: bool,
    /// Whether the query, key and value projections have biases.
    pub qkv_bias: bool,
    /// Whether the projection of attention's output has a bias.
    pub output_bias: bool,
    /// Whether the three projections of the MLP have biases.
    pub mlp_bias: bool,
    /// Norms of a block's branches.
    pub norms: BranchNorms,
    /// Added to the weights of every norm.
    pub norm_shift: f32,
    /// The function of the MLP's gate.
    pub gate: Gate,
    /// Factors of scores, embeddings, branches and logits.
    pub scales: Scales,
    /// The RMS norm of queries and keys before rotation, if there is one.
    pub qk_norm: Option<QkNorm>,
    /// Attention window of each layer, `[layers]`, in tokens: with `Some(w)` a token sees itself
    /// and the `w - 1` before it.
    pub sliding_window: Vec<Option<usize>>,
    /// Layers that rotate queries and keys by their positions, `[layers]`; in the others positions
    /// show in the causal mask alone.
    pub rotated: Vec<bool>,
    /// Linear attention in the place of attention, for the layers that have it. Gates follow the
    /// attention of the others. None unless the family is hybrid.
    pub delta: Option<DeltaRule>,
    /// Layers with linear attention, `[layers]`.
    pub is_linear: Vec<bool>,
    /// Rotary embedding of the layers that rotate.
    pub rope: Rope,
    /// Rotary embedding of the layers with a window, if it is another one.
    pub window_rope: Option<Rope>,
    /// The model's own config.json in its own order, with unused keys: without what else a
    /// multimodal model has, and without quantisation.
    pub json: Map<String, Value>,
    /// Sentences for the user about the differences between the files that it was read from and a
    /// checkpoint that is written from this model, and about a context that is cut short.
    pub remarks: Vec<String>,
}

impl ModelConfig {
    /// Reads `dir/config.json`.
    ///
    /// # Errors
    /// [`Error::File`] when there is no such file,
    /// [`Error::Invalid`] when it is malformed or contradicts itself, and
    /// [`Error::Unsupported`] when it asks for other mathematics than
    /// this decoder's; each names the key.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        if !path.exists() && AdapterConfig::is_in(dir) {
            let what = "is an adapter, and no whole model: name its base, and give it as the \
                        adapter (--adapter, lora.adapter), or `isentrope merge` both";
            return Err(Error::invalid(dir, what));
        }
        if dir.is_dir() && !path.exists() {
            let what = "has no config.json; the directory of a model holds that, its weights \
                        (*.safetensors) and tokenizer.json, as save_pretrained of transformers \
                        writes them";
            return Err(Error::invalid(dir, what));
        }
        let json = json_file::read_object(&path)?;
        let form = StoredForm::read(Fields { path: &path, object: &json, prefix: "" })?;
        let (json, prefix) = (form.own_config(json), form.prefix());
        let config = Fields { path: &path, object: &json, prefix: &prefix };
        let family = read_family(config)?;
        unsupported::refuse(config, family)?;

        let defaults = &family.defaults;
        let dimension = |key: &str, default: usize| -> Result<usize> {
            Ok(config.integer(key, 1..=MAX_DIMENSION)?.unwrap_or(default))
        };
        let hidden_size = dimension("hidden_size", defaults.hidden_size)?;
        let heads = dimension("num_attention_heads", defaults.heads)?;
        let kv_heads = match config.integer("num_key_value_heads", 1..=MAX_DIMENSION)? {
            Some(kv_heads) => kv_heads,
            None if json.contains_key("num_key_value_heads") => heads,
            None => defaults.kv_heads.unwrap_or(heads),
        };
        if !heads.is_multiple_of(kv_heads) {
            let what = format!("is {kv_heads}, which does not divide num_attention_heads {heads}");
            return Err(config.invalid("num_key_value_heads", what));
        }
        let head_dim = read_head_dim(config, hidden_size, heads, defaults.head_dim)?;
        if heads.checked_mul(head_dim).is_none_or(|features| features > MAX_DIMENSION) {
            let what =
                format!("{head_dim} times num_attention_heads {heads} is above {MAX_DIMENSION}");
            return Err(config.invalid("head_dim", what));
        }
        let layers =
            config.integer("num_hidden_layers", 1..=MAX_LAYERS)?.unwrap_or(defaults.layers);
        let rotated = rotated_layers::read(config, family, layers)?;
        let max_position_embeddings = config
            .integer("max_position_embeddings", 1..=MAX_POSITIONS)?
            .unwrap_or(defaults.max_position_embeddings);
        let (rope, window_rope) =
            rope_parameters::read(config, family, head_dim, max_position_embeddings)?;
        let rms_norm_eps =
            config.number("rms_norm_eps", 1e-30..=1.0)?.unwrap_or(defaults.rms_norm_eps) as f32;
        let (delta, is_linear) = linear_attention::read(config, family, layers, rms_norm_eps)?;
        let attention_bias = config.boolean("attention_bias")?.unwrap_or(false);
        let (qkv_bias, output_bias) = match family.attention_bias {
            AttentionBias::AsConfigured => (attention_bias, attention_bias),
            AttentionBias::QkvAlways => (true, false),
            AttentionBias::Never => (false, false),
        };

        let intermediate_size = dimension(family.intermediate_size, defaults.intermediate_size)?;

        let mut remarks = form.remarks(family);
        if let Some(limit) = rope.limit.filter(|limit| *limit < max_position_embeddings) {
            remarks.push(format!(
                "the context ends at {limit} tokens, original_max_position_embeddings of its \
                 config.json, and not at {max_position_embeddings}: {} treats positions of longer \
                 texts otherwise, which is not supported",
                family.name
            ));
        }

        Ok(Self {
            family,
            vocab_size: dimension("vocab_size", defaults.vocab_size)?,
            hidden_size,
            intermediate_size,
            experts: experts::read(config, family, intermediate_size, layers)?,
            shared_expert: experts::read_shared(config, family)?,
            layers,
            heads,
            kv_heads,
            head_dim,
            rms_norm_eps,
            max_position_embeddings,
            tie_word_embeddings: config
                .boolean("tie_word_embeddings")?
                .unwrap_or(defaults.tie_word_embeddings),
            qkv_bias,
            output_bias,
            mlp_bias: config.boolean("mlp_bias")?.unwrap_or(false),
            norms: family.norms,
            norm_shift: family.norm_shift,
            gate: family.gate,
            scales: scales::read(config, &family.scales, hidden_size, head_dim)?,
            qk_norm: family.qk_norm,
            sliding_window: layer_windows::read(config, family, &rotated)?,
            rotated,
            delta,
            is_linear,
            rope,
            window_rope,
            json,
            remarks,
        })
    }

    /// Every RMS norm, without its weights.
    pub fn rms_norm(&self) -> RmsNorm {
        RmsNorm { eps: self.rms_norm_eps, shift: self.norm_shift }
    }

    /// Usable context in tokens: the position embeddings, stretched as the rotary embedding says,
    /// if their number does not include that yet.
    pub fn context(&self) -> usize {
        let stretched = |positions: usize, factor: f64| (positions as f64 * factor) as usize;
        let context = match &self.rope.scaling {
            RopeScaling::Default | RopeScaling::Llama3 { .. } | RopeScaling::LongRope { .. } => {
                self.max_position_embeddings
            }
            // A family with windows of their own angles includes it.
            RopeScaling::Linear { .. } if self.window_rope.is_some() => {
                self.max_position_embeddings
            }
            RopeScaling::Linear { factor } => stretched(self.max_position_embeddings, *factor),
            RopeScaling::Yarn { factor, original_max_position_embeddings, .. } => {
                stretched(*original_max_position_embeddings, *factor)
            }
        };
        let context = context.clamp(self.max_position_embeddings, MAX_POSITIONS);
        self.rope.limit.map_or(context, |limit| context.min(limit))
    }

    /// The order of the rows of queries and keys on a device, if it is another than in files.
    pub(crate) fn head_rows(&self) -> Option<HeadRows> {
        let (dim, is_gated) = (self.head_dim, self.delta.is_some());
        let turned = if self.rope.still_pairs > 0 { 2 * self.rope.inv_freq.len() } else { dim };
        let (heads, kv_heads) = (self.heads, self.kv_heads);
        (is_gated || turned < dim).then_some(HeadRows { heads, kv_heads, dim, turned, is_gated })
    }

    /// The order of the weights of the norm of queries or keys, if each head is normed alone.
    pub(crate) fn norm_rows(&self) -> Option<HeadRows> {
        let of_rows = self.head_rows().filter(|_| self.qk_norm == Some(QkNorm::Heads));
        of_rows.map(|rows| HeadRows { heads: 1, kv_heads: 0, is_gated: false, ..rows })
    }
}

fn read_family(config: Fields) -> Result<&'static Family> {
    let Some(model_type) = config.text("model_type")? else {
        return Err(config.invalid("model_type", "is missing"));
    };
    let Some(family) = Family::find(model_type) else {
        let what = format!("{model_type:?} is not supported ({} are)", Family::list());
        return Err(config.unsupported("model_type", what));
    };
    let architectures = config.texts("architectures")?.unwrap_or_default();
    match architectures.iter().find(|name| **name != family.architecture) {
        None => Ok(family),
        Some(other) => {
            let what =
                format!("has {other:?}; of {model_type} only {} is supported", family.architecture);
            Err(config.unsupported("architectures", what))
        }
    }
}

fn read_head_dim(
    config: Fields,
    hidden_size: usize,
    heads: usize,
    default: Option<usize>,
) -> Result<usize> {
    if let Some(head_dim) = config.integer("head_dim", 1..=MAX_DIMENSION)? {
        return Ok(head_dim);
    }
    match default.filter(|_| !config.object.contains_key("head_dim")) {
        Some(head_dim) => Ok(head_dim),
        None if hidden_size.is_multiple_of(heads) => Ok(hidden_size / heads),
        None => {
            let what = format!("is {hidden_size}, not a multiple of num_attention_heads {heads}");
            Err(config.invalid("hidden_size", what))
        }
    }
}
