//! Bounds on the growth of a text in a tokenizer's stages: a file may list normalizers that each
//! double it.
//!
//! Stages run one by one, and each result is checked. A stage that replaces by texts of the file,
//! and so can multiply at once, is measured before it runs.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use tokenizers::normalizers::{Precompiled, Replace};
use tokenizers::{
    Decoder, DecoderWrapper, NormalizedString, Normalizer, NormalizerWrapper, PreTokenizedString,
    PreTokenizer, PreTokenizerWrapper, Result,
};

/// Largest growth of a text in bytes by the normalizers, the pre-tokenizers or the decoders.
/// Compatibility forms make a character eleven times as long, byte-level alphabets twice.
const MAX_GROWTH: usize = 16;
/// Further growth allowed for short texts, in bytes.
const ALLOWANCE: usize = 4096;

/// Most bytes that may result from `length` bytes.
pub(super) fn allowed(length: usize) -> usize {
    length.saturating_mul(MAX_GROWTH).saturating_add(ALLOWANCE)
}

/// Normalizer for all pieces of one text.
pub(super) struct BoundedNormalizer<'a> {
    normalizer: &'a NormalizerWrapper,
    /// Remaining bytes.
    left: AtomicUsize,
    exceeded: AtomicBool,
}

impl<'a> BoundedNormalizer<'a> {
    /// Wraps a normalizer for the pieces of a text of `length` bytes.
    pub fn new(normalizer: &'a NormalizerWrapper, length: usize) -> Self {
        Self { normalizer, left: allowed(length).into(), exceeded: false.into() }
    }

    /// An error if a piece has grown too long. The library ignores the result of `normalize`.
    pub fn check(&self) -> Result<()> {
        if self.exceeded.load(Relaxed) { Err(too_long("normalizer")) } else { Ok(()) }
    }

    fn stages(&self, normalizer: &NormalizerWrapper, text: &mut NormalizedString) -> Result<()> {
        let left = self.left.load(Relaxed);
        let fits = match normalizer {
            NormalizerWrapper::Sequence(sequence) => {
                return sequence.as_ref().iter().try_for_each(|stage| self.stages(stage, text));
            }
            NormalizerWrapper::Replace(replace) => {
                replaced_length(replace, text.get(), left)? <= left
            }
            NormalizerWrapper::Precompiled(map) => mapped_length(map, text.get(), left) <= left,
            NormalizerWrapper::Prepend(prepend) => {
                text.len().saturating_add(prepend.prepend.len()) <= left
            }
            _ => true,
        };
        if fits {
            normalizer.normalize(text)?;
        }
        if fits && text.len() <= left {
            return Ok(());
        }
        self.exceeded.store(true, Relaxed);
        Err(too_long("normalizer"))
    }
}

impl Normalizer for BoundedNormalizer<'_> {
    fn normalize(&self, text: &mut NormalizedString) -> Result<()> {
        self.check()?;
        self.stages(self.normalizer, text)?;
        self.left.fetch_sub(text.len(), Relaxed);
        Ok(())
    }
}

/// Applies `pre_tokenizer` to the pieces of a text of `length` bytes.
pub(super) fn pre_tokenize(
    pre_tokenizer: &PreTokenizerWrapper,
    pieces: &mut PreTokenizedString,
    length: usize,
) -> Result<()> {
    // The normalizers had their own budget.
    pre_tokenize_within(pre_tokenizer, pieces, allowed(2 * length))
}

fn pre_tokenize_within(
    pre_tokenizer: &PreTokenizerWrapper,
    pieces: &mut PreTokenizedString,
    allowed: usize,
) -> Result<()> {
    if let PreTokenizerWrapper::Sequence(sequence) = pre_tokenizer {
        return sequence
            .as_ref()
            .iter()
            .try_for_each(|stage| pre_tokenize_within(stage, pieces, allowed));
    }
    pre_tokenizer.pre_tokenize(pieces)?;
    if total_length(pieces)? > allowed { Err(too_long("pre-tokenizer")) } else { Ok(()) }
}

/// Bytes of the pieces without tokens.
fn total_length(pieces: &mut PreTokenizedString) -> Result<usize> {
    let total = Cell::new(0);
    pieces.normalize(|piece| {
        total.set(total.get() + piece.len());
        Ok(())
    })?;
    Ok(total.get())
}

/// Decodes `tokens`.
pub(super) fn decode(decoder: Option<&DecoderWrapper>, tokens: Vec<String>) -> Result<String> {
    let Some(decoder) = decoder else { return Ok(tokens.join(" ")) };
    let allowed = allowed(length(&tokens));
    Ok(decode_within(decoder, tokens, allowed)?.concat())
}

fn decode_within(
    decoder: &DecoderWrapper,
    tokens: Vec<String>,
    allowed: usize,
) -> Result<Vec<String>> {
    match decoder {
        DecoderWrapper::Sequence(sequence) => {
            let mut stages = sequence.get_decoders().iter();
            return stages.try_fold(tokens, |tokens, stage| decode_within(stage, tokens, allowed));
        }
        DecoderWrapper::Replace(replace) => {
            let mut sum = 0_usize;
            for token in &tokens {
                sum = sum.saturating_add(replaced_length(replace, token, allowed - sum)?);
                if sum > allowed {
                    return Err(too_long("decoder"));
                }
            }
        }
        _ => {}
    }
    let tokens = decoder.decode_chain(tokens)?;
    if length(&tokens) > allowed { Err(too_long("decoder")) } else { Ok(tokens) }
}

fn length(tokens: &[String]) -> usize {
    tokens.iter().map(String::len).sum()
}

/// Bytes of `text` after the replacement, or an upper bound if that is within `limit`.
fn replaced_length(replace: &Replace, text: &str, limit: usize) -> Result<usize> {
    let content = replace.content.len();
    // The pattern matches at most once per byte, and at the end.
    let at_most = (text.len() + 1).saturating_mul(content).saturating_add(text.len());
    if at_most <= limit {
        return Ok(at_most);
    }
    // The pattern is private, but a replacement with other content shows how often it matches.
    let with = |content: &str| -> Result<usize> {
        let mut copy = serde_json::to_value(replace)?;
        copy["content"] = content.into();
        let copy: Replace = serde_json::from_value(copy)?;
        Ok(length(&copy.decode_chain(vec![text.to_owned()])?))
    };
    let kept = with("")?;
    Ok(kept.saturating_add((with("x")? - kept).saturating_mul(content)))
}

/// Bytes that `map` makes of `text`, or any number above `limit`. Works part by part, so that a
/// bomb stays small.
fn mapped_length(map: &Precompiled, text: &str, limit: usize) -> usize {
    let mut length = 0_usize;
    for c in text.chars() {
        length = length.saturating_add(map.normalize_string(c.encode_utf8(&mut [0; 4])).len());
        if length > limit {
            break;
        }
    }
    length
}

fn too_long(what: &str) -> Box<dyn std::error::Error + Send + Sync> {
    format!("the {what} makes many times as much of the text").into()
}
