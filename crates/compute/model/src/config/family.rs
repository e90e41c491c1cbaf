//! The supported families, each in a file of its own below `family/`: the facts that config.json
//! does not state. Biases, head norms and windows of a checkpoint are values of
//! [`ModelConfig`](super::ModelConfig); no other code asks for the family.

mod gemma3_text;
mod granite;
mod granitemoehybrid;
mod llama;
mod ministral3;
mod mistral;
mod olmo2;
mod olmo3;
mod olmoe;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3_5_moe_text;
mod qwen3_5_text;
mod qwen3_moe;
mod smollm3;

use super::experts::FamilyExperts;
use super::scales::FamilyScales;
use isentrope_kernels::Gate;

/// All supported families.
static FAMILIES: [&Family; 16] = [
    &qwen2::FAMILY,
    &qwen3::FAMILY,
    &llama::FAMILY,
    &mistral::FAMILY,
    &smollm3::FAMILY,
    &phi3::FAMILY,
    &olmo2::FAMILY,
    &olmo3::FAMILY,
    &gemma3_text::FAMILY,
    &granite::FAMILY,
    &granitemoehybrid::FAMILY,
    &ministral3::FAMILY,
    &qwen3_moe::FAMILY,
    &qwen3_5_text::FAMILY,
    &qwen3_5_moe_text::FAMILY,
    &olmoe::FAMILY,
];

/// A family of models that share the one decoder block, with its conventions.
#[derive(Debug, PartialEq)]
pub struct Family {
    /// Name for people.
    pub name: &'static str,
    /// `model_type` in config.json.
    pub model_type: &'static str,
    /// Class of a language model of this family, in `architectures` of config.json.
    pub architecture: &'static str,
    /// Values of keys that config.json leaves out.
    pub(super) defaults: Defaults,
    /// Projections that `attention_bias` adds biases to.
    pub(super) attention_bias: AttentionBias,
    /// Norms of a block's branches.
    pub(super) norms: BranchNorms,
    /// Added to the weights of every norm.
    pub(super) norm_shift: f32,
    /// The norm of queries and keys.
    pub(super) qk_norm: Option<QkNorm>,
    /// The function of the MLP's gate.
    pub(super) gate: Gate,
    /// Factors of embeddings, scores, branches and logits.
    pub(super) scales: FamilyScales,
    /// Layers that attend through a sliding window.
    pub(super) windows: Windows,
    /// The rotary embedding of layers with a window, if it is another one than that of the others.
    pub(super) window_rope: Option<WindowRope>,
    /// Layers that rotate queries and keys by their positions.
    pub(super) rotated: Rotated,
    /// Experts in the place of the MLP.
    pub(super) experts: Option<FamilyExperts>,
    /// The key of the inner features of an MLP, or of an expert, in config.json.
    pub(super) intermediate_size: &'static str,
    /// Whether the rotary embedding has no default, so that config.json must describe it.
    pub(super) needs_rope_parameters: bool,
    /// The default of `partial_rotary_factor`, the share of a head's features that turn; none if
    /// only whole heads do.
    pub(super) turned_share: Option<f64>,
    /// Whether layers are linear attention but every fourth, and gates follow the others.
    pub(super) is_hybrid: bool,
    /// Names of a block's modules.
    pub modules: Modules,
}

/// Names of those modules of a block that differ between families.
#[derive(Debug, PartialEq)]
pub struct Modules {
    /// Queries, keys and values, if they are one module.
    pub qkv: Option<&'static str>,
    /// Gate and up, if they are one module.
    pub gate_up: Option<&'static str>,
    /// The second half of the MLP.
    pub down: &'static str,
}

/// Defaults of the family's configuration class in transformers.
#[derive(Debug, PartialEq)]
pub(super) struct Defaults {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub layers: usize,
    pub heads: usize,
    /// None: as many as there are heads.
    pub kv_heads: Option<usize>,
    /// None: hidden size over heads.
    pub head_dim: Option<usize>,
    pub rms_norm_eps: f64,
    pub max_position_embeddings: usize,
    pub tie_word_embeddings: bool,
    pub rope_theta: f64,
    pub sliding_window: Option<usize>,
}

/// A family without peculiarities: Llama's block.
const PLAIN: Family = Family {
    name: "",
    model_type: "",
    architecture: "",
    defaults: SHARED,
    attention_bias: AttentionBias::AsConfigured,
    norms: BranchNorms::Before,
    norm_shift: 0.0,
    qk_norm: None,
    gate: Gate::Silu,
    scales: FamilyScales::Plain,
    windows: Windows::Never,
    window_rope: None,
    rotated: Rotated::All,
    experts: None,
    intermediate_size: "intermediate_size",
    needs_rope_parameters: false,
    turned_share: None,
    is_hybrid: false,
    modules: Modules { qkv: None, gate_up: None, down: "mlp.down_proj" },
};

