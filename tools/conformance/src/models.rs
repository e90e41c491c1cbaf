//! Models and texts that the properties are tested on, and results as bits.

use crate::data::uniform;
use crate::device::Trial;
use isentrope_kernels::Backend;
use isentrope_model::adapter::{AdapterLayout, Rank};
use isentrope_model::checkpoint::{Tensor, WeightDtype, WriteOptions, Writer, write_checkpoint};
use isentrope_model::{
    Derivatives, Gradient, Layout, Model, ModelConfig, Packed, Sequence, TapeKind,
};
use proptest::prelude::*;
use serde_json::{Map, json};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Among them: tied and untied heads, biases, QK norms, one key head, sliding windows on all and on
/// some layers, YaRN, heads that turn in part, a layer without positions, norms behind and around
/// branches, GELU, factors, angles that differ by layer, experts, one of them shared,
/// recurrent states, sizes that are no multiple of a vector, and adapters beside frozen weights.
pub const FAMILIES: [&str; 27] = [
    "gemma3",
    "granite",
    "granite4",
    "llama-biases",
    "llama-biases with an adapter",
    "llama-mqa",
    "llama-yarn",
    "mistral-sliding",
    "olmo2",
    "olmo3",
    "olmoe",
    "phi4-mini",
    "qwen2-layer-types",
    "qwen2-tied",
    "qwen2-tied with an adapter",
    "qwen2-untied",
    "qwen3",
    "qwen3 with an adapter",
    "qwen3-moe",
    "qwen3-moe with an adapter",
    "qwen3-untied",
    "qwen3.5",
    "qwen3.5 with an adapter",
    "qwen3.5-images",
    "qwen3.5-moe",
    "qwen3.5-moe with an adapter",
    "smollm3",
];
/// Words that every family knows.
const VOCABULARY: u32 = 61;

/// The directory of the tiny checkpoints: `ISENTROPE_TEST_FIXTURES` if the tests run on another
/// machine than they were built on, else the sources.
pub fn checkpoints() -> PathBuf {
    let sources = || {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../crates/compute/model/tests/fixtures/models")
    };
    std::env::var_os("ISENTROPE_TEST_FIXTURES").map_or_else(sources, PathBuf::from)
}

/// The directory of one checkpoint.
pub fn checkpoint(name: &str) -> PathBuf {
    checkpoints().join(name)
}

/// Ends the name of a family's model with an adapter.
pub const ADAPTED: &str = " with an adapter";

/// The model of this name on a device.
pub fn model(name: &str, backend: &Arc<dyn Backend>) -> Model {
    match name.strip_suffix(ADAPTED) {
        Some(family) => adapted(load_frozen(&checkpoint(family), backend)),
        None => load(&checkpoint(name), backend),
    }
}

/// The family's model with another epsilon in its norms.
pub fn with_eps(family: &str, eps: f64, backend: &Arc<dyn Backend>) -> Model {
    let (from, dir) = (checkpoint(family), tempfile::tempdir().unwrap());
    let config = std::fs::read(from.join("config.json")).unwrap();
    let mut config: Map<_, _> = serde_json::from_slice(&config).unwrap();
    config.insert("rms_norm_eps".to_owned(), json!(eps));
    std::fs::write(dir.path().join("config.json"), serde_json::to_vec(&config).unwrap()).unwrap();
    std::fs::copy(from.join("model.safetensors"), dir.path().join("model.safetensors")).unwrap();
    load(dir.path(), backend)
}

/// Loads the model in this directory to remain as it is.
pub fn load_frozen(dir: &Path, backend: &Arc<dyn Backend>) -> Model {
    Model::load_frozen(dir, backend.clone()).unwrap()
}

/// The model with an adapter that acts, since its Bs are noise.
pub fn adapted(model: Model) -> Model {
    let layout = AdapterLayout::new(&model.layout, rank).unwrap();
    let mut model = model.with_new_adapter(layout, 1).unwrap();
    let (backend, list) = (model.backend.clone(), model.layout.trained().clone());
    for (seed, (id, parameter, tensor)) in (0..).zip(list.tensors()) {
        if tensor.name.ends_with("lora_B.weight") {
            let count = parameter.shape(tensor).iter().product();
            let values: Vec<f32> = noise(seed, count).iter().map(|value| value * 0.3).collect();
            model.trained_mut().set_rows(&*backend, id, parameter, tensor, 0, &values);
        }
    }
    model
}

