//! The tokens between two turns of the model, and before the first if an environment opens the
//! episode.
//!
//! Sampled tokens stay as they are: only the text that follows them is encoded. The chat template
//! renders the conversation with a mark in place of the model's turn; the text behind the mark is
//! the end of the turn, the new messages and the beginning of the next turn. An end token that was
//! sampled stands for the one at the head of this text.
//!
//! Special tokens that an environment writes are plain text: `literal_text` keeps them from the
//! template and from the tokenizer.
//!
//! Some templates write an earlier turn differently once others follow (Qwen3's drops its
//! reasoning). The model keeps seeing what it sampled, and a warning says so.

use std::sync::atomic::Ordering;

use isentrope_data::Prompt;
use serde_json::{Value, json};

use crate::literal_text::LiteralTexts;
use crate::prompter::Prompter;

/// The messages of an episode so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    messages: Vec<Value>,
    /// Whether the prompt goes through the chat template.
    uses_template: bool,
}

impl Conversation {
    /// Adds the messages that open an episode.
    pub fn open(&mut self, messages: Vec<Value>) {
        self.messages.extend(messages);
    }

    /// Adds a turn of the model and the messages that answer it.
    pub fn extend(&mut self, turn: &str, messages: Vec<Value>) {
        self.messages.push(assistant(turn));
        self.messages.extend(messages);
    }
}

/// The tokens that follow a prompt or a turn of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenTokens {
    /// The tokens, which go behind the sampled ones.
    pub tokens: Vec<u32>,
    /// The messages in them: their texts may have been cut.
    pub messages: Vec<Value>,
    /// A note, once of each [`Prompter`], that the chat template writes earlier turns differently.
    pub warning: Option<String>,
}

/// Follows a text that was cut.
const CUT: &str = " [cut]";

/// Characters of a text for each token that it may have; more are cut before the text is encoded.
const CHARACTERS_PER_TOKEN: usize = 256;

/// Turns at which the model's text is compared with the template's.
pub(crate) const COMPARISONS: usize = 256;

/// Most characters of a text that a warning shows.
const SHOWN: usize = 40;

impl Prompter {
    /// The conversation that a prompt begins.
    pub fn conversation(&self, prompt: &Prompt) -> Conversation {
        let mut messages = match prompt {
            Prompt::Text(text) | Prompt::Beginning(text) => {
                vec![json!({"role": "user", "content": text})]
            }
            Prompt::Chat(messages) => messages.clone(),
        };
        let uses_template = self.uses_template(prompt);
        if uses_template {
            self.add_system(&mut messages);
        }
        Conversation { messages, uses_template }
    }

    /// The tokens behind a turn of the model, which has the text `turn` without the end token
    /// `ended` that was sampled; None if the turn ended otherwise. `messages` are the
    /// environment's, with a role and a text each. Texts that come to more than `most` tokens
    /// together are cut.
    ///
    /// Without a chat template each message is a line of its own: a newline, its text, a newline.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the messages or the chat template.
    pub fn between_turns(
        &self,
        conversation: &Conversation,
        turn: &str,
        ended: Option<u32>,
        messages: &[Value],
        most: usize,
    ) -> Result<GivenTokens, String> {
        let mut messages = messages.to_vec();
        for message in &mut messages {
            let content = message["content"].as_str().ok_or("a message has no text as content")?;
            let longest = most.saturating_mul(CHARACTERS_PER_TOKEN);
            if let Some((end, _)) = content.char_indices().nth(longest) {
                message["content"] = format!("{}{CUT}", &content[..end]).into();
            }
        }
        // The text before decides only whether the first word is one within a text.
        let end = ended.and_then(|token| self.tokenizer.special_text(token)).unwrap_or_default();
        let before = format!("{turn}{end}");
        let mut room = None;
        let (tail, tokens) = loop {
            let literal = LiteralTexts::take(&self.tokenizer, &mut messages)?;
            let tail = self.tail(conversation, &mut messages, |messages| {
                self.tail_of_turn(conversation, ended, messages)
            })?;
            let tokens = literal.encode_after(&self.tokenizer, &before, &tail)?;
            literal.put_back(&mut messages);
            if tokens.len() <= most || room == Some(0) {
                break (literal.restored(&tail), tokens);
            }
            room = Some(match room {
                // The frame around the texts keeps its tokens.
                None => (most + self.content_tokens(&messages)?).saturating_sub(tokens.len()),
                // The notes of what was cut, and texts that a template writes twice.
                Some(room) => room / 4 * 3,
            });
            self.cut(&mut messages, room.unwrap_or_default())?;
        };
        if tokens.is_empty() {
            return Err("nothing stands between its turns: neither the messages nor the chat \
                        template have a token there"
                .into());
        }
        let warning = self.warning(conversation, turn, &end, &tail, &messages);
        Ok(GivenTokens { tokens, messages, warning })
    }

