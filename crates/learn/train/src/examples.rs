//! Encodes an example as tokens, and marks the tokens that are learnt.

use crate::error::{Error, Result};
use crate::learner::Coefficients;
use isentrope_data::{Content, Example, Template};
use isentrope_model::Sequence;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_rollout::Prompter;
use serde_json::Value;

/// An example's tokens.
pub struct TokenizedExample {
    /// All of them.
    pub tokens: Vec<u32>,
    /// Which are learnt, `[tokens]`.
    learnt: Vec<bool>,
}

/// Encodes an example.
pub fn tokenize(example: &Example, prompter: &Prompter) -> Result<TokenizedExample> {
    encode(example, prompter).map_err(|what| Error::Run(format!("{}: {what}", example.origin)))
}

/// Encodes an example.
///
/// # Errors
/// A sentence: the chat cannot be rendered, or there is nothing to learn.
pub(crate) fn encode(example: &Example, prompter: &Prompter) -> Result<TokenizedExample, String> {
    let tokenized = match &example.content {
        Content::Response { prompt, response } => {
            let (mut tokens, response) = prompter.tokens_with_response(prompt, response)?;
            let mut learnt = vec![false; tokens.len()];
            tokens.extend(response);
            tokens.extend(prompter.end_token());
            learnt.resize(tokens.len(), true);
            TokenizedExample { tokens, learnt }
        }
        Content::Messages { messages, tools } => chat(messages.clone(), tools, prompter)?,
    };
    if tokenized.learnt() == 0 {
        return Err("there is no token to learn after the prompt".into());
    }
    Ok(tokenized)
}

/// Encodes a chat. The model learns what the template writes from the beginning of an assistant's
/// turn to its end.
fn chat(
    mut messages: Vec<Value>,
    tools: &[Value],
    prompter: &Prompter,
) -> Result<TokenizedExample, String> {
    if prompter.template().0 == Template::None {
        return Err(
            "the row is a chat, which only a chat template can write, and data.template is \
             \"none\""
                .into(),
        );
    }
    prompter.add_system(&mut messages);
    let mut example = TokenizedExample { tokens: Vec::new(), learnt: Vec::new() };
    let mut text = String::new();
    let mut go_to = |full: String, learns: bool| -> Result<(), String> {
        let new = full.strip_prefix(&text).ok_or(
            "the chat template does not render a chat's beginning as the beginning of the chat, so \
             its turns cannot be told apart",
        )?;
        let tokens = prompter.tokenizer.encode_after(&text, new).map_err(|e| e.to_string())?;
        example.tokens.extend(tokens);
        example.learnt.resize(example.tokens.len(), learns);
        text = full;
        Ok(())
    };
    for (i, message) in messages.iter().enumerate() {
        if message["role"] == "assistant" {
            go_to(prompter.apply_template(&messages[..i], tools, true)?, false)?;
            go_to(prompter.apply_template(&messages[..=i], tools, false)?, true)?;
        }
    }
    Ok(example)
}

impl TokenizedExample {
    /// The sequence for the model, scored from the first learnt token on.
    pub fn sequence(&self) -> Sequence<'_> {
        Sequence { tokens: &self.tokens, score_from: self.first() }
    }

    /// Whether each scored token is learnt, in order.
    pub fn learns(&self) -> impl Iterator<Item = bool> {
        self.learnt[self.first()..].iter().copied()
    }

    /// The learnt tokens.
    fn learnt_tokens(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.tokens
            .iter()
            .zip(&self.learnt)
            .skip(1)
            .filter(|(_, learnt)| **learnt)
            .map(|(&token, _)| token)
    }

    /// Whether none of these tokens is learnt.
    pub(crate) fn learns_none_of(&self, tokens: &[u32]) -> bool {
        self.learnt_tokens().all(|token| !tokens.contains(&token))
    }

    /// The last learnt special token, if there is one.
    pub(crate) fn last_special(&self, tokenizer: &Tokenizer) -> Option<String> {
        self.learnt_tokens().rev().find_map(|token| tokenizer.special_text(token))
    }

    /// How many tokens are learnt.
    pub fn learnt(&self) -> usize {
        self.learnt_tokens().count()
    }

    /// The place of the first learnt token; token 0 is never learnt, because nothing predicts it.
    fn first(&self) -> usize {
        self.learnt.iter().skip(1).position(|l| *l).map_or(self.tokens.len(), |i| i + 1)
    }

    /// The text, with the learnt parts in brackets.
    pub fn marked(&self, tokenizer: &Tokenizer) -> Result<String> {
        let mut text = String::new();
        let mut at = 0;
        for run in self.learnt.chunk_by(|a, b| a == b) {
            let part = tokenizer.decode(&self.tokens[at..at + run.len()], false)?;
            at += run.len();
            text += &if run[0] { format!("⟦{part}⟧") } else { part };
        }
        Ok(text)
    }
}