/// Llama's defaults, most of which the other families share.
const SHARED: Defaults = Defaults {
    vocab_size: 32_000,
    hidden_size: 4096,
    intermediate_size: 11_008,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: None,
    rms_norm_eps: 1e-6,
    max_position_embeddings: 2048,
    tie_word_embeddings: false,
    rope_theta: 10_000.0,
    sliding_window: None,
};

/// Biases of attention's projections.
#[derive(Debug, PartialEq)]
pub(super) enum AttentionBias {
    /// On all four, if `attention_bias` is true.
    AsConfigured,
    /// On query, key and value, whatever `attention_bias` says; never on the output.
    QkvAlways,
    /// On none, whatever `attention_bias` says.
    Never,
}

/// Layers that attend through the window of `sliding_window`.
#[derive(Debug, PartialEq)]
pub(super) enum Windows {
    /// No layer.
    Never,
    /// No layer, and `layer_types` must say of each that it has attention.
    NeverAsListed,
    /// All layers.
    Always,
    /// Layers from `max_window_layers` on, if `use_sliding_window` is true.
    IfUsed,
    /// All layers, if `use_sliding_window` is true.
    AllIfUsed,
    /// Layers that do not rotate, if `use_sliding_window` is true.
    NotRotatedIfUsed,
    /// All layers but every `interval`-th. `key` is the interval's in config.json, if it has one.
    AllButEvery { key: Option<&'static str>, interval: usize },
}

/// The rotary embedding of layers with a window, which no scaling stretches unless
/// `rope_parameters` has one for them.
#[derive(Debug, PartialEq)]
pub(super) struct WindowRope {
    /// The key of its base in config.json of transformers 4.
    pub key: &'static str,
    /// The base if there is none.
    pub theta: f64,
}

/// Norms of a block's two branches, attention and MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchNorms {
    /// `x += branch(norm(x))`.
    Before,
    /// `x += norm(branch(x))`.
    Behind,
    /// `x += norm(branch(norm(x)))`.
    Around,
}

/// The RMS norm of queries and keys before rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// Each head on its own; weights are `[head_dim]`.
    Heads,
    /// All query heads together, and all key heads; weights are `[heads * head_dim]`.
    Whole,
}

/// Layers that rotate queries and keys by their positions.
#[derive(Debug, PartialEq)]
pub(super) enum Rotated {
    /// All layers.
    All,
    /// Layers with a 1 in `no_rope_layers`; without that list, all but every
    /// `no_rope_layer_interval`-th.
    AsConfigured,
    /// All layers, if `position_embedding_type` is "rope", else none.
    IfRope,
}

impl Family {
    /// Finds the family with this `model_type`.
    pub(super) fn find(model_type: &str) -> Option<&'static Self> {
        FAMILIES.into_iter().find(|family| family.model_type == model_type)
    }

    /// Lists all families for a sentence: "qwen2, qwen3, llama and mistral".
    pub(super) fn list() -> String {
        let [all @ .., last] = FAMILIES.map(|family| family.model_type);
        format!("{} and {last}", all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_family_is_listed_compared_with_transformers_and_documented() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = fs::read_to_string(root.join("../../../docs/guides/train.md")).unwrap();
        let files = fs::read_dir(root.join("src/config/family")).unwrap();
        let stem =
            |file: fs::DirEntry| file.path().file_stem().unwrap().to_str().unwrap().to_owned();
        let mut stems: Vec<String> = files.map(|file| stem(file.unwrap())).collect();
        let mut listed = FAMILIES.map(|family| family.model_type);
        stems.sort();
        listed.sort();
        assert_eq!(stems, listed);
        for model_type in listed {
            let checkpoints = fs::read_dir(root.join("tests/fixtures/models")).unwrap();
            let quoted = format!("\"{model_type}\"");
            let has_one = checkpoints
                .map(|dir| dir.unwrap().path())
                .filter(|dir| dir.join("expected.safetensors").exists())
                .map(|dir| dir.join("config.json"))
                .any(|config| fs::read_to_string(config).is_ok_and(|json| json.contains(&quoted)));
            assert!(
                has_one,
                "add a tiny {model_type} checkpoint of transformers to tests/fixtures/models"
            );
            let row = format!("\n| `{model_type}` | ");
            assert!(page.contains(&row), "{model_type} has no row in docs/guides/train.md");
        }
    }
}
