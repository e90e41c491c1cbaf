//! An axis of a sweep: named values, each with some settings.

use crate::recipe::{self, Node, Value};
use anyhow::{Result, anyhow, bail};

/// An axis along which runs differ.
pub struct Axis {
    pub name: String,
    /// In the order written.
    pub values: Vec<AxisValue>,
    /// Whether the axis is the seed, over which means are taken.
    pub is_seed: bool,
}

/// One of the values of an axis.
pub struct AxisValue {
    /// The name of its directory.
    pub name: String,
    /// The settings.
    pub settings: Node,
}

/// Longest name of a value, in bytes.
const LONGEST: usize = 64;

/// Names of a sweep's own files in its directory.
const RESERVED: [&str; 3] = ["report.html", "table.json", "table.md"];

impl Axis {
    /// Either `{ key = "run.seed", values = [1, 2] }`, or a table of settings for each value.
    ///
    /// # Errors
    /// The fault, by file and line.
    pub fn parse(name: &str, node: &Node) -> Result<Self> {
        let at = format!("axes.{name}");
        let entries = node.table(&at)?;
        let is_table = |(_, node): &(String, Node)| matches!(node.value, Value::Table(_));
        let (values, is_seed) = match entries.iter().all(is_table) {
            true => (bundles(&at, entries)?, false),
            false => listed(&at, node)?,
        };
        if values.is_empty() {
            bail!("{}: {at} has no values", node.at);
        }
        for (i, value) in values.iter().enumerate() {
            // Some file systems ignore the case of letters.
            if let Some(same) =
                values[..i].iter().find(|other| other.name.eq_ignore_ascii_case(&value.name))
            {
                bail!(
                    "{}: {at} has {} and {}, which would share a directory",
                    value.settings.at,
                    same.name,
                    value.name
                );
            }
        }
        Ok(Self { name: name.to_owned(), values, is_seed })
    }

    /// The index of the value with this name; `at` is the name's place in the file.
    ///
    /// # Errors
    /// When there is no such value.
    pub fn named_value(&self, name: &str, at: &str, what: &str) -> Result<usize> {
        let names: Vec<String> = self.values.iter().map(|value| value.name.clone()).collect();
        names.iter().position(|known| known == name).ok_or_else(|| {
            anyhow!(
                "{at}: {what} names {name:?} of the axis `{}`, which has {}{}",
                self.name,
                names.join(", "),
                recipe::hint(name, &names).unwrap_or_default()
            )
        })
    }
}

/// `[axes.method.grpo]`: each value is a table of settings.
fn bundles(at: &str, entries: &[(String, Node)]) -> Result<Vec<AxisValue>> {
    let value = |(name, node): &(String, Node)| {
        check_name(name, &node.at, &format!("{at}.{name}"))?;
        Ok(AxisValue { name: name.clone(), settings: node.clone() })
    };
    entries.iter().map(value).collect()
}

/// `{ key = "...", values = [...] }`: the values of one key.
fn listed(at: &str, node: &Node) -> Result<(Vec<AxisValue>, bool)> {
    node.only_keys(&format!("{at}."), &["key", "values"], "")?;
    let (Some(key), Some(values)) = (node.get("key"), node.get("values")) else {
        bail!(
            "{}: {at} must be {{ key = \"a.key\", values = [..] }}, \
             or have a table of settings for each value, such as [{at}.NAME]",
            node.at
        );
    };
    let path = key.text(&format!("{at}.key"))?;
    let Value::Array(items) = &values.value else {
        bail!("{}: {at}.values must be an array", values.at);
    };
    let value = |item: &Node| {
        let name = plain(item).filter(|name| is_safe(name)).ok_or_else(|| {
            anyhow!(
                "{}: {at}.values has a value that cannot be the name of a directory; \
                 give each value a name: [{at}.NAME] with {path} = ... below it",
                item.at
            )
        })?;
        check_name(&name, &item.at, &format!("{at}.values"))?;
        let settings = recipe::nested(path, item.clone()).ok_or_else(|| {
            anyhow!("{}: {at}.key is {path:?}, which is not a path of keys such as a.b.c", key.at)
        })?;
        Ok(AxisValue { name, settings })
    };
    Ok((items.iter().map(value).collect::<Result<_>>()?, path == "run.seed"))
}

/// A number, a text or a boolean as text; None for anything else.
pub fn plain(node: &Node) -> Option<String> {
    match &node.value {
        Value::Scalar(toml::Value::String(text)) => Some(text.clone()),
        Value::Scalar(value @ (toml::Value::Integer(_) | toml::Value::Boolean(_))) => {
            Some(value.to_string())
        }
        Value::Scalar(toml::Value::Float(x)) => Some(format!("{x:?}")),
        _ => None,
    }
}

fn is_safe(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    !name.is_empty()
        && name.len() <= LONGEST
        && !name.starts_with(['.', '-'])
        && name.chars().all(is_plain)
}

/// Refuses a name that some file systems do not allow, or that a file of the sweep has.
pub fn check_name(name: &str, place: &str, at: &str) -> Result<()> {
    if !is_safe(name) {
        bail!(
            "{place}: {at}: {name:?} cannot be the name of a directory: take letters, digits, \
             -, _, . and +, at most {LONGEST}, and begin with neither . nor -"
        );
    }
    let is_taken = RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name));
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    if is_taken || ["log", "partial", "toml"].iter().any(|taken| taken.eq_ignore_ascii_case(ending))
    {
        bail!(
            "{place}: {at}: the sweep itself has files that are called {name:?} or end like it: \
             take another name"
        );
    }
    Ok(())
}
