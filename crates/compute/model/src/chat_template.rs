//! Chat templates: render messages as the text that a model was trained on, by the Jinja template
//! in its directory.
//!
//! Renders the text of `apply_chat_template(..., tokenize=False)` of transformers 5. The text has
//! its own special tokens: encode it with `add_special = false`.
//!
//! Templates are untrusted programs. minijinja's fuel bounds their steps but not their memory:
//! forty times `x ~ x` make a terabyte. So a process with limits on memory and time compiles and
//! renders them.

mod date;
mod engine;
mod environment;
mod python_json;
mod python_methods;
mod source;
mod strftime;
mod wire;
mod worker;
mod worker_process;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::NaiveDateTime;
use serde_json::{Map, Value};

pub use self::date::Date;
use self::wire::{Conversation, Failure, Sources};
use crate::json_file::{describe, find_object, find_text};
use crate::tokenizer::SpecialTokens;
use crate::{Error, Result};

/// Largest template file read, in bytes.
const MAX_TEMPLATE_BYTES: u64 = 1 << 20;

/// Conversations at which a template may exceed a limit. After that it is not rendered again, as
/// each costs ten seconds; a single conversation may be at fault itself.
const MAX_EXCEEDED: usize = 3;

/// Fields of a message's reasoning, by precedence.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A chat template that compiles.
#[derive(Debug)]
pub struct ChatTemplate {
    /// Unique number, by which a worker knows the sources.
    id: u64,
    sources: Sources,
    path: PathBuf,
    special: SpecialTokens,
    /// Time for `strftime_now`, the same for every text.
    now: NaiveDateTime,
    /// Limits that rendering has exceeded so far.
    exceeded: Mutex<Vec<String>>,
}

impl ChatTemplate {
    /// Reads the chat template of the model in `dir`, or `None` if it has none.
    ///
    /// `chat_template.jinja` comes before `chat_template` in `tokenizer_config.json`, and that
    /// before `chat_template.json`. A list of named templates must have one called "default"; one
    /// called "tool_use" is rendered when tools are given.
    ///
    /// A template that asks for the date gets `date`, or today. The time is always midnight, so
    /// that the text does not depend on the hour.
    ///
    /// # Errors
    /// [`Error::Io`] when a file cannot be read; [`Error::Invalid`] naming file and line when a
    /// template does not compile.
    pub fn read(dir: &Path, special: &SpecialTokens, date: Option<Date>) -> Result<Option<Self>> {
        let template = Self::find(dir, special)?;
        let now = date.unwrap_or_else(Date::today).begins();
        Ok(template.map(|template| Self { now, ..template }))
    }

    fn find(dir: &Path, special: &SpecialTokens) -> Result<Option<Self>> {
        let path = dir.join("chat_template.jinja");
        if let Some(source) = find_text(&path, MAX_TEMPLATE_BYTES)? {
            return Self::compile(path, &source, None, special).map(Some);
        }
        for name in ["tokenizer_config.json", "chat_template.json"] {
            let path = dir.join(name);
            let Some(object) = find_object(&path)? else { continue };
            match object.get("chat_template") {
                None | Some(Value::Null) => {}
                Some(Value::String(source)) => {
                    return Self::compile(path, source, None, special).map(Some);
                }
                Some(Value::Array(list)) => {
                    let (default, tool_use) = named_templates(&path, list)?;
                    return Self::compile(path, default, tool_use, special).map(Some);
                }
                Some(other) => {
                    let found = describe(other);
                    let what = format!("`chat_template` must be a string or a list, found {found}");
                    return Err(Error::invalid(&path, what));
                }
            }
        }
        Ok(None)
    }

    fn compile(
        path: PathBuf,
        source: &str,
        tool_use: Option<&str>,
        special: &SpecialTokens,
    ) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if [Some(source), tool_use]
            .into_iter()
            .flatten()
            .any(|text| text.len() as u64 > MAX_TEMPLATE_BYTES)
        {
            let what =
                format!("`chat_template` is larger than the limit of {MAX_TEMPLATE_BYTES} bytes");
            return Err(Error::invalid(&path, what));
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let sources = Sources { default: source.to_owned(), tool_use: tool_use.map(str::to_owned) };
        let now = NaiveDateTime::default();
        let template =
            Self { id, sources, path, special: special.clone(), now, exceeded: Mutex::default() };
        worker::compile(id, &template.sources).map_err(|e| template.failure(e))?;
        Ok(template)
    }

    /// Whether its text may depend on the date.
    pub fn asks_for_date(&self) -> bool {
        let Sources { default, tool_use } = &self.sources;
        [Some(default), tool_use.as_ref()]
            .into_iter()
            .flatten()
            .any(|source| source.contains("strftime_now"))
    }

    /// The date that it gets, if it asks for it.
    pub fn date(&self) -> Option<Date> {
        self.asks_for_date().then(|| Date::of(self.now))
    }

