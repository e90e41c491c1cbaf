//! Text to token ids and back, from the `tokenizer.json` of a model directory.
//!
//! The `tokenizers` crate has the algorithms. This module adds bounds, errors, and transformers'
//! conventions.

mod bounds;
mod continuation;
mod decode_stream;
mod dropped_characters;
mod parts;
mod special_tokens;

use std::ops::Range;
use std::path::{Path, PathBuf};

use tokenizers::{
    AddedToken, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizerWrapper,
};

use self::bounds::BoundedNormalizer;
use self::continuation::Continuation;
pub use self::decode_stream::DecodeStream;
use self::dropped_characters::DroppedCharacters;
pub use self::special_tokens::SpecialTokens;
use crate::contain::contain;
use crate::json_file::find_bytes;
use crate::{Error, Result};

/// Largest `tokenizer.json` read, in bytes; the largest vocabularies in use take about a tenth of
/// it.
const MAX_TOKENIZER_BYTES: u64 = 256 << 20;

/// A model's tokenizer, as transformers' `AutoTokenizer` loads it.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Encoder of continued texts, for a tokenizer that marks the beginning of a text.
    continuation: Option<Continuation>,
    path: PathBuf,
    special: SpecialTokens,
    vocab_size: usize,
    dropped: DroppedCharacters,
}