    /// The tokens behind a prompt that an environment opens an episode with: its messages, and the
    /// beginning of the model's first turn.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the messages or the chat template.
    pub fn opening(
        &self,
        conversation: &Conversation,
        prompt: &Prompt,
        messages: &[Value],
    ) -> Result<GivenTokens, String> {
        let (head, mut messages) = (self.render(prompt)?, messages.to_vec());
        let literal = LiteralTexts::take(&self.tokenizer, &mut messages)?;
        let tail = self.tail(conversation, &mut messages, |messages| {
            let all = [&conversation.messages, messages].concat();
            let text = self.apply_template(&all, &self.tools, true)?;
            text.strip_prefix(&*head).map(str::to_owned).ok_or_else(|| {
                "the chat template writes the prompt differently once messages follow it".to_owned()
            })
        })?;
        let tokens = literal.encode_after(&self.tokenizer, &head, &tail)?;
        literal.put_back(&mut messages);
        Ok(GivenTokens { tokens, messages, warning: None })
    }

    /// Tokens of all texts.
    fn content_tokens(&self, messages: &[Value]) -> Result<usize, String> {
        let contents = messages.iter().filter_map(|message| message["content"].as_str());
        let encoded = contents.map(|content| self.tokenizer.encode(content, false));
        encoded.map(|tokens| Ok(tokens.map_err(|e| e.to_string())?.len())).sum()
    }

    /// Cuts each text to its share of `room` tokens.
    fn cut(&self, messages: &mut [Value], room: usize) -> Result<(), String> {
        let share = room / messages.len().max(1);
        for message in messages {
            let content = message["content"].as_str().unwrap_or_default();
            let content = content.strip_suffix(CUT).unwrap_or(content);
            let tokens = self.tokenizer.encode(content, false).map_err(|e| e.to_string())?;
            if tokens.len() > share {
                let kept = &tokens[..share];
                let kept = self.tokenizer.decode(kept, false).map_err(|e| e.to_string())?;
                // The last token may be a part of a character.
                let kept = kept.trim_end_matches('\u{fffd}');
                message["content"] = format!("{kept}{CUT}").into();
            }
        }
        Ok(())
    }

    /// The text that gives the model messages, by the chat template as `templated` or as lines.
    /// Where the template cannot write the role `tool`, such messages become the user's.
    fn tail(
        &self,
        conversation: &Conversation,
        messages: &mut [Value],
        templated: impl Fn(&[Value]) -> Result<String, String>,
    ) -> Result<String, String> {
        if !conversation.uses_template {
            let lines = messages.iter().filter_map(|message| message["content"].as_str());
            return Ok(lines.map(|content| format!("\n{content}\n")).collect());
        }
        let with_all = |messages: &[Value]| {
            let tail = templated(messages)?;
            check_written(&tail, messages)?;
            Ok(tail)
        };
        let tail = with_all(messages);
        let mut of_tools = messages.iter_mut().filter(|message| message["role"] == "tool");
        if tail.is_ok() || of_tools.by_ref().map(|of| of["role"] = "user".into()).count() == 0 {
            return tail;
        }
        with_all(messages)
    }