impl Coefficients {
    /// The derivatives of the mean negative log-prob over the `learnt` tokens of a batch.
    pub fn cross_entropy(batch: &[TokenizedExample], learnt: usize) -> Self {
        let each = -1.0 / learnt.max(1) as f32;
        let d_logprobs: Vec<f32> = batch
            .iter()
            .flat_map(TokenizedExample::learns)
            .map(|l| if l { each } else { 0.0 })
            .collect();
        Self { d_entropies: vec![0.0; d_logprobs.len()], d_logprobs, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_data::{DataSettings, Prompt};
    use serde_json::json;
    use std::fs;
    use std::path::Path;

    /// A tokenizer that begins every text with a space, as Llama 2's does, and a template that
    /// writes one message after the other.
    fn prompter(settings: &DataSettings) -> Prompter {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../compute/model/tests/fixtures/tokenizer/byte-fallback");
        let dir = tempfile::tempdir().unwrap();
        for name in ["tokenizer.json", "tokenizer_config.json"] {
            fs::copy(fixture.join(name), dir.path().join(name)).unwrap();
        }
        let template = "{{ bos_token }}{% for tool in tools or [] %}{{ tool.name }}{% endfor %}\
                        {% for message in messages %}{{ message.content }}\
                        {% if message.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}";
        fs::write(dir.path().join("chat_template.jinja"), template).unwrap();
        Prompter::read(dir.path(), 270, settings).unwrap()
    }

    fn encoded(content: Content, settings: &DataSettings) -> Result<(Vec<u32>, Vec<bool>), String> {
        let example = Example { content, origin: "row 1".into() };
        encode(&example, &prompter(settings)).map(|example| (example.tokens, example.learnt))
    }

    #[test]
    fn a_response_begins_without_a_space_of_its_own() {
        let plain = DataSettings { template: Template::None, ..DataSettings::default() };
        let tokenizer = prompter(&plain).tokenizer;
        let ids = |tokens: &[&str]| -> Vec<u32> {
            tokens.iter().map(|token| tokenizer.token_id(token).unwrap()).collect()
        };
        let prompt = Prompt::Text("a".into());
        for (response, tokens) in
            [("two", ["<s>", "▁a", "two", "</s>"]), (" two", ["<s>", "▁a", "▁two", "</s>"])]
        {
            let content = Content::Response { prompt: prompt.clone(), response: response.into() };
            let (found, learnt) = encoded(content, &plain).unwrap();
            assert_eq!((found, learnt), (ids(&tokens), vec![false, false, true, true]));
        }
    }

    #[test]
    fn a_chat_is_encoded_as_the_text_that_its_template_writes() {
        let turn = |role: &str, content: &str| json!({"role": role, "content": content});
        let messages = vec![
            turn("user", "a"),
            turn("assistant", "two"),
            turn("user", "b"),
            turn("assistant", " two"),
            turn("user", "a"),
        ];
        let chat = |tools: Vec<Value>| Content::Messages { messages: messages.clone(), tools };
        let tools = vec![json!({"name": "o"})];
        for (settings, tools, text) in [
            (DataSettings::default(), vec![], "<s>atwo</s>b two</s>"),
            (DataSettings::default(), tools, "<s>oatwo</s>b two</s>"),
            (
                DataSettings { system: Some("w".into()), ..DataSettings::default() },
                vec![],
                "<s>watwo</s>b two</s>",
            ),
        ] {
            let (tokens, learnt) = encoded(chat(tools), &settings).unwrap();
            let tokenizer = prompter(&settings).tokenizer;
            assert_eq!(tokens, tokenizer.encode(text, false).unwrap(), "{text}");
            let taught: Vec<u32> =
                tokens.iter().zip(learnt).filter(|(_, learnt)| *learnt).map(|(&t, _)| t).collect();
            let words =
                ["two", "</s>", "▁two", "</s>"].map(|token| tokenizer.token_id(token).unwrap());
            assert_eq!(taught, words, "{text}");
        }
        let none = DataSettings { template: Template::None, ..DataSettings::default() };
        let error = encoded(chat(Vec::new()), &none).unwrap_err();
        assert!(error.contains("a chat") && error.contains("data.template is \"none\""), "{error}");
    }
}