impl Tokenizer {
    /// Reads `tokenizer.json` in `dir`, and the special tokens of `tokenizer_config.json` and
    /// `special_tokens_map.json`. `None` when `dir` holds no tokenizer at all: work on token ids
    /// needs none.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when `dir` holds a tokenizer in an older format only, [`Error::File`]
    /// when a file cannot be read, [`Error::Invalid`] when it is malformed or larger than 256 MiB.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join("tokenizer.json");
        let Some(bytes) = find_bytes(&path, MAX_TOKENIZER_BYTES)? else {
            return match older_format(dir) {
                Some(file) => Err(Error::unsupported(
                    &dir.join(file),
                    "this tokenizer format cannot be read; write a tokenizer.json beside it with \
                     transformers: AutoTokenizer.from_pretrained(dir).save_pretrained(dir)",
                )),
                None => Ok(None),
            };
        };
        let special = SpecialTokens::read(dir)?;
        library(|| Ok(parts::check(&bytes)))
            .and_then(|checked| checked)
            .map_err(|what| Error::invalid(&path, what))?;
        let mut inner: tokenizers::Tokenizer =
            library(|| tokenizers::Tokenizer::from_bytes(&bytes))
                .map_err(|e| Error::invalid(&path, format!("is not a valid tokenizer: {e}")))?;
        // A file may contain the truncation and padding of its last use; a plain call in
        // transformers has neither.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| Error::invalid(&path, e.to_string()))?;
        // A token named in tokenizer_config.json is special even if tokenizer.json does not say so.
        // If the vocabulary lacks it, chat templates have its text; a new id would not fit the
        // model.
        let named: Vec<AddedToken> = special
            .iter()
            .filter(|(_, text)| {
                inner.token_to_id(text).is_some()
                    && !inner.get_added_vocabulary().is_special_token(text)
            })
            .map(|(_, text)| AddedToken::from(text, true))
            .collect();
        if !named.is_empty() {
            inner.add_special_tokens(named).map_err(|e| Error::invalid(&path, e.to_string()))?;
        }
        let vocabulary = inner.get_vocab(true);
        if let Some((_, id)) = vocabulary.iter().find(|(token, _)| token.len() > parts::MAX_TOKEN) {
            let what = format!("token {id} has more than {} bytes", parts::MAX_TOKEN);
            return Err(Error::invalid(&path, what));
        }
        let highest = vocabulary.into_values().max();
        let vocab_size = highest.map_or(0, |id| id as usize + 1);
        if vocab_size == 0 {
            return Err(Error::invalid(&path, "has an empty vocabulary"));
        }
        let continuation = Continuation::of(inner.get_normalizer(), inner.get_pre_tokenizer());
        let tokenizer = Self {
            inner,
            continuation,
            path,
            special,
            vocab_size,
            dropped: DroppedCharacters::default(),
        };
        // A post-processor may name undefined tokens, which fails only when it is applied.
        tokenizer.encode("", true).map_err(|_| {
            Error::invalid(&tokenizer.path, "has a `post_processor` that cannot be applied")
        })?;
        Ok(Some(tokenizer))
    }

    /// Encodes `text`. Special tokens written in `text` become their ids. With `add_special` the
    /// post-processor adds its tokens (such as a leading bos), as `tokenizer(text)` does in
    /// transformers. Rendered chats contain theirs and are encoded without.
    ///
    /// # Errors
    /// [`Error::Input`] when the tokenizer cannot represent `text` and has no unknown token, or
    /// expands it many times. Some tokenizers leave characters out instead: see
    /// [`take_dropped`](Self::take_dropped).
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        self.encode_by(
            (self.inner.get_normalizer(), self.inner.get_pre_tokenizer()),
            text,
            add_special,
        )
    }

    /// Encodes `text` as the continuation of `before`, whose tokens do not change. A tokenizer that
    /// marks the beginning of texts (SentencePiece puts a space before the first word) marks `text`
    /// only if it would mark it within the whole: after nothing, and for some tokenizers after a
    /// special token.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_after(&self, before: &str, text: &str) -> Result<Vec<u32>> {
        let Some(Continuation { normalizer, pre_tokenizer, marks_each_piece }) = &self.continuation
        else {
            return self.encode(text, false);
        };
        let marked = *marks_each_piece
            && self.plain_pieces(before)?.last().is_none_or(|last| last.end < before.len());
        if before.is_empty() || marked {
            return self.encode(text, false);
        }
        // Text after a special token begins as it would in the whole text.
        let first = self
            .plain_pieces(text)?
            .first()
            .filter(|first| first.start == 0)
            .map_or(0, |first| first.end);
        let (first, rest) = text.split_at(first);
        let mut tokens =
            self.encode_by((normalizer.as_ref(), pre_tokenizer.as_ref()), first, false)?;
        tokens.extend(self.encode(rest, false)?);
        Ok(tokens)
    }

    /// Ranges of a text between added tokens.
    fn plain_pieces(&self, text: &str) -> Result<Vec<Range<usize>>> {
        let pieces = library(|| {
            let none: Option<&NormalizerWrapper> = None;
            let pieces = self.inner.get_added_vocabulary().extract_and_normalize(none, text);
            let splits = pieces.get_splits(OffsetReferential::Original, OffsetType::Byte);
            let plain = splits.into_iter().filter(|(_, _, tokens)| tokens.is_none());
            Ok(plain.map(|(_, (start, end), _)| start..end).collect())
        });
        pieces.map_err(|what| self.cannot_encode(&what))
    }

    fn cannot_encode(&self, what: &str) -> Error {
        Error::Input(format!("{}: cannot encode the text: {what}", self.path.display()))
    }

    fn encode_by(
        &self,
        (normalizer, pre_tokenizer): (Option<&NormalizerWrapper>, Option<&PreTokenizerWrapper>),
        text: &str,
        add_special: bool,
    ) -> Result<Vec<u32>> {
        let encoding = library(|| {
            let vocabulary = self.inner.get_added_vocabulary();
            let normalizer = normalizer.map(|stages| BoundedNormalizer::new(stages, text.len()));
            let mut pieces = vocabulary.extract_and_normalize(normalizer.as_ref(), text);
            if let Some(normalizer) = &normalizer {
                normalizer.check()?;
            }
            if let Some(pre_tokenizer) = pre_tokenizer {
                bounds::pre_tokenize(pre_tokenizer, &mut pieces, text.len())?;
            }
            pieces.tokenize(|piece| self.dropped.tokenize(self.inner.get_model(), piece))?;
            let encoding = pieces.into_encoding(None, 0, OffsetType::None)?;
            self.inner.post_process(encoding, None, add_special)
        })
        .map_err(|what| self.cannot_encode(&what))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Describes the characters that encoding has dropped since the last call, for want of a token;
    /// none if it has dropped none.
    pub fn take_dropped(&self) -> Option<String> {
        self.dropped.take()
    }

    /// Decodes `ids`, without special tokens if `skip_special`. Ids outside of the vocabulary have
    /// no text.
    ///
    /// # Errors
    /// [`Error::Input`] when the tokenizer's decoder fails (a regular expression beyond its limits)
    /// or expands the tokens many times.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        let shown: Vec<String> =
            ids.iter().filter_map(|&id| self.shown(id, skip_special)).collect();
        // One of the decoders fails on an empty list.
        if shown.is_empty() {
            return Ok(String::new());
        }
        library(|| bounds::decode(self.inner.get_decoder(), shown)).map_err(|e| {
            Error::Input(format!("{}: cannot decode the tokens: {e}", self.path.display()))
        })
    }

    /// Decodes a response while it is being sampled.
    pub fn decode_stream(&self, skip_special: bool) -> DecodeStream<'_> {
        DecodeStream::new(self, skip_special)
    }

    /// The highest token id plus one. A model may have more rows than this (padding), but not
    /// fewer.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The id of the token with exactly this text in the vocabulary.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The texts of the special tokens, by role.
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.special
    }

    /// The id of the special token with this role (`"bos_token"`, `"eos_token"`, ...).
    pub fn special_id(&self, role: &str) -> Option<u32> {
        self.special.get(role).and_then(|text| self.token_id(text))
    }

    /// The id of the special token with exactly this text. [`decode`](Self::decode) can leave such
    /// tokens out.
    pub fn special_token(&self, text: &str) -> Option<u32> {
        self.token_id(text).filter(|_| self.is_special(text))
    }

    /// The text of the token with this id, if it is a special one.
    pub fn special_text(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id).filter(|text| self.is_special(text))
    }

    fn is_special(&self, text: &str) -> bool {
        self.inner.get_added_vocabulary().is_special_token(text)
    }

    /// The lowest token whose text differs in another tokenizer: its id, and its texts here and
    /// there, each in the vocabulary's spelling and missing if there is no such token. None if both
    /// have the same tokens.
    pub fn first_difference(&self, other: &Self) -> Option<(u32, [Option<String>; 2])> {
        (0..self.vocab_size.max(other.vocab_size) as u32)
            .map(|id| (id, [self, other].map(|tokenizer| tokenizer.inner.id_to_token(id))))
            .find(|(_, [here, there])| here != there)
    }

    /// Checks that `model_vocab` embedding rows suffice for every id of this tokenizer.
    ///
    /// # Errors
    /// [`Error::Invalid`] about `model_path` naming the lowest token without a row.
    pub fn check_against(&self, model_vocab: usize, model_path: &Path) -> Result<()> {
        if self.vocab_size <= model_vocab {
            return Ok(());
        }
        let without_row =
            self.inner.get_vocab(true).into_iter().filter(|(_, id)| *id as usize >= model_vocab);
        let Some((token, id)) = without_row.min_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0))) else {
            return Ok(());
        };
        Err(Error::invalid(
            model_path,
            format!(
                "the model's vocabulary has {model_vocab} rows, but token {token:?} of {} has id \
                 {id}",
                self.path.display()
            ),
        ))
    }

    /// The token with this id in the vocabulary's spelling; None if decoding leaves it out.
    fn shown(&self, id: u32, skip_special: bool) -> Option<String> {
        let token = self.inner.id_to_token(id)?;
        (!skip_special || !self.is_special(&token)).then_some(token)
    }
}

/// The file of a tokenizer that predates `tokenizer.json`, if `dir` has one.
fn older_format(dir: &Path) -> Option<&'static str> {
    let there = |name: &str| dir.join(name).exists();
    let model = ["tokenizer.model", "spiece.model", "tekken.json", "vocab.txt"]
        .into_iter()
        .find(|name| there(name));
    model.or_else(|| (there("vocab.json") && there("merges.txt")).then_some("vocab.json"))
}

/// Calls the `tokenizers` crate, which panics on some malformed files and on some texts with
/// tokenizers of such files.
fn library<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    contain(|| call().map_err(|e| e.to_string()), |_| "its parts contradict each other".to_owned())
}
