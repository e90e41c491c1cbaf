//! Text to token ids and back, from the `tokenizer.json` of a model directory.
//!
//! The algorithms are those of the `tokenizers` crate; here are its bounds, its errors in the house
//! style, and what transformers adds around it.

mod bounds;
mod continuation;
mod decode_stream;
mod losses;
mod parts;
mod special_tokens;

use std::ops::Range;
use std::path::{Path, PathBuf};

use tokenizers::{AddedToken, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizerWrapper};

use self::bounds::BoundedNormalizer;
use self::continuation::Continuation;
pub use self::decode_stream::DecodeStream;
use self::losses::Losses;
pub use self::special_tokens::SpecialTokens;
use crate::contain::contain;
use crate::json_file::find_bytes;
use crate::{Error, Result};

/// Largest `tokenizer.json` read, in bytes; the largest vocabularies in use take about a tenth of
/// it.
const MAX_TOKENIZER_BYTES: u64 = 256 << 20;

/// A model's tokenizer, as `AutoTokenizer` of transformers would load it.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Of a tokenizer that marks where texts begin, how a text goes on.
    continuation: Option<Continuation>,
    path: PathBuf,
    special: SpecialTokens,
    vocab_size: usize,
    losses: Losses,
}

impl Tokenizer {
    /// Reads `tokenizer.json` in `dir`, and the special tokens of `tokenizer_config.json` and
    /// `special_tokens_map.json`. `None` when `dir` holds no tokenizer at all: work on token ids
    /// needs none.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when `dir` holds a tokenizer in an older format only, [`Error::Io`]
    /// when a file cannot be read, [`Error::Invalid`] when it is malformed or larger than 256 MiB.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join("tokenizer.json");
        let Some(bytes) = find_bytes(&path, MAX_TOKENIZER_BYTES)? else {
            return match older_format(dir) {
                Some(file) => Err(Error::unsupported(
                    &dir.join(file),
                    "this tokenizer format cannot be read; write a tokenizer.json beside it with transformers: \
                     AutoTokenizer.from_pretrained(dir).save_pretrained(dir)",
                )),
                None => Ok(None),
            };
        };
        let special = SpecialTokens::read(dir)?;
        library(|| Ok(parts::check(&bytes)))
            .and_then(|checked| checked)
            .map_err(|what| Error::invalid(&path, what))?;
        let mut inner: tokenizers::Tokenizer = library(|| tokenizers::Tokenizer::from_bytes(&bytes))
            .map_err(|e| Error::invalid(&path, format!("is not a valid tokenizer: {e}")))?;
        // Files may carry the truncation and padding of their last use; a plain call in
        // transformers has neither.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| Error::invalid(&path, e.to_string()))?;
        // A token named in tokenizer_config.json is special even where tokenizer.json does not say
        // so. One that the vocabulary lacks keeps its text for chat templates; giving it a new id
        // would not fit the model.
        let named: Vec<AddedToken> = special
            .iter()
            .filter(|(_, text)| {
                inner.token_to_id(text).is_some() && !inner.get_added_vocabulary().is_special_token(text)
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
        let tokenizer = Self { inner, continuation, path, special, vocab_size, losses: Losses::default() };
        // A post-processor may name tokens that it does not define, which shows only when it is
        // applied.
        tokenizer
            .encode("", true)
            .map_err(|_| Error::invalid(&tokenizer.path, "has a `post_processor` that cannot be applied"))?;
        Ok(Some(tokenizer))
    }

    /// Token ids of `text`. Special tokens written out in `text` become their ids. With
    /// `add_special` the tokenizer's post-processor adds what it adds (such as a leading bos), as
    /// `tokenizer(text)` does in transformers; rendered chats already contain theirs and are
    /// encoded without.
    ///
    /// # Errors
    /// [`Error::Input`] when the tokenizer cannot represent `text` and has no unknown token, or
    /// makes a text many times as long of it. Some leave out what they lack instead:
    /// [`take_loss`](Self::take_loss) tells.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        self.encode_by((self.inner.get_normalizer(), self.inner.get_pre_tokenizer()), text, add_special)
    }

