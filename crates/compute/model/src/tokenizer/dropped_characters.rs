//! Characters of a text that have no token.
//!
//! A byte-pair vocabulary without an unknown token (a character-level one, say) may lack a
//! character. Like transformers we leave it out, and tell the user, as the text changes. Characters
//! that normalizers and pre-tokenizers remove on purpose never come here.

use std::sync::{Mutex, PoisonError};

use tokenizers::normalizer::Range;
use tokenizers::{Model, ModelWrapper, NormalizedString, Token};

/// Characters dropped since the last report.
#[derive(Debug, Default)]
pub(super) struct DroppedCharacters(Mutex<Option<Dropped>>);

#[derive(Debug)]
struct Dropped {
    /// A sentence about the first.
    first: String,
    /// The number of dropped characters, in the user's spelling.
    count: usize,
}

impl DroppedCharacters {
    /// Tokenizes a piece of text by the tokenizer's model.
    pub fn tokenize(
        &self,
        model: &ModelWrapper,
        piece: &NormalizedString,
    ) -> tokenizers::Result<Vec<Token>> {
        let tokens = model.tokenize(piece.get())?;
        if !cover(&tokens, piece.get()) {
            let more = Dropped::of(model, piece);
            let mut dropped = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *dropped {
                Some(dropped) => dropped.count += more.count,
                None => *dropped = Some(more),
            }
        }
        Ok(tokens)
    }

    /// Reports the characters dropped since the last call, as a sentence.
    pub fn take(&self) -> Option<String> {
        let Dropped { first, count } =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(match count - 1 {
            0 => first,
            1 => format!("{first}, as is 1 more character"),
            more => format!("{first}, as are {more} more characters"),
        })
    }
}

impl Dropped {
    fn of(model: &ModelWrapper, piece: &NormalizedString) -> Self {
        // The user's spelling: a piece may be in the byte-level alphabet, with several characters
        // for one.
        let original = |at| piece.convert_offsets(Range::Normalized(at));
        let mut dropped: Vec<_> =
            without_tokens(model, piece.get()).into_iter().filter_map(original).collect();
        dropped.dedup();
        let written = dropped.first().and_then(|at| piece.get_original().get(at.clone()));
        let mut characters = written.unwrap_or_default().chars();
        let first = match (characters.next(), characters.next()) {
            (Some(c), None) => {
                format!("no token stands for {c:?} (U+{:04X}), which is lost", c as u32)
            }
            _ => {
                let written = written.unwrap_or(piece.get_original());
                format!("no tokens stand for all of {written:?}: a part of it is lost")
            }
        };
        Self { first, count: dropped.len().max(1) }
    }
}

/// Whether tokens cover every byte. Offsets do not count left-out characters, so the last token
/// ends too early.
fn cover(tokens: &[Token], text: &str) -> bool {
    tokens.last().map_or(0, |token| token.offsets.1) == text.len()
}

/// Ranges of characters that have no token of their own. There may be none, as a character may have
/// a token only within a word.
fn without_tokens(model: &ModelWrapper, text: &str) -> Vec<std::ops::Range<usize>> {
    let has_none = |at: &std::ops::Range<usize>| {
        let character = &text[at.clone()];
        model.tokenize(character).is_ok_and(|tokens| !cover(&tokens, character))
    };
    text.char_indices().map(|(at, c)| at..at + c.len_utf8()).filter(has_none).collect()
}