    /// The template's text behind a turn of the model, without the end token if the model has
    /// sampled `ended`, which stands for it.
    fn tail_of_turn(
        &self,
        conversation: &Conversation,
        ended: Option<u32>,
        messages: &[Value],
    ) -> Result<String, String> {
        let mark = mark(&conversation.messages, messages);
        let text = self.rendered_after(conversation, &mark, messages)?;
        let (_, tail) = text
            .rsplit_once(&mark)
            .ok_or("the chat template does not write the assistant's messages")?;
        let Some(ended) = ended else { return Ok(tail.to_owned()) };
        let behind = |end: String| tail.trim_start().strip_prefix(&*end);
        let text = |token| self.tokenizer.special_text(token);
        let mut behind_end = text(ended).and_then(behind);
        // Another stop token may stand within a turn.
        if behind_end.is_none() && self.eos_tokens.contains(&ended) {
            behind_end = self.eos_tokens.iter().copied().filter_map(text).find_map(behind);
            behind_end =
                behind_end.or_else(|| self.template_end(conversation, &mark).and_then(behind));
        }
        Ok(behind_end.unwrap_or(tail).to_owned())
    }

    /// The special token with which the template ends a turn of the model. Without one, a special
    /// token that heads the text behind a turn begins the next message.
    fn template_end(&self, conversation: &Conversation, mark: &str) -> Option<String> {
        let all = [&conversation.messages[..], &[assistant(mark)]].concat();
        let text = self.apply_template(&all, &self.tools, false).ok()?;
        let end = text.rsplit_once(mark)?.1.trim();
        self.tokenizer.special_token(end).map(|_| end.to_owned())
    }

    /// The whole conversation as the template writes it, up to the beginning of the next turn.
    fn rendered_after(
        &self,
        conversation: &Conversation,
        turn: &str,
        messages: &[Value],
    ) -> Result<String, String> {
        let mut all = conversation.messages.clone();
        all.push(assistant(turn));
        all.extend_from_slice(messages);
        self.apply_template(&all, &self.tools, true)
    }

    /// Compares what the model sees with the template's own text of the conversation, at the first
    /// turns of all: it takes two renderings.
    fn warning(
        &self,
        conversation: &Conversation,
        turn: &str,
        end: &str,
        tail: &str,
        messages: &[Value],
    ) -> Option<String> {
        if !conversation.uses_template || self.comparisons.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let prompt = self.apply_template(&conversation.messages, &self.tools, true).ok()?;
        let head = format!("{prompt}{turn}");
        let own = self.rendered_after(conversation, turn, messages).ok()?;
        let own_end = own.strip_prefix(&head).and_then(|rest| rest.strip_suffix(tail));
        // The model's own end token may stand for another one of the template's.
        let special = |text: &str| self.tokenizer.special_token(text);
        let is_own = special(end).is_some_and(|token| self.eos_tokens.contains(&token));
        if own_end.is_some_and(|own| own == end || (is_own && special(own).is_some())) {
            let count = |left: usize| left.checked_sub(1);
            let _ = self.comparisons.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
            return None;
        }
        if self.comparisons.swap(0, Ordering::Relaxed) == 0 {
            return None; // another thread has said so
        }
        let seen = format!("{head}{end}{tail}");
        let same = seen.chars().zip(own.chars()).take_while(|(a, b)| a == b).count();
        let part = |text: &str| text.chars().skip(same).take(SHOWN).collect::<String>();
        Some(format!(
            "the chat template writes a turn of the model differently once others follow: {:?} \
             where the model sampled or was given {:?}; it goes on seeing the latter",
            part(&own),
            part(&seen)
        ))
    }
}

/// Checks that a template has written all messages.
fn check_written(tail: &str, messages: &[Value]) -> Result<(), String> {
    let is_lost = |message: &&Value| {
        !tail.contains(longest_word(message["content"].as_str().unwrap_or_default()))
    };
    messages.iter().find(is_lost).map_or(Ok(()), |lost| {
        Err(format!("the chat template does not write messages of the role {}", lost["role"]))
    })
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// A word that none of these messages has, and no template.
fn mark(before: &[Value], after: &[Value]) -> String {
    let text = format!("{}{}", Value::from(before), Value::from(after));
    let mut mark = "7c1f5e0b".to_owned();
    while text.contains(&mark) {
        mark.push('0');
    }
    mark
}

/// The longest run of letters and digits, which every template writes as it is.
fn longest_word(text: &str) -> &str {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.max_by_key(|word| word.len()).unwrap_or_default()
}