    /// Token ids of `text` as it stands behind `before`, none of whose tokens change. Where a
    /// tokenizer marks how texts begin (a space before the first word, as SentencePiece's do),
    /// `text` gets no such mark but where the two together would get one: behind nothing, and of
    /// some behind a special token.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_after(&self, before: &str, text: &str) -> Result<Vec<u32>> {
        let Some(Continuation { normalizer, pre_tokenizer, marks_each_piece }) = &self.continuation else {
            return self.encode(text, false);
        };
        let marked =
            *marks_each_piece && self.plain_pieces(before)?.last().is_none_or(|last| last.end < before.len());
        if before.is_empty() || marked {
            return self.encode(text, false);
        }
        // What is behind a special token of its own begins as it would in the whole.
        let first =
            self.plain_pieces(text)?.first().filter(|first| first.start == 0).map_or(0, |first| first.end);
        let (first, rest) = text.split_at(first);
        let mut tokens = self.encode_by((normalizer.as_ref(), pre_tokenizer.as_ref()), first, false)?;
        tokens.extend(self.encode(rest, false)?);
        Ok(tokens)
    }

    /// Where in a text what is no added token stands.
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
            pieces.tokenize(|piece| self.losses.tokenize(self.inner.get_model(), piece))?;
            let encoding = pieces.into_encoding(None, 0, OffsetType::None)?;
            self.inner.post_process(encoding, None, add_special)
        })
        .map_err(|what| self.cannot_encode(&what))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// What the texts encoded since the last call have lost for want of a token, if anything: a
    /// sentence about the first.
    pub fn take_loss(&self) -> Option<String> {
        self.losses.take()
    }

    /// The text of `ids`, without special tokens if `skip_special`. Ids outside the vocabulary have
    /// no text.
    ///
    /// # Errors
    /// [`Error::Input`] when the tokenizer's decoder gives up (a regular expression beyond its
    /// limits) or makes a text many times as long as the tokens.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        let shown: Vec<String> = ids.iter().filter_map(|&id| self.shown(id, skip_special)).collect();
        // Nothing is nothing: one of the decoders fails on it.
        if shown.is_empty() {
            return Ok(String::new());
        }
        library(|| bounds::decode(self.inner.get_decoder(), shown))
            .map_err(|e| Error::Input(format!("{}: cannot decode the tokens: {e}", self.path.display())))
    }

    /// Decodes a response while it is being sampled.
    pub fn decode_stream(&self, skip_special: bool) -> DecodeStream<'_> {
        DecodeStream::new(self, skip_special)
    }

    /// The highest token id plus one. A model may have more rows than this (padding), never fewer.
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

    /// The id of the special token with exactly this text. Such tokens are what
    /// [`decode`](Self::decode) can leave out.
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

    /// Checks that a model with `model_vocab` embedding rows has one for every id this tokenizer
    /// can produce.
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
                "the model's vocabulary has {model_vocab} rows, but token {token:?} of {} has id {id}",
                self.path.display()
            ),
        ))
    }

    /// The token with this id as written in the vocabulary, unless decoding leaves it out.
    fn shown(&self, id: u32, skip_special: bool) -> Option<String> {
        let token = self.inner.id_to_token(id)?;
        (!skip_special || !self.is_special(&token)).then_some(token)
    }
}

/// The file of a tokenizer that predates `tokenizer.json`, if `dir` has one.
fn older_format(dir: &Path) -> Option<&'static str> {
    let there = |name: &str| dir.join(name).exists();
    let model =
        ["tokenizer.model", "spiece.model", "tekken.json", "vocab.txt"].into_iter().find(|name| there(name));
    model.or_else(|| (there("vocab.json") && there("merges.txt")).then_some("vocab.json"))
}

/// Calls into the `tokenizers` crate, which panics on some malformed files and on some texts given
/// to a tokenizer that such a file describes.
fn library<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    contain(|| call().map_err(|e| e.to_string()), |_| "its parts contradict each other".to_owned())
}