    /// Renders `messages`, each an object such as `{"role": "user", "content": "..."}`, and with
    /// `add_generation_prompt` the beginning of the answer.
    ///
    /// `variables` are further variables of the template: `tools` and `documents` (lists of
    /// objects), and switches such as `enable_thinking`. They come before special tokens of the
    /// same name.
    ///
    /// # Errors
    /// [`Error::Input`] when a message is not an object or the template refuses the conversation;
    /// [`Error::Invalid`] naming file and line when rendering fails or exceeds a limit. After three
    /// excesses the error comes without rendering.
    pub fn render(
        &self,
        messages: &[Value],
        add_generation_prompt: bool,
        variables: &Map<String, Value>,
    ) -> Result<String> {
        let messages = messages.iter().enumerate().map(|(index, message)| match message {
            Value::Object(message) => Ok(Value::Object(with_reasoning_aliases(message))),
            other => Err(Error::Input(format!(
                "message {index} must be an object, found {}",
                describe(other)
            ))),
        });
        let messages = messages.collect::<Result<Vec<_>>>()?;
        for (name, value) in variables {
            match name.as_str() {
                "messages" | "add_generation_prompt" => {
                    return Err(Error::Input(format!(
                        "`{name}` cannot be an extra chat template variable"
                    )));
                }
                "tools" | "documents" => check_objects(name, value)?,
                _ => {}
            }
        }
        let with_tools = variables.get("tools").is_some_and(|tools| !tools.is_null());
        let conversation = Conversation {
            tool_use: with_tools && self.sources.tool_use.is_some(),
            add_generation_prompt,
            now: self.now.and_utc().timestamp_micros(),
            special: self
                .special
                .iter()
                .map(|(role, text)| (role.to_owned(), text.to_owned()))
                .collect(),
            messages: messages.len(),
            variables: variables.keys().cloned().collect(),
        };
        let values: Vec<&Value> = variables.values().collect();
        if let Some(what) = self.exceeded().get(MAX_EXCEEDED - 1) {
            return Err(Error::invalid(&self.path, format!("{what}, and is rendered no more")));
        }
        worker::render(self.id, &self.sources, conversation, &messages, &values).map_err(|error| {
            if let worker::Error::Template(Failure::Exceeded(what)) = &error {
                self.exceeded().push(what.clone());
            }
            self.failure(error)
        })
    }

    fn exceeded(&self) -> MutexGuard<'_, Vec<String>> {
        self.exceeded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self, error: worker::Error) -> Error {
        match error {
            worker::Error::Template(Failure::Invalid(what) | Failure::Exceeded(what)) => {
                Error::invalid(&self.path, what)
            }
            worker::Error::Template(Failure::Refused(line, what)) => Error::Input(format!(
                "{}: line {line}: the template refuses the conversation: {what}",
                self.path.display(),
            )),
            worker::Error::Worker(error) => Error::Input(format!(
                "{}: cannot start the template engine: {error}",
                self.path.display()
            )),
        }
    }
}

/// The "default" and "tool_use" templates in a list of `{"name": ..., "template": ...}`.
fn named_templates<'a>(path: &Path, list: &'a [Value]) -> Result<(&'a str, Option<&'a str>)> {
    let mut default = None;
    let mut tool_use = None;
    for (index, entry) in list.iter().enumerate() {
        let text = |key: &str| entry.get(key).and_then(Value::as_str);
        let (Some(name), Some(template)) = (text("name"), text("template")) else {
            let what = format!("`chat_template[{index}]` must have strings `name` and `template`");
            return Err(Error::invalid(path, what));
        };
        match name {
            "default" => default = Some(template),
            "tool_use" => tool_use = Some(template),
            _ => {}
        }
    }
    match default {
        Some(default) => Ok((default, tool_use)),
        None => Err(Error::invalid(path, "`chat_template` has no template named \"default\"")),
    }
}

fn check_objects(name: &str, value: &Value) -> Result<()> {
    match value {
        Value::Null => Ok(()),
        Value::Array(items) if items.iter().all(Value::is_object) => Ok(()),
        _ => Err(Error::Input(format!("`{name}` must be a list of objects"))),
    }
}

/// Offers a message's reasoning under both names that templates read, as transformers does.
fn with_reasoning_aliases(message: &Map<String, Value>) -> Map<String, Value> {
    let reasoning = REASONING_FIELDS
        .iter()
        .find_map(|field| message.get(*field).filter(|value| !value.is_null()));
    let Some(reasoning) = reasoning else { return message.clone() };
    let mut aliased = Map::new();
    aliased.insert("thinking".to_owned(), reasoning.clone());
    aliased.extend(message.clone());
    aliased.insert("reasoning_content".to_owned(), reasoning.clone());
    aliased
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
