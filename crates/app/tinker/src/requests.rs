//! The protocol's requests in JSON, with the fields that this server reads.

use crate::error::{Failure, Result};
use crate::example::Bounds;
use isentrope_model::Layout;
use isentrope_model::adapter::{AdapterConfig, Targets, adaptable_modules};
use isentrope_model::tokenizer::Tokenizer;
use isentrope_rollout::{Key, Sampling};
use isentrope_train::settings::OptimizerSettings;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The scale of every adapter is this over its rank, as Tinker's.
const ALPHA: f64 = 32.0;
/// Most samples of a prompt.
pub(crate) const SAMPLES: usize = 1024;

/// Reads a request.
///
/// # Errors
/// Names the field that is missing or of another kind, in serde's words.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let request = serde_path_to_error::deserialize(&mut json).map_err(Failure::user)?;
    json.end().map_err(Failure::user)?;
    Ok(request)
}

#[derive(Deserialize)]
pub(crate) struct OfSession {
    pub session_id: String,
}

#[derive(Deserialize)]
pub(crate) struct OfModel {
    pub model_id: String,
}

#[derive(Deserialize)]
pub(crate) struct OfRequest {
    pub request_id: String,
}

#[derive(Deserialize)]
pub(crate) struct OfPath {
    pub tinker_path: String,
}

#[derive(Deserialize)]
pub(crate) struct CreateModel {
    pub session_id: String,
    pub model_seq_id: u64,
    pub base_model: String,
    pub lora_config: Option<LoraConfig>,
    #[serde(default)]
    pub optimizer_config: Optimizer,
}

#[derive(Deserialize)]
pub(crate) struct LoraConfig {
    pub rank: usize,
    pub seed: Option<u64>,
    #[serde(default = "yes")]
    pub train_mlp: bool,
    #[serde(default = "yes")]
    pub train_attn: bool,
}

fn yes() -> bool {
    true
}

/// The kind of an optimizer.
#[derive(Deserialize)]
pub(crate) struct Optimizer {
    #[serde(rename = "type")]
    kind: String,
}

impl Default for Optimizer {
    fn default() -> Self {
        Self { kind: "adamw".to_owned() }
    }
}

impl Optimizer {
    /// Refuses every optimizer but AdamW.
    pub fn check(&self) -> Result<()> {
        let Self { kind } = self;
        match &**kind {
            "adamw" => Ok(()),
            _ => Err(Failure::user(format!("there is no optimizer {kind:?}, only adamw"))),
        }
    }
}

impl LoraConfig {
    /// The configuration of the adapter that it asks for.
    pub fn adapter(&self, layout: &Layout) -> Result<AdapterConfig> {
        if !self.train_attn && !self.train_mlp {
            return Err(Failure::user(
                "train_attn or train_mlp must be set: the unembedding has no adapter here",
            ));
        }
        let is_chosen = |module: &str| {
            if module.contains("attn") { self.train_attn } else { self.train_mlp }
        };
        let mut names: Vec<String> = adaptable_modules(layout)
            .filter(|module| is_chosen(module))
            .map(|module| module.rsplit('.').next().unwrap_or(module).to_owned())
            .collect();
        names.sort_unstable();
        names.dedup();
        // Peft's "all-linear" leaves out experts, which train_mlp is to take.
        let has_experts = adaptable_modules(layout).any(|module| module.contains(".experts."));
        let targets = if self.train_attn && self.train_mlp && !has_experts {
            Targets::AllLinear
        } else {
            Targets::Modules(names)
        };
        Ok(AdapterConfig::new(self.rank, ALPHA, false, targets))
    }
}

#[derive(Deserialize)]
pub(crate) struct OptimStep {
    pub model_id: String,
    pub seq_id: i64,
    adam_params: Option<AdamParams>,
}

#[derive(Deserialize)]
#[serde(default)]
struct AdamParams {
    learning_rate: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    grad_clip_norm: f64,
}

impl Default for AdamParams {
    fn default() -> Self {
        Self {
            learning_rate: 1e-4,
            beta1: 0.9,
            beta2: 0.95,
            eps: 1e-12,
            weight_decay: 0.0,
            grad_clip_norm: 0.0,
        }
    }
}

