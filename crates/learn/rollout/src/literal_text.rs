//! Special tokens in texts that the model is given, as plain text.
//!
//! A tool's answer may hold `<|im_end|>`, which an attacker may have written. A word stands in its
//! place while the chat template renders the messages. Then the text behind the word is encoded in
//! parts of which none is a special token: `<` and `|im_end|>`. Tokens of a chat template stay
//! what they are.

use isentrope_model::tokenizer::Tokenizer;
use serde_json::Value;

/// Times that a text is searched again, since a word may bring the characters around it together.
const SEARCHES: usize = 4;

/// The special tokens that messages hold.
#[derive(Debug, Default)]
pub(crate) struct LiteralTexts(Vec<LiteralText>);

#[derive(Debug)]
struct LiteralText {
    text: String,
    /// Stands in its place.
    word: String,
}

impl LiteralTexts {
    /// Puts words in the place of special tokens in the messages' texts.
    ///
    /// # Errors
    /// When that leaves special tokens, or the tokenizer cannot encode a text.
    pub fn take(tokenizer: &Tokenizer, messages: &mut [Value]) -> Result<Self, String> {
        let mut all = Self::default();
        let stem = unused_word(&Value::from(&*messages).to_string());
        for message in messages {
            let Some(content) = message["content"].as_str() else { continue };
            let mut content = content.to_owned();
            for search in 0.. {
                let found = special_tokens(tokenizer, &content)?;
                if found.is_empty() {
                    break;
                }
                if search == SEARCHES {
                    let found = found.join(", ");
                    return Err(format!("a message has {found}, which cannot be plain text"));
                }
                for text in found {
                    let word = format!("{stem}x{}x", all.0.len());
                    content = content.replace(&text, &word);
                    all.0.push(LiteralText { text, word });
                }
            }
            message["content"] = content.into();
        }
        Ok(all)
    }

    /// Puts the special tokens back into the messages.
    pub fn put_back(&self, messages: &mut [Value]) {
        for message in messages.iter_mut().filter(|_| !self.0.is_empty()) {
            let content = message["content"].as_str().unwrap_or_default();
            message["content"] = self.restored(content).into();
        }
    }

    /// A text with the special tokens.
    pub fn restored(&self, text: &str) -> String {
        let put_back = |text: String, of: &LiteralText| text.replace(&of.word, &of.text);
        self.0.iter().fold(text.to_owned(), put_back)
    }

    /// The tokens of a text behind `before`; special tokens that stand behind words are plain text.
    ///
    /// # Errors
    /// When the tokenizer cannot encode the text, or has no plain tokens for a special one's text.
    pub fn encode_after(
        &self,
        tokenizer: &Tokenizer,
        before: &str,
        text: &str,
    ) -> Result<Vec<u32>, String> {
        let (mut tokens, mut before, mut rest) = (Vec::new(), before.to_owned(), text);
        let mut push = |part: &str| {
            let encoded = tokenizer.encode_after(&before, part).map_err(|e| e.to_string())?;
            tokens.extend(encoded);
            before.push_str(part);
            Ok::<(), String>(())
        };
        let first = |rest: &str| {
            let found = self.0.iter().filter_map(|of| Some((rest.find(&of.word)?, of)));
            found.min_by_key(|(at, _)| *at)
        };
        while let Some((at, literal)) = first(rest) {
            push(&rest[..at])?;
            for part in plain_parts(tokenizer, &literal.text)? {
                push(part)?;
            }
            rest = &rest[at + literal.word.len()..];
        }
        push(rest)?;
        Ok(tokens)
    }
}

/// The special tokens that a text is encoded with and holds.
fn special_tokens(tokenizer: &Tokenizer, text: &str) -> Result<Vec<String>, String> {
    let tokens = tokenizer.encode(text, false).map_err(|e| e.to_string())?;
    let mut found: Vec<String> =
        tokens.into_iter().filter_map(|token| tokenizer.special_text(token)).collect();
    found.sort_unstable();
    found.dedup();
    // An unknown character's token is special too.
    found.retain(|special| text.contains(special));
    Ok(found)
}

/// A text in parts that are encoded without special tokens: as few as can be from its beginning.
fn plain_parts<'a>(tokenizer: &Tokenizer, text: &'a str) -> Result<Vec<&'a str>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !special_tokens(tokenizer, rest)?.is_empty() {
        let end = rest.char_indices().nth(1).map_or(rest.len(), |(at, _)| at);
        let (first, behind) = rest.split_at(end);
        if !special_tokens(tokenizer, first)?.is_empty() {
            return Err(format!("a message has {first:?}, which cannot be plain text"));
        }
        parts.push(first);
        rest = behind;
    }
    parts.push(rest);
    Ok(parts)
}

/// A word that a text does not have.
fn unused_word(text: &str) -> String {
    let mut word = "5e2b9d41".to_owned();
    while text.contains(&word) {
        word.push('0');
    }
    word
}