/// Other ranks for modules that share a product, and none for some of them.
fn rank(module: &str) -> Option<Rank> {
    let (rank, scale) = match module.strip_prefix("model.layers.")?.split_once('.')? {
        (_, "self_attn.q_proj") => (13, 0.5),
        (_, "self_attn.v_proj") => (3, 2.0),
        ("0", "self_attn.o_proj") => (1, 1.5),
        (_, "mlp.up_proj" | "mlp.experts.0.up_proj" | "mlp.experts.4.gate_proj") => (2, 1.0),
        (_, "mlp.experts.4.up_proj" | "mlp.experts.2.down_proj") => (3, 0.6),
        ("1", "mlp.shared_expert.up_proj" | "mlp.shared_expert.down_proj") => (2, 0.9),
        ("0", "mlp.down_proj") => (5, 0.7),
        (_, "linear_attn.in_proj_z") => (4, 1.2),
        ("0", "linear_attn.out_proj" | "linear_attn.in_proj_a") => (2, 0.8),
        _ => return None,
    };
    Some(Rank { rank, scale })
}

/// Loads the model in this directory.
pub fn load(dir: &Path, backend: &Arc<dyn Backend>) -> Model {
    Model::load(dir, backend.clone()).unwrap()
}

pub fn family() -> impl Strategy<Value = &'static str> {
    prop::sample::select(FAMILIES.to_vec())
}

pub fn temperature() -> impl Strategy<Value = f32> {
    prop_oneof![Just(1.0), Just(0.7)]
}

#[derive(Clone, Debug)]
pub struct Text {
    pub tokens: Vec<u32>,
    pub score_from: usize,
}

impl Text {
    pub fn target_count(&self) -> usize {
        self.tokens.len().saturating_sub(self.score_from)
    }
}

/// A few tokens more than three pages.
pub fn some_pages(trial: &Trial) -> usize {
    3 * trial.page() + 4
}

/// Texts from no token up to some pages. Some have no targets, and some have the prompt of the text
/// before.
pub fn texts(trial: &Trial, count: Range<usize>) -> impl Strategy<Value = Vec<Text>> + use<> {
    let text =
        (tokens(0..some_pages(trial)), prop_oneof![Just(1_usize), 1..50_usize], any::<bool>());
    prop::collection::vec(text, count).prop_map(|texts| {
        let mut all: Vec<Text> = Vec::new();
        for (mut tokens, mut score_from, repeats) in texts {
            if let Some(before) = all.last().filter(|text| repeats && text.target_count() > 0) {
                score_from = before.score_from;
                tokens = [&before.tokens[..score_from], &tokens].concat();
            }
            all.push(Text { tokens, score_from });
        }
        all
    })
}

pub fn tokens(len: Range<usize>) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0..VOCABULARY, len)
}

pub fn pack(texts: &[Text]) -> Packed {
    Packed::new(&sequences(texts))
}

pub fn sequences(texts: &[Text]) -> Vec<Sequence<'_>> {
    texts
        .iter()
        .map(|text| Sequence { tokens: &text.tokens, score_from: text.score_from })
        .collect()
}

/// Log-prob and entropy of every target.
pub fn score_bits(model: &Model, texts: &[Text], temperature: f32) -> Vec<[u32; 2]> {
    let scores = model.score(&pack(texts), temperature);
    scores.logprobs.iter().zip(&scores.entropies).map(|(p, h)| [p.to_bits(), h.to_bits()]).collect()
}

/// Log-prob and entropy of every token of a text but the first. The batch has no other text.
pub fn score_bits_alone(model: &Model, tokens: &[u32], temperature: f32) -> Vec<[u32; 2]> {
    score_bits(model, &[Text { tokens: tokens.to_vec(), score_from: 1 }], temperature)
}

