//! `generation_config.json`: the authors' sampling settings of a model.
//!
//! Source: the `GenerationConfig` of transformers. Keys that change sampling but that isentrope's
//! sampler lacks are read only to name them.

use std::path::Path;
use std::slice;

use serde_json::Value;

use crate::config::fields::{Fields, shown};
use crate::config::stored_form::StoredForm;
use crate::config::unsupported::is_neutral;
use crate::json_file::find_object;
use crate::tokenizer::Tokenizer;
use crate::{Error, Result};

/// Keys that change sampling but that isentrope's sampler lacks, with the number at which they have
/// no effect.
const NOT_ACTED_ON: [(&str, f64); 9] = [
    ("typical_p", 1.0),
    ("no_repeat_ngram_size", 0.0),
    ("suppress_tokens", 0.0),
    ("forced_bos_token_id", f64::NAN),
    ("forced_eos_token_id", f64::NAN),
    ("sequence_bias", 0.0),
    ("min_length", 0.0),
    ("num_beams", 1.0),
    ("stop_strings", 0.0),
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

/// Finds the tokens that end a response of the model in `dir`: the tokens of `eos_token_id`
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
            "eos_token_id has {token}, outside the model's vocabulary of {vocab_size}: correct it, \
             or take it out to have the tokenizer's end-of-sequence token alone"
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
    /// [`Error::File`] when a file cannot be read, [`Error::Invalid`] naming file and key when it
    /// is no JSON object or a value has the wrong type or is out of range. Nulls are the same as
    /// absent keys, and so is the token -1 of older Llama files.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("generation_config.json");
        if let Some(object) = find_object(&path)? {
            return Self::from_object(Fields { path: &path, object: &object, prefix: "" });
        }
        let path = dir.join("config.json");
        match find_object(&path)? {
            Some(object) => {
                let form = StoredForm::read(Fields { path: &path, object: &object, prefix: "" })?;
                let object = form.own_config(object);
                Self::token_ids(Fields { path: &path, object: &object, prefix: "" })
            }
            None => Ok(Self::default()),
        }
    }

    fn from_object(file: Fields) -> Result<Self> {
        let changes = |value: &Value, neutral| {
            value.as_f64().map_or_else(|| !is_neutral(value), |number| number != neutral)
        };
        let acts =
            |&(key, neutral): &(_, f64)| file.get(key).is_some_and(|value| changes(value, neutral));
        let top_k = file.integer("top_k", 0..=u32::MAX as usize)?;
        Ok(Self {
            do_sample: file.boolean("do_sample")?,
            temperature: read_temperature(file)?,
            top_p: file.number("top_p", 0.0..=1.0)?,
            top_k: top_k.map(|top_k| top_k as u32),
            min_p: file.number("min_p", 0.0..=1.0)?,
            repetition_penalty: file.number("repetition_penalty", 1e-6..=1e6)?,
            not_acted_on: NOT_ACTED_ON
                .iter()
                .filter(|key| acts(key))
                .map(|&(key, _)| key)
                .collect(),
            ..Self::token_ids(file)?
        })
    }

    fn token_ids(file: Fields) -> Result<Self> {
        Ok(Self { eos_token_ids: read_tokens(file, "eos_token_id")?, ..Self::default() })
    }
}

/// Only a written 0 may become 0 in f32, which means greedy.
fn read_temperature(file: Fields) -> Result<Option<f64>> {
    let temperature = file.number("temperature", 0.0..=1e6)?;
    match temperature.filter(|&t| t > 0.0 && t < f64::from(f32::MIN_POSITIVE)) {
        Some(tiny) => {
            let what = format!("is {tiny:e}, neither 0 (the most likely token) nor at least 0.01");
            Err(file.invalid("temperature", what))
        }
        None => Ok(temperature),
    }
}

/// A token or a list of tokens, each -1 for none.
fn read_tokens(file: Fields, key: &str) -> Result<Vec<u32>> {
    let values = match file.get(key) {
        None => &[],
        Some(Value::Array(values)) => &values[..],
        Some(value) => slice::from_ref(value),
    };
    let token = |value: &Value| {
        let token = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let what = || format!("has {}, not a whole number from 0 to 4294967295", shown(value));
        token.ok_or_else(|| file.invalid(key, what()))
    };
    values.iter().filter(|value| value.as_i64() != Some(-1)).map(token).collect()
}
