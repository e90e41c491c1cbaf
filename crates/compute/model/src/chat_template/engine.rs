//! The template engine, without limits on memory, depth and time: only a worker may use it.

use std::io::{self, Write};

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value};

use super::wire::{Conversation, Failure};
use super::{environment, strftime};

/// Longest rendered chat, in bytes.
const MAX_RENDERED_BYTES: usize = 64 << 20;

/// A compiled template.
pub(super) struct Engine(Environment<'static>);

impl Engine {
    pub fn compile(source: &str) -> Result<Self, Failure> {
        let mut environment = environment::new();
        environment
            .add_template_owned("default", adapted(source))
            .map_err(|e| Failure::Invalid(at_line(&e)))?;
        Ok(Self(environment))
    }

    pub fn render(&self, conversation: &Conversation) -> Result<String, Failure> {
        let now = conversation.day.midnight();
        let now = Value::from_function(move |format: &str| strftime::format(&now, format));
        let variables = conversation.context.iter();
        let variables = variables.map(|(name, value)| (name.as_str(), Value::from(Serde(value))));
        let context = Value::from_pairs([("strftime_now", now)].into_iter().chain(variables));
        let template = self.0.get_template("default").map_err(|e| failure(&e))?;
        let mut output = BoundedBuffer::default();
        template.render_captured_to(context, &mut output).map_err(|e| {
            if output.overflowed {
                let what = format!("the template renders more than {MAX_RENDERED_BYTES} bytes");
                return Failure::Exceeded(what);
            }
            failure(&e)
        })?;
        String::from_utf8(output.bytes).map_err(|e| Failure::Invalid(e.to_string()))
    }
}

/// The source for minijinja. Line ends become `\n`; `generation` and `endgeneration` tags, by which
/// transformers marks the text of the assistant, become `with` and `endwith`: like the originals
/// they are a scope of their own and print their body.
fn adapted(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut pieces = source.split("{%");
    let mut adapted = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let tag = piece.trim_start_matches(['-', '+']).trim_start();
        let end = tag.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(tag.len());
        let (name, rest) = tag.split_at(end);
        let name = match name {
            "generation" => "with",
            "endgeneration" => "endwith",
            other => other,
        };
        let before = &piece[..piece.len() - tag.len()];
        adapted.extend(["{%", before, name, rest]);
    }
    adapted
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
