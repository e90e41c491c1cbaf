//! From a list of messages to the text a model was trained on, by the Jinja template in its directory.
//!
//! Renders what `apply_chat_template(..., tokenize=False)` of transformers 5 renders. The rendered text holds its
//! own special tokens: encode it with `add_special = false`.
//!
//! Templates are programs from somewhere else. Their steps, their recursion and the length of what they render are
//! bounded; the size and nesting of values they build on the way (a string doubled forty times) are not.

mod environment;
mod python_json;
mod python_methods;
mod source;
mod strftime;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chrono::{Local, NaiveDateTime};
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value as JinjaValue};
use serde_json::{Map, Value};

use crate::contain::contain;
use crate::json_file::{describe, find_object, find_text};
use crate::tokenizer::SpecialTokens;
use crate::{Error, Result};

/// Largest template file read, in bytes.
const MAX_TEMPLATE_BYTES: u64 = 1 << 20;
/// Longest chat rendered, in bytes.
const MAX_RENDERED_BYTES: usize = 64 << 20;

/// Fields in which the reasoning of a message may stand, the one that templates read first.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    path: PathBuf,
    has_tool_use: bool,
    special: SpecialTokens,
}

impl ChatTemplate {
    /// Reads the chat template of the model in `dir`, or `None` if it has none.
    ///
    /// `chat_template.jinja` comes before `chat_template` in `tokenizer_config.json`, and that before
    /// `chat_template.json`. A list of named templates must have one called "default"; one called "tool_use" is
    /// rendered when tools are given.
    ///
    /// # Errors
    /// [`Error::Io`] when a file cannot be read; [`Error::Invalid`] naming file and line when a template does not
    /// compile.
    pub fn read(dir: &Path, special: &SpecialTokens) -> Result<Option<Self>> {
        let path = dir.join("chat_template.jinja");
        if let Some(source) = find_text(&path, MAX_TEMPLATE_BYTES)? {
            return Self::compile(path, &source, None, special).map(Some);
        }
        for name in ["tokenizer_config.json", "chat_template.json"] {
            let path = dir.join(name);
            let Some(object) = find_object(&path)? else { continue };
            match object.get("chat_template") {
                None | Some(Value::Null) => {}
                Some(Value::String(source)) => return Self::compile(path, source, None, special).map(Some),
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

    fn compile(path: PathBuf, source: &str, tool_use: Option<&str>, special: &SpecialTokens) -> Result<Self> {
        let mut environment = environment::new();
        for (name, source) in [("default", Some(source)), ("tool_use", tool_use)] {
            let Some(source) = source else { continue };
            if source.len() as u64 > MAX_TEMPLATE_BYTES {
                let what = format!("`chat_template` is larger than the limit of {MAX_TEMPLATE_BYTES} bytes");
                return Err(Error::invalid(&path, what));
            }
            environment
                .add_template_owned(name, source::adapt(source))
                .map_err(|e| Error::invalid(&path, at_line(&e)))?;
        }
        Ok(Self { environment, path, has_tool_use: tool_use.is_some(), special: special.clone() })
    }

    /// Renders `messages`, each an object such as `{"role": "user", "content": "..."}`, and with
    /// `add_generation_prompt` the beginning of the answer.
    ///
    /// `variables` are further variables of the template: `tools` and `documents` (lists of objects), and switches
    /// such as `enable_thinking`. They come before special tokens of the same name.
    ///
    /// # Errors
    /// [`Error::Input`] when a message is not an object or the template refuses the conversation;
    /// [`Error::Invalid`] naming file and line when rendering fails, runs too long or grows too large.
    pub fn render(
        &self,
        messages: &[Value],
        add_generation_prompt: bool,
        variables: &Map<String, Value>,
    ) -> Result<String> {
        self.render_at(Local::now().naive_local(), messages, add_generation_prompt, variables)
    }

    /// [`render`](Self::render) at a given local time.
    fn render_at(
        &self,
        now: NaiveDateTime,
        messages: &[Value],
        add_generation_prompt: bool,
        variables: &Map<String, Value>,
    ) -> Result<String> {
        let context = self.context(now, messages, add_generation_prompt, variables)?;
        let with_tools = self.has_tool_use && variables.get("tools").is_some_and(|tools| !tools.is_null());
        let name = if with_tools { "tool_use" } else { "default" };
        let template = self.environment.get_template(name).map_err(|e| self.failure(&e))?;
        let mut output = BoundedBuffer::default();
        contain(
            || template.render_captured_to(context, &mut output).map(drop).map_err(|e| self.failure(&e)),
            || Error::invalid(&self.path, "the template engine fails on this conversation"),
        )
        .map_err(|e| if output.overflowed { self.too_long() } else { e })?;
        String::from_utf8(output.bytes).map_err(|e| Error::invalid(&self.path, e.to_string()))
    }

    fn context(
        &self,
        now: NaiveDateTime,
        messages: &[Value],
        add_generation_prompt: bool,
        variables: &Map<String, Value>,
    ) -> Result<JinjaValue> {
        let mut context: Vec<(String, JinjaValue)> =
            vec![("tools".to_owned(), JinjaValue::from(())), ("documents".to_owned(), JinjaValue::from(()))];
        let now = JinjaValue::from_function(move |format: &str| strftime::format(&now, format));
        context.push(("strftime_now".to_owned(), now));
        context.extend(self.special.iter().map(|(role, text)| (role.to_owned(), JinjaValue::from(text))));
        for (name, value) in variables {
            match name.as_str() {
                "messages" | "add_generation_prompt" => {
                    return Err(Error::Input(format!("`{name}` cannot be an extra chat template variable")));
                }
                "tools" | "documents" => check_objects(name, value)?,
                _ => {}
            }
            context.push((name.clone(), JinjaValue::from(Serde(value))));
        }
        let messages = messages.iter().enumerate().map(|(index, message)| match message {
            Value::Object(message) => Ok(JinjaValue::from(Serde(with_reasoning_aliases(message)))),
            other => {
                Err(Error::Input(format!("message {index} must be an object, found {}", describe(other))))
            }
        });
        context.push(("messages".to_owned(), JinjaValue::from(messages.collect::<Result<Vec<_>>>()?)));
        context.push(("add_generation_prompt".to_owned(), JinjaValue::from(add_generation_prompt)));
        Ok(JinjaValue::from_pairs(context))
    }

    fn too_long(&self) -> Error {
        Error::invalid(&self.path, format!("the template renders more than {MAX_RENDERED_BYTES} bytes"))
    }

    fn failure(&self, error: &minijinja::Error) -> Error {
        if let Some(refusal) = environment::refusal(error) {
            return Error::Input(format!(
                "{}: line {}: the template refuses the conversation: {refusal}",
                self.path.display(),
                error.line().unwrap_or(0)
            ));
        }
        let what = match error.kind() {
            ErrorKind::OutOfFuel => "the template takes too many steps".to_owned(),
            _ => at_line(error),
        };
        Error::invalid(&self.path, what)
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

/// Transformers offers a message's reasoning under the names that templates read, whichever name it came under.
fn with_reasoning_aliases(message: &Map<String, Value>) -> Map<String, Value> {
    let reasoning =
        REASONING_FIELDS.iter().find_map(|field| message.get(*field).filter(|value| !value.is_null()));
    let Some(reasoning) = reasoning else { return message.clone() };
    let mut aliased = Map::new();
    aliased.insert("thinking".to_owned(), reasoning.clone());
    aliased.extend(message.clone());
    aliased.insert("reasoning_content".to_owned(), reasoning.clone());
    aliased
}

/// What went wrong in a template, after the line where it did.
fn at_line(error: &minijinja::Error) -> String {
    let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    format!("{line}{}{detail}", error.kind())
}

/// A buffer that refuses to grow beyond [`MAX_RENDERED_BYTES`].
#[derive(Default)]
struct BoundedBuffer {
    bytes: Vec<u8>,
    overflowed: bool,
}

impl Write for BoundedBuffer {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + piece.len() > MAX_RENDERED_BYTES {
            self.overflowed = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
