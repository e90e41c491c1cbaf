//! Problems with a ground truth, and examples to imitate.

use std::collections::HashSet;

use isentrope_files::sha256;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rows::{Row, text_bytes};

/// Bytes of text that any prompt may have, and further bytes per token. The longest tokens of real
/// vocabularies have 128.
const BYTES_ALWAYS: usize = 64 << 10;
const BYTES_PER_TOKEN: usize = 256;

/// Question to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Prompt {
    /// Plain text.
    Text(String),
    /// Plain text that the model continues, without the chat template.
    Beginning(String),
    /// Messages of a chat, each an object with `role` and `content`.
    Chat(Vec<Value>),
}

impl Prompt {
    /// The text, or the last message of the user.
    pub fn question(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Beginning(text) => Some(text),
            Self::Chat(messages) => last_of_user(messages)?.get("content")?.as_str(),
        }
    }

    /// Whether it is a chat without messages, which an environment is to write.
    pub fn is_empty_chat(&self) -> bool {
        self.messages().is_some_and(<[Value]>::is_empty)
    }

    /// The messages of a chat.
    pub fn messages(&self) -> Option<&[Value]> {
        match self {
            Self::Text(_) | Self::Beginning(_) => None,
            Self::Chat(messages) => Some(messages),
        }
    }

    /// Whether the prompt may fit this many tokens. A text of more than 64 KiB and 256 bytes per
    /// token is too long, which saves encoding it.
    pub fn may_fit(&self, tokens: usize) -> bool {
        may_fit(self.bytes(), tokens)
    }

    /// Bytes of its texts.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Beginning(text) => text.len(),
            Self::Chat(messages) => messages.iter().map(text_bytes).sum(),
        }
    }

    /// Puts texts before and after the question.
    pub fn surround(&mut self, before: &str, after: &str) {
        match self {
            Self::Text(text) | Self::Beginning(text) => *text = format!("{before}{text}{after}"),
            Self::Chat(messages) => surround_last(messages, before, after),
        }
    }

    /// Puts another text in the question's place, if there is a question.
    pub fn ask(&mut self, question: String) {
        match self {
            Self::Text(text) | Self::Beginning(text) => *text = question,
            Self::Chat(messages) => {
                let message = messages.iter_mut().rfind(|message| message["role"] == "user");
                if let Some(content) = message.and_then(|message| message.get_mut("content")) {
                    *content = question.into();
                }
            }
        }
    }

    /// A text that only equal prompts share.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Text(text) | Self::Beginning(text) => Value::from(text.as_str()).to_string(),
            Self::Chat(messages) => Value::from(messages.clone()).to_string(),
        }
    }

    fn hash(&self) -> [u8; 32] {
        sha256(self.identity().as_bytes())
    }
}

/// Hashes of prompts, to find prompts that are asked elsewhere too.
#[derive(Clone, Debug, Default)]
pub struct Prompts(HashSet<[u8; 32]>);

impl Prompts {
    /// Whether this prompt is in the set, word for word.
    pub fn contains(&self, prompt: &Prompt) -> bool {
        self.0.contains(&prompt.hash())
    }
}

impl FromIterator<Prompt> for Prompts {
    fn from_iter<I: IntoIterator<Item = Prompt>>(prompts: I) -> Self {
        Self(prompts.into_iter().map(|prompt| prompt.hash()).collect())
    }
}

fn last_of_user(messages: &[Value]) -> Option<&Value> {
    messages.iter().rfind(|message| message["role"] == "user")
}

/// Puts texts before and after the last message of the user.
fn surround_last(messages: &mut [Value], before: &str, after: &str) {
    let message = messages.iter_mut().rfind(|message| message["role"] == "user");
    if let Some(content) = message.and_then(|message| message.get_mut("content"))
        && let Some(question) = content.as_str()
    {
        *content = format!("{before}{question}{after}").into();
    }
}

fn may_fit(bytes: usize, tokens: usize) -> bool {
    bytes <= BYTES_ALWAYS.saturating_add(tokens.saturating_mul(BYTES_PER_TOKEN))
}

/// A prompt whose responses can be verified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Question.
    pub prompt: Prompt,
    /// Reference that the verifier compares with.
    pub ground_truth: Value,
    /// Name of the problem's source in the data set, or empty.
    pub data_source: String,
    /// Further information of the data set.
    pub extra_info: Value,
    /// Further columns of the row, if the verifier takes them.
    #[serde(default, skip_serializing_if = "Row::is_empty")]
    pub columns: Row,
    /// Text that only a teacher is shown, if the settings name its column and the row has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Origin, such as `train.parquet row 17` or `countdown train 17`, with the path if two files
    /// share a name.
    pub origin: String,
}

/// A text to imitate.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The texts.
    pub content: Content,
    /// Origin, such as `train.jsonl row 17` or `countdown demonstration 17`.
    pub origin: String,
}

/// The texts of an [`Example`].
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A prompt and the response to learn.
    Response {
        /// Question.
        prompt: Prompt,
        /// Response.
        response: String,
    },
    /// A chat whose every message of the assistant is learnt.
    Messages {
        /// Each an object with `role` and `content`.
        messages: Vec<Value>,
        /// Tools for the chat template, each an object.
        tools: Vec<Value>,
    },
}

impl Content {
    /// Like [`Prompt::may_fit`], for all texts together.
    pub fn may_fit(&self, tokens: usize) -> bool {
        let bytes = match self {
            Self::Response { prompt, response } => prompt.bytes() + response.len(),
            Self::Messages { messages, tools } => {
                messages.iter().chain(tools).map(text_bytes).sum()
            }
        };
        may_fit(bytes, tokens)
    }

    /// Puts texts before and after the question; in a chat, the last message that the assistant
    /// answers.
    pub fn surround(&mut self, before: &str, after: &str) {
        match self {
            Self::Response { prompt, .. } => prompt.surround(before, after),
            Self::Messages { messages, .. } => {
                let last = messages.iter().rposition(|message| message["role"] == "assistant");
                surround_last(&mut messages[..last.unwrap_or_default()], before, after);
            }
        }
    }
}
