//! The template engine, without limits on memory, depth and time: only a worker may use it.

use std::io::{self, Write};

use chrono::DateTime;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value as JinjaValue};
use serde_json::Value;

use super::wire::{Conversation, Failure, Sources};
use super::{environment, source, strftime};

/// Longest rendered chat, in bytes.
const MAX_RENDERED_BYTES: usize = 64 << 20;

/// Compiled templates.
pub(super) struct Engine(Environment<'static>);

impl Engine {
    pub fn compile(sources: &Sources) -> Result<Self, Failure> {
        let mut environment = environment::new();
        for (name, text) in
            [("default", Some(&sources.default)), ("tool_use", sources.tool_use.as_ref())]
        {
            let Some(text) = text else { continue };
            environment
                .add_template_owned(name, source::adapt(text))
                .map_err(|e| Failure::Invalid(at_line(&e)))?;
        }
        Ok(Self(environment))
    }

    /// Renders a conversation with these messages and values of variables.
    pub fn render(
        &self,
        conversation: &Conversation,
        messages: &[Value],
        values: &[Value],
    ) -> Result<String, Failure> {
        let name = if conversation.tool_use { "tool_use" } else { "default" };
        let template = self.0.get_template(name).map_err(|e| failure(&e))?;
        let mut output = BoundedBuffer::default();
        template.render_captured_to(context(conversation, messages, values), &mut output).map_err(
            |e| {
                if output.overflowed {
                    let what = format!("the template renders more than {MAX_RENDERED_BYTES} bytes");
                    return Failure::Exceeded(what);
                }
                failure(&e)
            },
        )?;
        String::from_utf8(output.bytes).map_err(|e| Failure::Invalid(e.to_string()))
    }
}

fn context(conversation: &Conversation, messages: &[Value], values: &[Value]) -> JinjaValue {
    let mut context: Vec<(String, JinjaValue)> = vec![
        ("tools".to_owned(), JinjaValue::from(())),
        ("documents".to_owned(), JinjaValue::from(())),
    ];
    let now = DateTime::from_timestamp_micros(conversation.now).unwrap_or_default().naive_utc();
    let now = JinjaValue::from_function(move |format: &str| strftime::format(&now, format));
    context.push(("strftime_now".to_owned(), now));
    let special = conversation.special.iter();
    context.extend(special.map(|(role, text)| (role.clone(), JinjaValue::from(text))));
    for (name, value) in conversation.variables.iter().zip(values) {
        context.push((name.clone(), JinjaValue::from(Serde(value))));
    }
    let messages: Vec<_> =
        messages.iter().map(|message| JinjaValue::from(Serde(message))).collect();
    context.push(("messages".to_owned(), JinjaValue::from(messages)));
    context.push((
        "add_generation_prompt".to_owned(),
        JinjaValue::from(conversation.add_generation_prompt),
    ));
    JinjaValue::from_pairs(context)
}

fn failure(error: &minijinja::Error) -> Failure {
    if let Some(refusal) = environment::refusal(error) {
        return Failure::Refused(error.line().unwrap_or(0), refusal);
    }
    match error.kind() {
        ErrorKind::OutOfFuel => Failure::Exceeded("the template takes too many steps".to_owned()),
        _ => Failure::Invalid(at_line(error)),
    }
}

/// An error of a template, with its line.
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
