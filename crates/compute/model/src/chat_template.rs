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
mod strftime;
mod wire;
mod worker;
mod worker_process;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value};

pub use self::date::Date;
use self::wire::{Conversation, Failure};
use self::worker::Renderer;
use crate::json_file::{describe, find_object, find_text};
use crate::tokenizer::SpecialTokens;
use crate::{Error, Result};

/// Largest template file read, in bytes.
const MAX_TEMPLATE_BYTES: u64 = 1 << 20;

/// Template for conversations with tools, where transformers keeps it beside the file.
const TOOL_TEMPLATE: &str = "additional_chat_templates/tool_use.jinja";

/// Conversations at which a template may exceed a limit. After that it is not rendered again, as
/// each costs ten seconds; a single conversation may be at fault itself.
const MAX_EXCEEDED: usize = 3;

/// Fields of a message's reasoning, by precedence.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A chat template that compiles.
#[derive(Debug)]
pub struct ChatTemplate {
    path: PathBuf,
    renderer: Renderer,
    /// Whether the model has a second template, for conversations with tools.
    has_tool_template: bool,
    special: SpecialTokens,
    /// Day for `strftime_now`, the same for every text.
    day: Date,
    /// The number of times that rendering has exceeded a limit.
    exceeded: AtomicUsize,
}

impl ChatTemplate {
    /// Reads the chat template of the model in `dir`, or `None` if it has none.
    ///
    /// `chat_template.jinja` comes before `chat_template` in `tokenizer_config.json`, and that
    /// before `chat_template.json`. A list of named templates must have one called "default"; one
    /// called "tool_use" is not supported, nor is its file beside `chat_template.jinja`, and tools
    /// are refused then.
    ///
    /// A template that asks for the date gets `date`, or today. The time is always midnight, so
    /// that the text does not depend on the hour.
    ///
    /// # Errors
    /// [`Error::File`] when a file cannot be read; [`Error::Invalid`] naming file and line when a
    /// template does not compile.
    pub fn read(dir: &Path, special: &SpecialTokens, date: Option<Date>) -> Result<Option<Self>> {
        let compile = |path: PathBuf, source: &str, has_tool_template| {
            let day = date.unwrap_or_else(Date::today);
            Self::compile(path, source, has_tool_template, special, day).map(Some)
        };
        let path = dir.join("chat_template.jinja");
        if let Some(source) = find_text(&path, MAX_TEMPLATE_BYTES)? {
            return compile(path, &source, dir.join(TOOL_TEMPLATE).exists());
        }
        for name in ["tokenizer_config.json", "chat_template.json"] {
            let path = dir.join(name);
            let Some(object) = find_object(&path)? else { continue };
            match object.get("chat_template") {
                None | Some(Value::Null) => {}
                Some(Value::String(source)) => return compile(path, source, false),
                Some(Value::Array(list)) => {
                    let default = named_template(list, "default").ok_or_else(|| {
                        let what = "`chat_template` has no template named \"default\"";
                        Error::invalid(&path, what)
                    })?;
                    let has_tool_template = named_template(list, "tool_use").is_some();
                    return compile(path, default, has_tool_template);
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
        has_tool_template: bool,
        special: &SpecialTokens,
        day: Date,
    ) -> Result<Self> {
        if source.len() as u64 > MAX_TEMPLATE_BYTES {
            let what =
                format!("`chat_template` is larger than the limit of {MAX_TEMPLATE_BYTES} bytes");
            return Err(Error::invalid(&path, what));
        }
        let renderer = Renderer::compile(source).map_err(|failure| error(&path, failure))?;
        let (special, exceeded) = (special.clone(), AtomicUsize::new(0));
        Ok(Self { path, renderer, has_tool_template, special, day, exceeded })
    }

    /// Whether the template's text may depend on the date.
    pub fn asks_for_date(&self) -> bool {
        self.renderer.source().contains("strftime_now")
    }

    /// The date that the template gets, if it asks for one.
    pub fn date(&self) -> Option<Date> {
        self.asks_for_date().then_some(self.day)
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
        let mut context = Map::from_iter(["tools", "documents"].map(|n| (n.into(), Value::Null)));
        context.extend(self.special.iter().map(|(role, text)| (role.into(), text.into())));
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
            context.insert(name.clone(), value.clone());
        }
        if self.has_tool_template && !context["tools"].is_null() {
            return Err(Error::Input(format!(
                "{}: tools are rendered by a template named \"tool_use\", which is not supported",
                self.path.display()
            )));
        }
        let messages = messages.iter().enumerate().map(|(index, message)| match message {
            Value::Object(message) => Ok(Value::Object(with_reasoning_aliases(message))),
            other => Err(Error::Input(format!(
                "message {index} must be an object, found {}",
                describe(other)
            ))),
        });
        context.insert("messages".into(), messages.collect::<Result<_>>()?);
        context.insert("add_generation_prompt".into(), add_generation_prompt.into());
        if self.exceeded.load(Ordering::Relaxed) >= MAX_EXCEEDED {
            let what =
                format!("has exceeded its limits {MAX_EXCEEDED} times, and is rendered no more");
            return Err(Error::invalid(&self.path, what));
        }
        self.renderer.render(&Conversation { context, day: self.day }).map_err(|failure| {
            if matches!(failure, Failure::Exceeded(_)) {
                self.exceeded.fetch_add(1, Ordering::Relaxed);
            }
            error(&self.path, failure)
        })
    }
}

/// The error for a failure of the template from `path`.
fn error(path: &Path, failure: Failure) -> Error {
    let shown = path.display();
    match failure {
        Failure::Invalid(what) | Failure::Exceeded(what) => Error::invalid(path, what),
        Failure::Refused(line, what) => Error::Input(format!(
            "{shown}: line {line}: the template refuses the conversation: {what}"
        )),
        Failure::NoWorker(what) => {
            Error::Input(format!("{shown}: cannot start the template engine: {what}"))
        }
    }
}

/// The template with this name in a list of `{"name": ..., "template": ...}`.
fn named_template<'a>(list: &'a [Value], name: &str) -> Option<&'a str> {
    list.iter().rfind(|entry| entry["name"] == name)?["template"].as_str()
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