/// Every tensor of the gradient of `sum(a logprob + b entropy)`, accumulated over `batches`, of
/// which `together` go through a layer before any enters the one below; a and b are [`noise`], one
/// value per target.
pub fn gradient_bits(
    model: &Model,
    gradient: &mut Gradient,
    batches: &[(&[Text], TapeKind)],
    together: usize,
    temperature: f32,
) -> Vec<Vec<u32>> {
    let targets = batches.iter().flat_map(|(texts, _)| texts.iter()).map(Text::target_count).sum();
    let (a, b) = (noise(1, targets), noise(2, targets));
    let mut first = 0;
    for batches in batches.chunks(together) {
        let mut passes = Vec::new();
        for (texts, keep) in batches {
            let packed = pack(texts);
            let range = first..first + packed.target_count();
            first = range.end;
            let (_, tape) = model.forward(packed, temperature, *keep);
            let derivatives = Derivatives::of(&a[range.clone()], &b[range]);
            passes.push(model.begin_backward(tape, derivatives, gradient));
        }
        for _ in 0..model.layout.block_count() {
            passes.iter_mut().for_each(|pass| model.backward_block(pass, gradient));
        }
        passes.into_iter().for_each(|pass| model.end_backward(pass, gradient));
    }
    let sum = gradient.finish(model);
    let tensors = model.layout.trained().tensors();
    tensors.map(|(id, p, t)| bits(&sum.tensor(&*model.backend, id, p, t))).collect()
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Evenly distributed numbers in [-1, 1).
pub fn noise(seed: u64, len: usize) -> Vec<f32> {
    uniform(seed).map(|x| 2.0 * x - 1.0).take(len).collect()
}

/// Words of the wide model.
const WIDE_VOCABULARY: u32 = 1100;

/// Words that every family knows.
pub fn words(seed: u64, len: usize) -> Vec<u32> {
    below(VOCABULARY, seed, len)
}

/// Words that the wide model knows.
pub fn wide_words(seed: u64, len: usize) -> Vec<u32> {
    below(WIDE_VOCABULARY, seed, len)
}

fn below(vocabulary: u32, seed: u64, len: usize) -> Vec<u32> {
    noise(seed, len).iter().map(|x| ((x + 1.0) / 2.0 * vocabulary as f32) as u32).collect()
}

/// A checkpoint of one layer with products so long that the kernels divide them into several blocks
/// and among several threads. The [`FAMILIES`] are too small for that.
pub fn write_wide(dir: &Path) {
    let config = json!({
        "model_type": "qwen3", "vocab_size": WIDE_VOCABULARY, "tie_word_embeddings": true,
        "hidden_size": 520, "intermediate_size": 530, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 80,
    });
    let config: Map<_, _> = config.as_object().unwrap().clone();
    let parsed = tempfile::tempdir().unwrap();
    std::fs::write(parsed.path().join("config.json"), serde_json::to_vec(&config).unwrap())
        .unwrap();
    let layout = Layout::new(&ModelConfig::read(parsed.path()).unwrap());
    let tensor = |(seed, shape, name): (u64, Vec<usize>, String)| {
        let scale = if shape.len() == 1 { 1.0 } else { (3.0 / shape[1] as f32).sqrt() };
        let values: Vec<f32> =
            noise(seed, shape.iter().product()).iter().map(|value| value * scale).collect();
        Tensor { name, shape, values: Box::new(move || Ok(values.into())) }
    };
    let tensors = (0..)
        .zip(layout.parameters.tensors())
        .map(|(seed, (_, p, t))| tensor((seed, p.shape(t), t.name.clone())));
    let options = WriteOptions {
        dtype: WeightDtype::F32,
        max_shard_bytes: u64::MAX,
        carry_from: None,
        writer: Writer::ALONE,
    };
    write_checkpoint(dir, &config, tensors.collect(), options).unwrap();
}

/// A model of the family whose every weight is NaN.
pub fn nan_model(trial: &Trial, family: &str) -> Model {
    let family = family.strip_suffix(ADAPTED).unwrap_or(family);
    let mut model = load(&checkpoint(family), &trial.model(family).backend);
    let backend = model.backend.clone();
    for buffer in model.trained_mut().buffers_mut() {
        backend.fill(buffer, f32::NAN);
    }
    model
}