impl OptimStep {
    /// The settings of the update.
    pub fn settings(self) -> Result<OptimizerSettings> {
        let params = self.adam_params.ok_or_else(|| {
            Failure::user("adam_params is missing: AdamW is the only optimizer here")
        })?;
        let AdamParams { learning_rate, beta1, beta2, eps, weight_decay, grad_clip_norm } = params;
        for (name, value, is_right) in [
            ("learning_rate", learning_rate, learning_rate >= 0.0 && learning_rate.is_finite()),
            ("beta1", beta1, (0.0..1.0).contains(&beta1)),
            ("beta2", beta2, (0.0..1.0).contains(&beta2)),
            ("eps", eps, (f64::from(f32::MIN_POSITIVE)..1.0).contains(&eps)),
            ("weight_decay", weight_decay, weight_decay >= 0.0 && weight_decay.is_finite()),
            ("grad_clip_norm", grad_clip_norm, !grad_clip_norm.is_nan()),
        ] {
            if !is_right {
                return Err(Failure::user(format!("{name} is out of range: {value}")));
            }
        }
        let clip_norm = if grad_clip_norm > 0.0 { grad_clip_norm } else { f64::INFINITY };
        let defaults = OptimizerSettings::default();
        Ok(OptimizerSettings {
            learning_rate,
            beta1,
            beta2,
            eps,
            weight_decay,
            clip_norm,
            ..defaults
        })
    }
}

#[derive(Deserialize)]
pub(crate) struct SaveWeights {
    pub model_id: String,
    pub seq_id: i64,
    pub path: Option<String>,
    #[serde(default)]
    pub overwrite: bool,
    pub sampling_session_seq_id: Option<u64>,
    pub kind: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct LoadWeights {
    pub model_id: Option<String>,
    pub seq_id: Option<i64>,
    pub session_id: Option<String>,
    pub model_seq_id: Option<u64>,
    pub base_model: Option<String>,
    pub path: String,
    pub optimizer: bool,
    pub optimizer_config: Option<Optimizer>,
}

#[derive(Deserialize)]
pub(crate) struct CreateSampler {
    pub session_id: String,
    pub sampling_session_seq_id: u64,
    pub base_model: Option<String>,
    pub model_path: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Sample {
    pub sampling_session_id: Option<String>,
    pub seq_id: Option<u64>,
    #[serde(default = "one")]
    pub num_samples: usize,
    prompt: ModelInput,
    sampling_params: SamplingParams,
    prompt_logprobs: Option<bool>,
    #[serde(default)]
    topk_prompt_logprobs: usize,
    #[serde(default)]
    topk_sample_logprobs: usize,
    target_prompt_logprobs: Option<Value>,
    #[serde(default)]
    prompt_alt_tokens_k: usize,
    prompt_logprobs_last_n: Option<usize>,
    record_stability_info: Option<bool>,
}

fn one() -> usize {
    1
}

#[derive(Deserialize)]
struct ModelInput {
    chunks: Vec<Chunk>,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    tokens: Vec<i64>,
    #[serde(rename = "type", default)]
    kind: String,
}

#[derive(Deserialize)]
struct SamplingParams {
    max_tokens: Option<usize>,
    seed: Option<u64>,
    stop: Option<Stop>,
    #[serde(default = "unit")]
    temperature: f32,
    #[serde(default)]
    top_k: i64,
    #[serde(default = "unit")]
    top_p: f32,
}

fn unit() -> f32 {
    1.0
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "must be a text, a list of texts or a list of tokens")]
enum Stop {
    Text(String),
    Tokens(Vec<i64>),
    Texts(Vec<String>),
}

/// A prompt to sample from, checked.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub tokens: Vec<u32>,
    pub samples: usize,
    pub sampling: Sampling,
    pub key: Key,
    /// The first token of the prompt whose log-prob is wanted; none without such.
    pub score_from: Option<usize>,
}

