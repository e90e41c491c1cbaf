//! `generation_config.json`: how the authors of a model meant it to be sampled.
//!
//! Source: the `GenerationConfig` of transformers. Only the keys that isentrope's sampler can act on are read.

use std::ops::RangeInclusive;
use std::path::Path;

use serde_json::{Map, Value};

use crate::json_file::{describe, find_object};
use crate::{Error, Result};

/// The sampling defaults shipped with a model. `None` means that the file does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationConfig {
    /// Tokens that end a response; empty where the model names none.
    pub eos_token_ids: Vec<u32>,
    /// The token that starts a text.
    pub bos_token_id: Option<u32>,
    /// The token that fills up batches. The -1 of older Llama files is read as "none".
    pub pad_token_id: Option<u32>,
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
    /// Longest response, in tokens.
    pub max_new_tokens: Option<u32>,
    /// Longest prompt and response together, in tokens.
    pub max_length: Option<u32>,
}

impl GenerationConfig {
    /// Reads `generation_config.json` in `dir`. Without that file the token ids come from `config.json`, and
    /// without either everything is `None`.
    ///
    /// # Errors
    /// [`Error::Io`] when a file cannot be read, [`Error::Invalid`] naming file and key when it is no JSON object
    /// or a value has the wrong type or is out of range. Nulls are the same as absent keys.
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
            temperature: keys.number("temperature", 0.0..=f64::MAX)?,
            top_p: keys.number("top_p", 0.0..=1.0)?,
            top_k: keys.integer("top_k")?,
            min_p: keys.number("min_p", 0.0..=1.0)?,
            repetition_penalty: keys.number("repetition_penalty", f64::MIN_POSITIVE..=f64::MAX)?,
            max_new_tokens: keys.integer("max_new_tokens")?,
            max_length: keys.integer("max_length")?,
            ..Self::token_ids(keys)?
        })
    }

    fn token_ids(keys: &Keys) -> Result<Self> {
        let pad_token_id = match keys.get("pad_token_id") {
            Some(value) if value.as_i64() == Some(-1) => None,
            _ => keys.integer("pad_token_id")?,
        };
        Ok(Self {
            eos_token_ids: keys.integers("eos_token_id")?,
            bos_token_id: keys.integer("bos_token_id")?,
            pad_token_id,
            ..Self::default()
        })
    }
}

/// Typed access to one file's keys, where every complaint names file and key.
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

    fn integer(&self, key: &str) -> Result<Option<u32>> {
        self.get(key).map(|value| self.to_u32(key, value)).transpose()
    }

    fn integers(&self, key: &str) -> Result<Vec<u32>> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => values.iter().map(|value| self.to_u32(key, value)).collect(),
            Some(value) => Ok(vec![self.to_u32(key, value)?]),
        }
    }

    fn to_u32(&self, key: &str, value: &Value) -> Result<u32> {
        value
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| self.wrong(key, "an integer from 0 to 4294967295", value))
    }
}
