//! The Jinja environment that transformers gives to chat templates.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, Value, escape_formatter, filters,
};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::python_json;

/// Most steps of a template, about a second. A real one takes some hundred per message.
const FUEL: u64 = 10_000_000;

/// Makes an environment that behaves like Jinja2 in transformers.
pub(super) fn new() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax());
    environment.set_fuel(Some(FUEL));
    environment.set_debug(false);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(format_value);
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.add_filter("tojson", python_json::tojson);
    environment.add_filter("string", |value: &Value| python_json::to_str(value));
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_test("sequence", is_sequence);
    environment.add_function("raise_exception", raise_exception);
    environment
}

fn syntax() -> SyntaxConfig {
    let mut builder = SyntaxConfig::builder();
    builder.trim_blocks(true).lstrip_blocks(true);
    // Only contradicting delimiters fail, and these are the defaults.
    builder.build().unwrap_or_default()
}

/// Prints as Python's `str` does.
fn format_value(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match python_json::float(value) {
        Some(float) => out.write_str(&python_json::float_repr(float)).map_err(Error::from),
        None => escape_formatter(out, state, value),
    }
}

/// In Jinja2 an undefined value has no items.
fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() { Ok(0) } else { filters::length(value) }
}

/// In Jinja2 a sequence is anything with a length and an index, strings and mappings too.
fn is_sequence(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map
    )
}

/// Message of `raise_exception`, carried through the engine as the source of an error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

fn raise_exception(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (message,): (&Value,) = from_args(&args)?;
    let refusal = Refusal(message.to_string());
    Err(Error::new(ErrorKind::InvalidOperation, refusal.0.clone()).with_source(refusal))
}

/// The message if `error` comes from `raise_exception`.
pub(super) fn refusal(error: &Error) -> Option<String> {
    let mut source = std::error::Error::source(error);
    while let Some(current) = source {
        if let Some(refusal) = current.downcast_ref::<Refusal>() {
            return Some(refusal.0.clone());
        }
        source = current.source();
    }
    None
}
