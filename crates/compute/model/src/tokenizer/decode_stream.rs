//! Decoding token by token. The pieces together equal the text decoded at once.

use tokenizers::DecoderWrapper;

use super::Tokenizer;
use crate::Result;

/// Most tokens decoded together, reached only if decoded text stays empty or unfinished for this
/// long.
const MAX_WINDOW: usize = 64;

/// Turns sampled tokens into text as soon as the text is final.
///
/// The pieces returned by [`push`](Self::push) and [`finish`](Self::finish), one after the other,
/// are the [`decode`](Tokenizer::decode) of all tokens pushed, and none of them splits a character.
/// The cost of a token does not depend on how many came before.
#[derive(Debug)]
pub struct DecodeStream<'a> {
    tokenizer: &'a Tokenizer,
    skip_special: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Every token is a run of bytes. The waiting bytes begin one character.
    Bytes(Vec<u8>),
    /// Any other decoder may look at neighbouring tokens. So a token is decoded after `context`,
    /// whose text is out, and the text that it adds is the new piece.
    Window { context: Vec<u32>, pending: Vec<u32>, holds_byte_tokens: bool },
}

impl<'a> DecodeStream<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, skip_special: bool) -> Self {
        let state = match tokenizer.inner.get_decoder() {
            Some(DecoderWrapper::ByteLevel(_)) => State::Bytes(Vec::new()),
            decoder => State::Window {
                context: Vec::new(),
                pending: Vec::new(),
                holds_byte_tokens: decoder.is_some_and(has_byte_fallback),
            },
        };
        Self { tokenizer, skip_special, state }
    }

    /// Adds the next token. Returns the text that became final, often empty.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn push(&mut self, id: u32) -> Result<String> {
        let Some(token) = self.tokenizer.shown(id, self.skip_special) else {
            return Ok(String::new());
        };
        match &mut self.state {
            State::Bytes(waiting) => {
                waiting.extend(token_bytes(&token));
                Ok(take_characters(waiting))
            }
            State::Window { pending, holds_byte_tokens, .. } => {
                pending.push(id);
                // One invalid byte turns its run of byte tokens into replacement characters, so a
                // run is final only when another token ends it.
                if *holds_byte_tokens && is_byte_token(&token) {
                    return Ok(String::new());
                }
                self.advance(false)
            }
        }
    }

    /// Ends the stream and returns the waiting text, an unfinished character as U+FFFD.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn finish(mut self) -> Result<String> {
        match &self.state {
            State::Bytes(waiting) => Ok(String::from_utf8_lossy(waiting).into_owned()),
            State::Window { .. } => self.advance(true),
        }
    }

    /// Decodes the pending tokens after their context. If the result is final, they become the
    /// context.
    fn advance(&mut self, end: bool) -> Result<String> {
        let State::Window { context, pending, .. } = &mut self.state else {
            return Ok(String::new());
        };
        if pending.is_empty() {
            return Ok(String::new());
        }
        let before = self.tokenizer.decode(context, false)?;
        let window = [context.as_slice(), pending.as_slice()].concat();
        let whole = self.tokenizer.decode(&window, false)?;
        let at_limit = end || window.len() >= MAX_WINDOW;
        // A replacement character at the end may be the start of an unfinished character.
        if whole.ends_with('\u{FFFD}') && !at_limit {
            return Ok(String::new());
        }
        let piece = match whole.strip_prefix(&before) {
            Some(piece) => piece.to_owned(),
            None if at_limit => self.tokenizer.decode(pending, false)?,
            None => return Ok(String::new()),
        };
        // Without a text before it the next token would look like the first one, whose leading
        // space some decoders strip.
        let alone = self.tokenizer.decode(pending, false)?;
        *context = if alone.is_empty() && !at_limit { window } else { std::mem::take(pending) };
        pending.clear();
        Ok(piece)
    }
}

/// Takes all complete text from `waiting`, and leaves the possible beginning of a character. Cuts
/// like `String::from_utf8_lossy`, so replacement characters agree.
fn take_characters(waiting: &mut Vec<u8>) -> String {
    let mut unfinished = 0;
    let mut checked = 0;
    while let Err(e) = std::str::from_utf8(&waiting[checked..]) {
        match e.error_len() {
            Some(invalid) => checked += e.valid_up_to() + invalid,
            None => {
                unfinished = waiting.len() - checked - e.valid_up_to();
                break;
            }
        }
    }
    let rest = waiting.split_off(waiting.len() - unfinished);
    let text = String::from_utf8_lossy(waiting).into_owned();
    *waiting = rest;
    text
}

/// The bytes of a byte-level token, or of its text if that is not in the byte-level alphabet, as
/// for some added tokens.
fn token_bytes(token: &str) -> Vec<u8> {
    token.chars().map(byte_of).collect::<Option<_>>().unwrap_or_else(|| token.as_bytes().to_vec())
}

/// The byte that GPT-2's alphabet writes as `c`: printable Latin-1 stands for itself, and the 68
/// other bytes, in order, are the characters from U+0100.
fn byte_of(c: char) -> Option<u8> {
    let itself = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match u8::try_from(c) {
        Ok(byte) => itself(byte).then_some(byte),
        Err(_) => (0..=255).filter(|&byte| !itself(byte)).nth(c as usize - 0x100),
    }
}

fn has_byte_fallback(decoder: &DecoderWrapper) -> bool {
    match decoder {
        DecoderWrapper::ByteFallback(_) => true,
        DecoderWrapper::Sequence(sequence) => sequence.get_decoders().iter().any(has_byte_fallback),
        _ => false,
    }
}

/// Whether a token is one raw byte, written `<0xHH>`.
fn is_byte_token(token: &str) -> bool {
    token
        .strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'))
        .is_some_and(|hex| hex.len() == 2 && u8::from_str_radix(hex, 16).is_ok())
}
