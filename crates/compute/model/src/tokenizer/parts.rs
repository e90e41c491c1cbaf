//! Bounds on the parts of a tokenizer.json, checked before the library builds them.

use serde::Deserialize;
use serde_json::Value;
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper};

use super::bounds::BoundedNormalizer;
use crate::json_file::{Distinct, quoted};

/// Deepest nesting in a part; real ones have about six levels.
const MAX_DEPTH: usize = 16;
/// Most entries of all lists in a part, such as its stages; real ones have up to a dozen.
const MAX_ENTRIES: usize = 256;
/// Longest text that a part inserts, in bytes.
const MAX_INSERTED: usize = 1024;
/// Longest regular expression, in bytes.
const MAX_PATTERN: usize = 64 << 10;
/// Longest unknown token, prefix or suffix of a model, in bytes. Each character may need a copy.
const MAX_AFFIX: usize = 64;
/// Longest word of a WordPiece model, in characters; its time is quadratic. Real ones say 100.
const MAX_WORD: u64 = 256;
/// Longest token, in bytes, before and after normalization.
pub(super) const MAX_TOKEN: usize = 4096;

/// Parts of the file with bounds.
#[derive(Deserialize)]
struct Parts {
    normalizer: Option<Distinct>,
    pre_tokenizer: Option<Distinct>,
    post_processor: Option<Distinct>,
    decoder: Option<Distinct>,
    model: Option<ModelPart>,
    #[serde(default)]
    added_tokens: Vec<AddedTokenPart>,
}

#[derive(Deserialize)]
struct ModelPart {
    unk_token: Option<Distinct>,
    continuing_subword_prefix: Option<Distinct>,
    end_of_word_suffix: Option<Distinct>,
    max_input_chars_per_word: Option<Distinct>,
}

#[derive(Deserialize)]
struct AddedTokenPart {
    content: String,
    normalized: Option<bool>,
}

/// Checks the parts of a tokenizer.json. An error is a sentence without a subject.
pub(super) fn check(file: &[u8]) -> Result<(), String> {
    let not_valid = |e: serde_json::Error| format!("is not a valid tokenizer: {e}");
    let parts: Parts = serde_json::from_slice(file).map_err(not_valid)?;
    for (name, part) in [
        ("normalizer", &parts.normalizer),
        ("pre_tokenizer", &parts.pre_tokenizer),
        ("post_processor", &parts.post_processor),
        ("decoder", &parts.decoder),
    ] {
        if let Some(Distinct(part)) = part {
            check_part(part, "", MAX_DEPTH, &mut 0)
                .map_err(|what| format!("has a `{name}` {what}"))?;
        }
    }
    if let Some(model) = &parts.model {
        let texts = [
            ("unk_token", &model.unk_token),
            ("continuing_subword_prefix", &model.continuing_subword_prefix),
            ("end_of_word_suffix", &model.end_of_word_suffix),
        ];
        for (name, text) in texts {
            if text
                .as_ref()
                .and_then(|text| text.0.as_str())
                .is_some_and(|text| text.len() > MAX_AFFIX)
            {
                return Err(format!("has a `model.{name}` of more than {MAX_AFFIX} bytes"));
            }
        }
        let word = model.max_input_chars_per_word.as_ref().and_then(|word| word.0.as_u64());
        if word.is_some_and(|word| word > MAX_WORD) {
            return Err(format!("has a `model.max_input_chars_per_word` above {MAX_WORD}"));
        }
    }
    check_added(&parts)
}

/// Added tokens are searched in normalized text, so the library normalizes them too.
fn check_added(parts: &Parts) -> Result<(), String> {
    let normalizer: Option<NormalizerWrapper> = match &parts.normalizer {
        Some(Distinct(part)) if !part.is_null() && !parts.added_tokens.is_empty() => {
            let normalizer = serde_json::from_str(&part.to_string());
            Some(normalizer.map_err(|e| format!("is not a valid tokenizer: {e}"))?)
        }
        _ => None,
    };
    for AddedTokenPart { content, normalized } in &parts.added_tokens {
        let mut length = content.len();
        if length <= MAX_TOKEN
            && *normalized != Some(false)
            && let Some(normalizer) = &normalizer
        {
            let mut text = NormalizedString::from(content.as_str());
            let normalized = BoundedNormalizer::new(normalizer, length).normalize(&mut text);
            normalized
                .map_err(|e| format!("has an added token {} for which {e}", quoted(content)))?;
            length = text.len();
        }
        if length > MAX_TOKEN {
            return Err(format!(
                "has an added token of more than {MAX_TOKEN} bytes: {}",
                quoted(content)
            ));
        }
    }
    Ok(())
}

/// Checks a value of a part under `key`; `entries` counts the entries of all lists so far.
fn check_part(value: &Value, key: &str, depth: usize, entries: &mut usize) -> Result<(), String> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(format!("that nests more than {MAX_DEPTH} deep"));
    };
    match value {
        Value::String(text) => {
            let limit = match key {
                "precompiled_charsmap" => return check_charsmap(text),
                "Regex" | "String" | "pattern" => MAX_PATTERN,
                _ => MAX_INSERTED,
            };
            if text.len() > limit {
                return Err(format!("in which `{key}` has more than {limit} bytes"));
            }
        }
        Value::Array(items) => {
            *entries += items.len();
            if *entries > MAX_ENTRIES {
                return Err(format!("of more than {MAX_ENTRIES} entries"));
            }
            let texts = items.iter().filter(|piece| piece.get("Sequence").is_some());
            if key == "single" && texts.count() > 1 {
                return Err("that repeats the text".to_owned());
            }
            items.iter().try_for_each(|item| check_part(item, key, depth, entries))?;
        }
        Value::Object(object) => {
            object.iter().try_for_each(|(key, value)| check_part(value, key, depth, entries))?;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// The library allocates the number of entries that a map of characters claims in its first four
/// bytes.
fn check_charsmap(base64: &str) -> Result<(), String> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |c| DIGITS.find(c).unwrap_or(63) as u64;
    // Eight digits are six bytes. The first four are the length, little-endian.
    let bits = base64.chars().take(8).fold(0, |bits, c| bits << 6 | digit(c));
    let claimed = ((bits >> 16) as u32).swap_bytes() as usize;
    if base64.len() >= 8 && claimed <= base64.len() / 4 * 3 {
        return Ok(());
    }
    Err("with a `precompiled_charsmap` that is cut short".to_owned())
}
