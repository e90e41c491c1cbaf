//! `generation_config.json`: the authors' sampling settings of a model.
//!
//! Source: the `GenerationConfig` of transformers. Keys that change sampling but that isentrope's
//! sampler lacks are read only to name them.

use std::ops::RangeInclusive;
use std::path::Path;
use std::slice;

use serde_json::{Map, Value};

use crate::json_file::{describe, find_object};
use crate::tokenizer::Tokenizer;
use crate::{Error, Result};

/// Keys that change sampling but that isentrope's sampler lacks, with the number at which they have
/// no effect.
const NOT_ACTED_ON: [(&str, f64); 19] = [
    ("typical_p", 1.0),
    ("top_h", 1.0),
    ("epsilon_cutoff", 0.0),
    ("eta_cutoff", 0.0),
    ("no_repeat_ngram_size", 0.0),
    ("bad_words_ids", 0.0),
    ("suppress_tokens", 0.0),
    ("begin_suppress_tokens", 0.0),
    ("forced_bos_token_id", f64::NAN),
    ("forced_eos_token_id", f64::NAN),
    ("sequence_bias", 0.0),
    ("exponential_decay_length_penalty", 0.0),
    ("min_length", 0.0),
    ("min_new_tokens", 0.0),
    ("guidance_scale", 1.0),
    ("penalty_alpha", 0.0),
    ("num_beams", 1.0),
    ("stop_strings", 0.0),
    ("watermarking_config", 0.0),
];

/// Sampling defaults of a model. `None`: the file has no such key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationConfig {
    /// Tokens that end a response; empty if the file names none. [`eos_tokens`] also has the
    /// tokenizer's.
    pub eos_token_ids: Vec<u32>,
    /// Whether to sample; transformers decodes greedily unless this is `Some(true)`.
    pub do_sample: Option<bool>,
    /// Divisor of the logits, at least 0.
    pub temperature: Option<f64>,
    /// Probability mass kept by nucleus sampling, in 0..=1.
    pub top_p: Option<f64>,
    /// Number of most likely tokens kept; 0 keeps all.
    pub top_k: Option<u32>,
    /// Least probability kept, as a fraction of the largest one, in 0..=1.
    pub min_p: Option<f64>,
    /// Divisor of the (positive) logits of tokens already in the context, above 0.
    pub repetition_penalty: Option<f64>,
    /// Keys of the file that would change sampling but that isentrope's sampler lacks.
    pub not_acted_on: Vec<&'static str>,
}

/// Finds the tokens that end a response of the model in `dir`: those of `eos_token_id`
/// ([`GenerationConfig::read`]) and, as in vLLM and TRL, the tokenizer's end-of-sequence token.
/// Empty if neither names one.
///
/// # Errors
/// As [`GenerationConfig::read`]; also [`Error::Invalid`] for a token outside of the vocabulary of
/// `vocab_size`, which would never end a response.
pub fn eos_tokens(
    dir: &Path,
    vocab_size: usize,
    tokenizer: Option<&Tokenizer>,
) -> Result<Vec<u32>> {
    let mut tokens = GenerationConfig::read(dir)?.eos_token_ids;
    if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocab_size) {
        let files = ["generation_config.json", "config.json"].map(|name| dir.join(name));
        let path = files.iter().find(|path| path.exists()).unwrap_or(&files[0]);
        let what = format!(
            "`eos_token_id` must be in the model's vocabulary of {vocab_size}, found {token}: correct it, or take it out to have \
             the tokenizer's end-of-sequence token alone"
        );
        return Err(Error::invalid(path, what));
    }
    let of_tokenizer = tokenizer.and_then(|tokenizer| tokenizer.special_id("eos_token"));
    if let Some(token) = of_tokenizer.filter(|token| !tokens.contains(token)) {
        tokens.push(token);
    }
    Ok(tokens)
}

