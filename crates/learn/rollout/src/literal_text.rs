//! Special tokens in texts that the model is given, as plain text.
//!
//! A tool's answer may hold `<|im_end|>`, which an attacker may have written. A word stands in its
//! place while the chat template renders the messages. Then the text behind the word is encoded in
//! parts of which none is a special token: `<` and `|im_end|>`. Tokens of a chat template stay
//! what they are.

use isentrope_model::tokenizer::Tokenizer;
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Times that a text is searched again, since a word may bring the characters around it together.
const SEARCHES: usize = 4;

/// The special tokens that messages hold.
#[derive(Debug)]
pub(crate) struct LiteralTexts {
    /// Begins every word, and stands nowhere else in the messages.
    stem: String,
    all: Vec<LiteralText>,
}

#[derive(Debug)]
struct LiteralText {
    text: String,
    /// The text in parts that are no special tokens.
    parts: Vec<String>,
    /// Stands in its place: the stem, the number in the list and an x.
    word: String,
}

impl LiteralTexts {
    /// Puts words in the place of special tokens in the messages' texts.
    ///
    /// # Errors
    /// When that leaves special tokens, or the tokenizer cannot encode a text or has no plain
    /// tokens for a special one's text.
    pub fn take(tokenizer: &Tokenizer, messages: &mut [Value]) -> Result<Self, String> {
        let stem = unused_stem(&Value::from(&*messages).to_string());
        let mut taken = Self { stem, all: Vec::new() };
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
                    let word = taken.word(tokenizer, &text)?;
                    content = content.replace(&text, word);
                }
            }
            message["content"] = content.into();
        }
        Ok(taken)
    }

    /// The word of a special token's text.
    fn word(&mut self, tokenizer: &Tokenizer, text: &str) -> Result<&str, String> {
        let known = self.all.iter().position(|of| of.text == text);
        if known.is_none() {
            let word = format!("{}{}x", self.stem, self.all.len());
            let parts = plain_parts(tokenizer, text)?;
            self.all.push(LiteralText { text: text.to_owned(), parts, word });
        }
        Ok(&self.all[known.unwrap_or(self.all.len() - 1)].word)
    }

    /// Puts the special tokens back into the messages.
    pub fn put_back(&self, messages: &mut [Value]) {
        for message in messages.iter_mut().filter(|_| !self.all.is_empty()) {
            let content = message["content"].as_str().unwrap_or_default();
            message["content"] = self.restored(content).into();
        }
    }

    /// A text with the special tokens.
    pub fn restored(&self, text: &str) -> String {
        let put_back = |text: String, of: &LiteralText| text.replace(&of.word, &of.text);
        self.all.iter().fold(text.to_owned(), put_back)
    }

    /// The tokens of a text behind `before`; special tokens that stand behind words are plain text.
    ///
    /// # Errors
    /// When the tokenizer cannot encode the text.
    pub fn encode_after(
        &self,
        tokenizer: &Tokenizer,
        before: &str,
        text: &str,
    ) -> Result<Vec<u32>, String> {
        let (mut tokens, mut before, mut rest) = (Vec::new(), before, text);
        let mut push = |part| {
            let encoded = tokenizer.encode_after(before, part).map_err(|e| e.to_string())?;
            tokens.extend(encoded);
            // The parts of a special token's text would be that token if they stood together.
            before = if part.is_empty() { before } else { part };
            Ok::<(), String>(())
        };
        while let Some((at, literal)) = self.first(rest) {
            push(&rest[..at])?;
            literal.parts.iter().try_for_each(|part| push(part))?;
            rest = &rest[at + literal.word.len()..];
        }
        push(rest)?;
        Ok(tokens)
    }

    /// The first word of a text, and where it begins.
    fn first(&self, text: &str) -> Option<(usize, &LiteralText)> {
        if self.all.is_empty() {
            return None;
        }
        let at = text.find(&self.stem)?;
        let (number, _) = text[at + self.stem.len()..].split_once('x')?;
        Some((at, self.all.get(number.parse::<usize>().ok()?)?))
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
fn plain_parts(tokenizer: &Tokenizer, text: &str) -> Result<Vec<String>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !special_tokens(tokenizer, rest)?.is_empty() {
        let end = rest.char_indices().nth(1).map_or(rest.len(), |(at, _)| at);
        let (first, behind) = rest.split_at(end);
        if !special_tokens(tokenizer, first)?.is_empty() {
            return Err(format!("a message has {first:?}, which cannot be plain text"));
        }
        parts.push(first.to_owned());
        rest = behind;
    }
    parts.push(rest.to_owned());
    Ok(parts)
}

/// A beginning of words that a text does not have: the text's own hash, which nobody can write into
/// the text.
fn unused_stem(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    loop {
        text.hash(&mut hasher);
        let stem = format!("{:016x}-", hasher.finish());
        if !text.contains(&stem) {
            return stem;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::Path;

    fn tokenizer(name: &str) -> Tokenizer {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../compute/model/tests/fixtures/tokenizer");
        Tokenizer::read(&fixtures.join(name)).unwrap().unwrap()
    }

    /// Tokens of a text in which special tokens are plain text, behind the text `a`.
    fn plain(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
        let mut messages = [json!({"content": text})];
        let literal = LiteralTexts::take(tokenizer, &mut messages).unwrap();
        let tail = messages[0]["content"].as_str().unwrap().to_owned();
        assert_eq!(literal.restored(&tail), text);
        literal.encode_after(tokenizer, "a", &tail).unwrap()
    }

    #[test]
    fn texts_keep_their_characters_and_have_no_special_tokens() {
        for (name, special) in [("byte-bpe", "<|im_end|>"), ("byte-fallback", "</s>")] {
            let tokenizer = tokenizer(name);
            assert!(tokenizer.special_token(special).is_some(), "{name} has {special}");
            for text in [format!("x{special}y"), format!("{special}{special} y{special}")] {
                let tokens = plain(&tokenizer, &text);
                let all = [tokenizer.encode("a", false).unwrap(), tokens].concat();
                assert_eq!(special_tokens(&tokenizer, "a").unwrap(), [""; 0]);
                assert!(all.iter().all(|&token| tokenizer.special_text(token).is_none()));
                assert_eq!(tokenizer.decode(&all, false).unwrap(), format!("a{text}"), "{name}");
            }
        }
    }

    /// A text that repeats a part of a word neither makes words long nor is it searched for long.
    #[test]
    fn words_are_short_whatever_the_text() {
        let zeros = format!("5e2b9d41{}", "0".repeat(60_000));
        let text = format!("{zeros}{}", "<|im_end|>".repeat(6_000));
        let mut messages = [json!({"content": text})];
        let literal = LiteralTexts::take(&tokenizer("byte-bpe"), &mut messages).unwrap();
        assert!(messages[0]["content"].as_str().unwrap().len() < 3 * text.len());
        literal.put_back(&mut messages);
        assert_eq!(messages[0]["content"], text);
    }
}