impl Sample {
    /// Checks the request. `number` is the sampler's in its session: without a seed, the random
    /// numbers follow from it and from the request's own number, so that a script that makes the
    /// same calls gets the same tokens.
    ///
    /// # Errors
    /// Names the field that is wrong or not supported.
    pub fn prompt(
        self,
        number: u64,
        bounds: Bounds,
        eos_tokens: &[u32],
        tokenizer: &Tokenizer,
    ) -> Result<Prompt> {
        for (field, is_set) in [
            ("topk_prompt_logprobs", self.topk_prompt_logprobs > 0),
            ("topk_sample_logprobs", self.topk_sample_logprobs > 0),
            ("target_prompt_logprobs", self.target_prompt_logprobs.is_some()),
            ("prompt_alt_tokens_k", self.prompt_alt_tokens_k > 0),
            ("record_stability_info", self.record_stability_info == Some(true)),
        ] {
            if is_set {
                let what = format!("{field} is not supported: leave it out");
                return Err(Failure::user(what));
            }
        }
        if !(1..=SAMPLES).contains(&self.num_samples) {
            let what = format!("num_samples is {}, not from 1 to {SAMPLES}", self.num_samples);
            return Err(Failure::user(what));
        }
        let chunks = self.prompt.chunks;
        if chunks.iter().any(|chunk| !matches!(&*chunk.kind, "" | "encoded_text")) {
            return Err(Failure::user("the prompt: this model reads text alone"));
        }
        let tokens: Vec<i64> = chunks.into_iter().flat_map(|chunk| chunk.tokens).collect();
        let tokens =
            bounds.check(&tokens).map_err(|what| Failure::user(format!("the prompt {what}")))?;
        let params = self.sampling_params;
        // A prompt that takes the whole context may still be scored, or the engine says why not.
        let room = (bounds.context - tokens.len()).max(1);
        let sampling = Sampling {
            temperature: params.temperature,
            top_k: usize::try_from(params.top_k).unwrap_or(0),
            top_p: params.top_p,
            max_tokens: params.max_tokens.unwrap_or(room).min(room),
            ..Sampling::default()
        };
        let (texts, stop_tokens) = match params.stop {
            None => (Vec::new(), None),
            Some(Stop::Text(text)) => (vec![text], Some(Vec::new())),
            Some(Stop::Texts(texts)) => (texts, Some(Vec::new())),
            Some(Stop::Tokens(tokens)) => (Vec::new(), Some(tokens)),
        };
        let mut sampling = sampling.ending_at(eos_tokens, &texts, Some(tokenizer));
        if let Some(tokens) = stop_tokens {
            sampling.ignore_eos = tokens.is_empty() && texts.is_empty();
            // A token outside the vocabulary never comes.
            sampling.stop_tokens.extend(tokens.into_iter().filter_map(|t| u32::try_from(t).ok()));
        }
        sampling.check().map_err(Failure::user)?;
        let of_prompt = self.prompt_logprobs == Some(true);
        let score_from = match self.prompt_logprobs_last_n {
            None => of_prompt.then_some(1),
            Some(last) if of_prompt && (1..tokens.len()).contains(&last) => {
                Some(tokens.len() - last)
            }
            Some(last) => {
                let most = tokens.len().saturating_sub(1);
                return Err(Failure::user(format!(
                    "prompt_logprobs_last_n is {last}: it needs prompt_logprobs, and is from 1 to \
                     {most} here"
                )));
            }
        };
        let key = match params.seed {
            Some(seed) => Key { seed, step: 0, prompt: 0 },
            None => {
                let step = number.checked_add(1).ok_or_else(|| {
                    Failure::user(format!("the sampler's number {number} is too large"))
                })?;
                Key { seed: 0, step, prompt: self.seq_id.unwrap_or(0) }
            }
        };
        Ok(Prompt { tokens, samples: self.num_samples, sampling, key, score_from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_model::ModelConfig;
    use serde_json::json;
    use std::path::Path;

    #[test]
    fn a_wrong_field_is_named() {
        for (sampling, message) in [
            (r#"{"max_tokens": "a"}"#, "sampling_params.max_tokens: invalid type: string \"a\""),
            (r#"{"stop": {}}"#, "sampling_params.stop: must be a text, a list of texts or"),
            ("{}, \"seq_id\": [1]", "seq_id: invalid type: sequence"),
            ("{}} x", "trailing characters"),
            ("{", "EOF while parsing"),
        ] {
            let prompt = r#"{"prompt": {"chunks": [{"tokens": [1]}]}, "sampling_params": "#;
            let said = read::<Sample>(format!("{prompt}{sampling}}}").as_bytes());
            let said = said.map(drop).unwrap_err().message;
            assert!(said.contains(message), "{sampling}: {said}");
        }
    }

    #[test]
    fn a_sample_may_fill_the_context_and_no_more() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../compute/model/tests/fixtures/tokenizer/byte-bpe");
        let tokenizer = Tokenizer::read(&dir).unwrap().unwrap();
        let bounds = Bounds { vocabulary: 10, context: 30 };
        for (length, params, max_tokens) in [
            (1, json!({}), 29),
            (10, json!({"max_tokens": 21}), 20),
            (10, json!({"max_tokens": 4}), 4),
            (30, json!({}), 1),
        ] {
            let prompt = json!({"chunks": [{"tokens": vec![1; length]}]});
            let body = json!({"prompt": prompt, "sampling_params": params}).to_string();
            let sample = read::<Sample>(body.as_bytes()).unwrap();
            let prompt = sample.prompt(0, bounds, &[], &tokenizer).unwrap();
            assert_eq!(prompt.sampling.max_tokens, max_tokens, "{body}");
        }
    }

    #[test]
    fn both_parts_of_a_mixture_are_attention_and_all_experts() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../compute/model/tests/fixtures/models/qwen3-moe");
        let layout = Layout::new(&ModelConfig::read(&dir).unwrap());
        let parameters = |train_attn, train_mlp| {
            let lora = LoraConfig { rank: 2, seed: None, train_mlp, train_attn };
            let adapted = lora.adapter(&layout).unwrap().layout(&layout).unwrap();
            adapted.parameters.tensors().count()
        };
        let (attention, mlp) = (parameters(true, false), parameters(false, true));
        assert!(attention > 0 && mlp > 0);
        assert_eq!(parameters(true, true), attention + mlp);
    }
}