impl GenerationConfig {
    /// Reads `generation_config.json` in `dir`. Without it the token ids come from `config.json`,
    /// and without either everything is `None`.
    ///
    /// # Errors
    /// [`Error::Io`] when a file cannot be read, [`Error::Invalid`] naming file and key when it is
    /// no JSON object or a value has the wrong type or is out of range. Nulls are the same as
    /// absent keys, and so is the token -1 of older Llama files.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("generation_config.json");
        if let Some(object) = find_object(&path)? {
            return Self::from_object(&Keys { path: &path, object: &object });
        }
        let path = dir.join("config.json");
        match find_object(&path)? {
            Some(object) => Self::token_ids(&Keys { path: &path, object: &object }),
            None => Ok(Self::default()),
        }
    }

    fn from_object(keys: &Keys) -> Result<Self> {
        Ok(Self {
            do_sample: keys.bool("do_sample")?,
            temperature: keys.temperature()?,
            top_p: keys.number("top_p", 0.0..=1.0)?,
            top_k: keys.integer("top_k")?,
            min_p: keys.number("min_p", 0.0..=1.0)?,
            repetition_penalty: keys.number("repetition_penalty", f64::MIN_POSITIVE..=f64::MAX)?,
            not_acted_on: keys.not_acted_on(),
            ..Self::token_ids(keys)?
        })
    }

    fn token_ids(keys: &Keys) -> Result<Self> {
        Ok(Self { eos_token_ids: keys.tokens("eos_token_id")?, ..Self::default() })
    }
}

/// Typed access to one file's keys. Errors name file and key.
struct Keys<'a> {
    path: &'a Path,
    object: &'a Map<String, Value>,
}

impl Keys<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    fn wrong(&self, key: &str, expected: &str, value: &Value) -> Error {
        let found = match value {
            Value::Number(number) => number.to_string(),
            other => describe(other).to_owned(),
        };
        Error::invalid(self.path, format!("`{key}` must be {expected}, found {found}"))
    }

    fn bool(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(key, "true or false", value))
    }

    fn number(&self, key: &str, range: RangeInclusive<f64>) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let expected = match (*range.start(), *range.end()) {
            (0.0, 1.0) => "a number from 0 to 1",
            (0.0, _) => "a number of at least 0",
            _ => "a number above 0",
        };
        match value.as_f64() {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(self.wrong(key, expected, value)),
        }
    }

    /// Only a written 0 may become 0 in f32, which means greedy.
    fn temperature(&self) -> Result<Option<f64>> {
        let temperature = self.number("temperature", 0.0..=f64::MAX)?;
        match temperature.filter(|&t| t > 0.0 && t < f64::from(f32::MIN_POSITIVE)) {
            Some(tiny) => {
                let expected = "0 (the most likely token) or at least 0.01";
                Err(self.wrong("temperature", expected, &tiny.into()))
            }
            None => Ok(temperature),
        }
    }

    /// The keys of [`NOT_ACTED_ON`] in the file that have an effect.
    fn not_acted_on(&self) -> Vec<&'static str> {
        let changes = |value: &Value, neutral: f64| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Number(number) => number.as_f64() != Some(neutral),
            Value::Array(values) => !values.is_empty(),
            Value::Object(values) => !values.is_empty(),
            Value::Bool(true) | Value::String(_) => true,
        };
        let named = NOT_ACTED_ON.into_iter();
        named
            .filter(|&(key, neutral)| self.get(key).is_some_and(|value| changes(value, neutral)))
            .map(|(key, _)| key)
            .collect()
    }

    fn integer(&self, key: &str) -> Result<Option<u32>> {
        self.get(key).map(|value| self.to_u32(key, value)).transpose()
    }

    /// A token or a list of tokens, each -1 for none.
    fn tokens(&self, key: &str) -> Result<Vec<u32>> {
        let values = match self.get(key) {
            None => &[],
            Some(Value::Array(values)) => &values[..],
            Some(value) => slice::from_ref(value),
        };
        values.iter().filter_map(|value| self.to_token(key, value)).collect()
    }

    fn to_token(&self, key: &str, value: &Value) -> Option<Result<u32>> {
        (value.as_i64() != Some(-1)).then(|| self.to_u32(key, value))
    }

    fn to_u32(&self, key: &str, value: &Value) -> Result<u32> {
        value
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| self.wrong(key, "an integer from 0 to 4294967295", value))
    }
}
