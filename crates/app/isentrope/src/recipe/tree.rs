//! A TOML file as a tree that remembers where each value was written.

use super::near;
use crate::run_directory;
use anyhow::{Context, Result, anyhow, bail};
use isentrope_files::open_regular;
use serde::Deserialize;
use std::borrow::Cow;
use std::io::{self, Read};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// Largest recipe that is read, in bytes.
const MAX_BYTES: u64 = 256 << 10;
/// Deepest nesting of keys.
pub const MAX_DEPTH: usize = 32;

/// A value and the place that gave it.
#[derive(Clone, Debug)]
pub struct Node {
    /// How errors name the place: `recipes/x.toml:12`, or the `--set` argument.
    pub at: String,
    /// The value.
    pub value: Value,
}

/// The content of a [`Node`].
#[derive(Clone, Debug)]
pub enum Value {
    /// Keys in the order written.
    Table(Vec<(String, Node)>),
    /// Items in order.
    Array(Vec<Node>),
    /// Anything else.
    Scalar(toml::Value),
    /// The text of a number that is too large to hold. No setting accepts it.
    TooLarge(String),
}

impl Node {
    /// The entries of a table; `what` is the table's name in the error.
    ///
    /// # Errors
    /// When the value is no table.
    pub fn table(&self, what: &str) -> Result<&[(String, Self)]> {
        match &self.value {
            Value::Table(entries) => Ok(entries),
            _ => bail!("{}: {what} must be a table", self.at),
        }
    }

    /// The value under a key of a table.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Value::Table(entries) = &self.value else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// A text that is not empty; `what` is its name in the error.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn text(&self, what: &str) -> Result<&str> {
        match &self.value {
            Value::Scalar(toml::Value::String(text)) if !text.is_empty() => Ok(text),
            _ => bail!("{}: {what} must be a string that is not empty", self.at),
        }
    }

    /// Refuses keys of a table that are not known. `path` stands before a key in the error, and
    /// `otherwise` behind one that is like none of them.
    ///
    /// # Errors
    /// With the first such key.
    pub fn only_keys(&self, path: &str, known: &[&str], otherwise: &str) -> Result<()> {
        let names: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
        let entries = self.table("it")?;
        let Some((key, node)) = entries.iter().find(|(key, _)| !names.contains(key)) else {
            return Ok(());
        };
        let hint = near::hint(key, &names).unwrap_or_else(|| otherwise.to_owned());
        bail!("{}: unknown key `{path}{key}`{hint}", node.at)
    }
}

/// Reads a TOML file.
///
/// # Errors
/// When the file cannot be read, is too large, nests too deeply or is not TOML.
pub fn read(path: &Path) -> Result<Node> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    run_directory::refuse_as_recipe(path)?;
    let file = open_regular(path).map_err(|error| unopened(&name, &error.into()))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(|| name.clone())?;
    if bytes.len() as u64 > MAX_BYTES {
        bail!("{name}: is larger than {} KiB, which no recipe is", MAX_BYTES >> 10);
    }
    let text = String::from_utf8(bytes).map_err(|_| anyhow!("{name}: is not UTF-8 text"))?;
    let line_ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).collect();
    let at = |offset| format!("{name}:{}", 1 + line_ends.partition_point(|&end| end < offset));
    parse(&text, &at)
}

fn unopened(name: &str, error: &io::Error) -> anyhow::Error {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => {
            "; `isentrope init` writes a recipe for your model and data, `isentrope examples` \
             writes some to start from"
        }
        _ => "",
    };
    anyhow!("{name}: {error}{remedy}")
}

/// Parses TOML; `at` says how errors name the place at a byte offset.
///
/// # Errors
/// When the text is not TOML, or nests too deeply.
pub fn parse(text: &str, at: &dyn Fn(usize) -> String) -> Result<Node> {
    let table = DeTable::parse(text).map_err(|e| not_toml(&e, at))?;
    let value = self::table(table.into_inner(), at, 0)?;
    Ok(Node { at: at(0), value })
}

fn not_toml(error: &toml::de::Error, at: &dyn Fn(usize) -> String) -> anyhow::Error {
    let offset = error.span().map_or(0, |span| span.start);
    anyhow!("{}: not valid TOML: {}", at(offset), error.message().replace('\n', ", "))
}

fn table(table: DeTable<'_>, at: &dyn Fn(usize) -> String, depth: usize) -> Result<Value> {
    let entry = |(key, value): (Spanned<Cow<'_, str>>, _)| {
        let start = key.span().start;
        Ok((key.into_inner().into_owned(), node(value, start, at, depth + 1)?))
    };
    Ok(Value::Table(table.into_iter().map(entry).collect::<Result<_>>()?))
}

fn node(
    value: Spanned<DeValue<'_>>,
    start: usize,
    at: &dyn Fn(usize) -> String,
    depth: usize,
) -> Result<Node> {
    if depth > MAX_DEPTH {
        bail!("{}: keys are nested more than {MAX_DEPTH} deep", at(start));
    }
    let span = value.span();
    let value = match value.into_inner() {
        DeValue::Table(inner) => table(inner, at, depth)?,
        DeValue::Array(items) => {
            let item = |item: Spanned<DeValue<'_>>| {
                let start = item.span().start;
                node(item, start, at, depth + 1)
            };
            Value::Array(items.into_iter().map(item).collect::<Result<_>>()?)
        }
        scalar => {
            let number = match &scalar {
                DeValue::Integer(number) => Some(number.to_string()),
                DeValue::Float(number) => Some(number.to_string()),
                _ => None,
            };
            match (
                toml::Value::deserialize(ValueDeserializer::from(Spanned::new(span, scalar))),
                number,
            ) {
                (Ok(scalar), _) => Value::Scalar(scalar),
                (Err(_), Some(number)) => Value::TooLarge(number),
                (Err(e), None) => bail!("{}: {}", at(start), e.message()),
            }
        }
    };
    Ok(Node { at: at(start), value })
}

impl From<Node> for toml::Value {
    fn from(node: Node) -> Self {
        match node.value {
            Value::Table(entries) => {
                Self::Table(entries.into_iter().map(|(key, node)| (key, node.into())).collect())
            }
            Value::Array(items) => Self::Array(items.into_iter().map(Into::into).collect()),
            Value::Scalar(value) => value,
            Value::TooLarge(number) => Self::String(number), // of a recipe that is refused
        }
    }
}
